//! A client on another machine. It measures how long etcd does not answer, and asks what etcd holds.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use serde_json::json;

use nodes::again::Again;
use nodes::etcd::base64;
use nodes::gateway::{post, within};
use nodes::scenarios::cuts::writer::{address, missing};

/// The pause between two questions. It is the precision of a measured time without an answer.
const PAUSE: Duration = Duration::from_millis(40);

/// The range of the stage's first keys: the prefix, and the first key after it.
const OLD: [&str; 2] = ["/registry/pods/", "/registry/pods0"];

/// The prefix of the keys that make the database large. Otherwise its copy would be too short to cut in the
/// middle.
const BULK: &str = "/bulk/";

/// What etcd holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// How many of the keys from the beginning of the comparison etcd has.
    pub old: u64,
    /// etcd's revision.
    pub revision: u64,
}

/// Asks etcd again and again, in a thread. The questions are linearizable, so an answer means that etcd can write.
#[derive(Debug)]
pub struct Watch(Again<Instant>);

impl Watch {
    /// Starts to ask.
    pub fn begin(namespace: &Path) -> Self {
        Self(Again::begin(Some(namespace), PAUSE, || Ok(held().is_ok().then(Instant::now))))
    }

    /// Stops, and returns the longest time between two answers.
    pub fn end(self) -> Result<Duration> {
        let answered = self.0.end()?;
        let gaps = answered.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().context("etcd did not answer twice while it was watched")
    }
}

/// Asks etcd single questions, from inside the run's network namespace.
#[derive(Debug, Clone)]
pub struct Client(PathBuf);

impl Client {
    /// A client for the nodes of a run.
    pub fn new(namespace: PathBuf) -> Self {
        Self(namespace)
    }

    /// The namespace.
    pub fn namespace(&self) -> &Path {
        &self.0
    }

    /// What etcd holds. `None` when etcd does not answer.
    pub fn held(&self) -> Result<Option<Held>> {
        within(&self.0, || Ok(held().ok()))
    }

    /// How many of the acknowledged writes etcd has lost.
    pub fn lost(&self, acknowledged: &[u64]) -> Result<usize> {
        Ok(missing(&self.0, acknowledged)?.len())
    }

    /// Writes random values, which cannot be compressed.
    pub fn fill(&self, count: usize, bytes: usize) -> Result<()> {
        within(&self.0, || {
            let mut chance = Rng::with_seed(0);
            let mut value = vec![0; bytes];
            for number in 0..count {
                chance.fill(&mut value);
                let key = base64(format!("{BULK}{number:06}").as_bytes());
                post(&address(), "/v3/kv/put", &json!({ "key": key, "value": base64(&value) }))?;
            }
            Ok(())
        })
    }
}

fn held() -> Result<Held> {
    let range = json!({ "key": base64(OLD[0].as_bytes()), "range_end": base64(OLD[1].as_bytes()), "count_only": true });
    let answer = post(&address(), "/v3/kv/range", &range)?;
    // The gateway omits fields whose value is 0.
    let count = answer["count"].as_str().unwrap_or("0").parse()?;
    let revision = answer["header"]["revision"].as_str().unwrap_or_default().parse()?;
    Ok(Held { old: count, revision })
}

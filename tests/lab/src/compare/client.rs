//! A client on another machine. It measures how long etcd does not answer, and asks what etcd holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use fastrand::Rng;
use serde_json::json;

use bed::etcd::base64;
use bed::gateway::{enter, post};
use bed::scenarios::cuts::writer::{address, missing};

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

/// Asks etcd again and again, in a thread.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Instant>>>,
}

impl Watch {
    /// Starts to ask. The questions are linearizable, so an answer means that etcd can write.
    pub fn begin(namespace: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, namespace) = (Arc::clone(&stop), namespace.to_path_buf());
        let thread = std::thread::spawn(move || {
            enter(&namespace)?;
            let mut answered = Vec::new();
            while !asked.load(Ordering::Relaxed) {
                if held().is_ok() {
                    answered.push(Instant::now());
                }
                std::thread::sleep(PAUSE);
            }
            Ok(answered)
        });
        Self { stop, thread }
    }

    /// Stops, and returns the longest time between two answers.
    pub fn end(self) -> Result<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let answered = self.thread.join().map_err(|_| anyhow!("the client panicked"))??;
        answered
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .context("etcd did not answer twice while it was watched")
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
        self.within(|| Ok(held().ok()))
    }

    /// How many of the acknowledged writes etcd has lost.
    pub fn lost(&self, acknowledged: &[u64]) -> Result<usize> {
        Ok(missing(&self.0, acknowledged)?.len())
    }

    /// Writes random values, which cannot be compressed.
    pub fn fill(&self, count: usize, bytes: usize) -> Result<()> {
        self.within(|| {
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

    /// Runs in a new thread, because a thread that enters a network namespace stays in it.
    fn within<T: Send>(&self, ask: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                enter(&self.0)?;
                ask()
            });
            thread.join().map_err(|_| anyhow!("the client panicked"))?
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

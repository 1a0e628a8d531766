//! A client on another machine that measures: how long etcd didn't answer, and what it holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use fastrand::Rng;
use serde_json::json;

use crate::etcd::base64;
use crate::scenarios::cuts::writer::{address, enter, missing, post};

/// Between two questions: this is how exact a time without an answer is.
const PAUSE: Duration = Duration::from_millis(40);

/// The first keys of the stage, and what comes after the last of them.
const OLD: [&str; 2] = ["/registry/pods/", "/registry/pods0"];

/// What makes the database large enough to be in the middle of.
const BULK: &str = "/bulk/";

/// What etcd holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// How many of the keys that every comparison begins with.
    pub old: u64,
    /// etcd's revision.
    pub revision: u64,
}

/// Asks all the time.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Instant>>>,
}

impl Watch {
    /// Begins to ask, linearizably: an answer means that etcd can write.
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

    /// The longest time between two answers.
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

/// What is asked once, from within the run's network namespace.
#[derive(Debug, Clone)]
pub struct Client(PathBuf);

impl Client {
    /// For the node of a run.
    pub fn new(namespace: PathBuf) -> Self {
        Self(namespace)
    }

    /// The namespace.
    pub fn namespace(&self) -> &Path {
        &self.0
    }

    /// What etcd holds; `None` when it doesn't answer.
    pub fn held(&self) -> Result<Option<Held>> {
        self.within(|| Ok(held().ok()))
    }

    /// How many of these numbers etcd lacks.
    pub fn lost(&self, acknowledged: &[u64]) -> Result<usize> {
        Ok(missing(&self.0, acknowledged)?.len())
    }

    /// Puts values that can't be packed.
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

    /// In a thread, because a network namespace is a thread's.
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
    // The gateway leaves out what is 0.
    let count = answer["count"].as_str().unwrap_or("0").parse()?;
    let revision = answer["header"]["revision"].as_str().unwrap_or_default().parse()?;
    Ok(Held { old: count, revision })
}

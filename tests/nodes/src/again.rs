//! A thread that does one thing again and again until it is told to end, such as a client of etcd.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::gateway::enter;

/// The thread, and what it has found so far. It ends also when this is dropped, such as by a scenario that fails.
#[derive(Debug)]
pub struct Again<T> {
    stop: Stop,
    thread: JoinHandle<Result<Vec<T>>>,
}

/// Asks the thread to end when it is dropped.
#[derive(Debug)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<T: Send + 'static> Again<T> {
    /// Begins in this network namespace, or in that of the caller. Between two times it pauses. An error ends it.
    pub fn begin(
        namespace: Option<&Path>,
        pause: Duration,
        mut once: impl FnMut() -> Result<Option<T>> + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, namespace) = (Arc::clone(&stop), namespace.map(PathBuf::from));
        let thread = std::thread::spawn(move || {
            if let Some(namespace) = namespace {
                enter(&namespace)?;
            }
            let mut found = Vec::new();
            while !asked.load(Ordering::Relaxed) {
                found.extend(once()?);
                std::thread::sleep(pause);
            }
            Ok(found)
        });
        Self { stop: Stop(stop), thread }
    }

    /// Asks it to end, and does not wait: one of several that are to end together.
    pub fn stop(&self) {
        self.stop.0.store(true, Ordering::Relaxed);
    }

    /// Ends it, and returns what it has found.
    pub fn end(self) -> Result<Vec<T>> {
        self.stop();
        self.thread.join().map_err(|_| anyhow!("a thread of the bed panicked"))?
    }
}

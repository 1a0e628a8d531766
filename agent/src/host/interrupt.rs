//! SIGTERM, SIGINT and SIGHUP as a request to stop, which long work checks.
//!
//! The signals don't end the process at once: `apply` must put etcd back first.

use nix::sys::signal::{SigSet, Signal};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// A request to stop this process. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
    ignored: Arc<AtomicBool>,
    notify: Arc<Notify>,
}

impl Interrupt {
    /// Blocks the three signals in this thread and in all threads that it starts later, and waits for them in another
    /// thread. Programs that this process starts get an empty mask, because std resets it.
    pub(super) fn install() -> io::Result<Self> {
        let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        let interrupt = Self::default();
        let shared = interrupt.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            while signals.wait().is_ok() {
                shared.request();
            }
        })?;
        Ok(interrupt)
    }

    /// Asks all clones to stop.
    pub(super) fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// One that is never set.
    pub fn never() -> Self {
        Self::default()
    }

    /// True if work should end now.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst) && !self.ignored.load(Ordering::SeqCst)
    }

    /// Ignores all requests from now on, because putting etcd back must not be interrupted.
    pub fn ignore(&self) {
        self.ignored.store(true, Ordering::SeqCst);
    }

    /// Ends when a request comes, or at once if there was one already.
    pub async fn requested(&self) {
        loop {
            let notified = self.notify.notified();
            if self.is_requested() {
                return;
            }
            notified.await;
        }
    }
}

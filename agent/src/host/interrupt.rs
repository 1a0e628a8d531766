//! SIGTERM, SIGINT and SIGHUP as a request that long work looks at.
//!
//! A request, not an end: `apply` must put etcd back before it leaves.

use nix::sys::signal::{SigSet, Signal};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// Whether somebody asked this process to stop. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
    ignored: Arc<AtomicBool>,
    notify: Arc<Notify>,
}

impl Interrupt {
    /// Blocks the three signals in this thread (and so in all later ones) and waits for them
    /// in a thread of its own. Programs that are started get an empty mask: std resets it.
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

    /// One that nobody ever sets.
    pub fn never() -> Self {
        Self::default()
    }

    /// Whether work should end now.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst) && !self.ignored.load(Ordering::SeqCst)
    }

    /// From here on nothing is interrupted: the way back must be walked to its end.
    pub fn ignore(&self) {
        self.ignored.store(true, Ordering::SeqCst);
    }

    /// Ends when a request comes; at once if there was one.
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

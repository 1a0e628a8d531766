//! SIGTERM, SIGINT and SIGHUP as a request to stop, which long work checks.
//!
//! While a config or a secret is read they end the process at once, as they end any program. After that a verb asks for one
//! of two ways: [`Interrupt::watch`] for what only reads, so that the tools that it runs end too, and [`Interrupt::hold`] for
//! what changes the node, because `apply` must put etcd back first. SIGHUP means that the terminal is gone, and a run may
//! continue without it.

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
    outlives_terminal: Arc<AtomicBool>,
    notify: Arc<Notify>,
}

impl Interrupt {
    /// Blocks these signals in this thread and in all threads that it starts later, and waits for them in another
    /// thread. Programs that this process starts block them too, so only SIGKILL ends one (`system::stop`). Call it before the
    /// process has more than one thread: the kernel gives a signal to any thread that does not block it.
    pub(super) fn watch(&self) -> io::Result<()> {
        let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        let shared = self.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            while let Ok(signal) = signals.wait() {
                shared.received(signal);
            }
        })?;
        Ok(())
    }

    /// Like [`Interrupt::watch`]. Nothing suspends the process either.
    pub(super) fn hold(&self) -> io::Result<()> {
        // The terminal's other signals would suspend the process, perhaps while etcd is stopped: Ctrl-Z, and a line that
        // it prints from the background. A blocked SIGTTOU lets the line through (kernel `drivers/tty/tty_jobctrl.c`).
        let suspending: SigSet = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU].into_iter().collect();
        suspending.thread_block()?;
        self.watch()
    }

    fn received(&self, signal: Signal) {
        if signal != Signal::SIGHUP || !self.outlives_terminal.load(Ordering::SeqCst) {
            self.request();
        }
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

    /// Ignores SIGHUP from now on: the work continues without its terminal. SIGTERM and SIGINT still ask it to stop.
    pub fn outlive_terminal(&self) {
        self.outlives_terminal.store(true, Ordering::SeqCst);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_outlives_its_terminal_and_nothing_else() {
        let interrupt = Interrupt::never();
        interrupt.outlive_terminal();
        interrupt.received(Signal::SIGHUP);
        assert!(!interrupt.is_requested());
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let interrupt = Interrupt::never();
            interrupt.outlive_terminal();
            interrupt.received(signal);
            assert!(interrupt.is_requested(), "{signal}");
        }
        let reader = Interrupt::never();
        reader.received(Signal::SIGHUP);
        assert!(reader.is_requested());
    }
}

//! SIGINT, SIGTERM and SIGHUP end the bed in order: what it started first, then itself.

use std::io::Write as _;
use std::thread;

use anyhow::Result;
use nix::sys::signal::{SigSet, Signal};

use crate::ledger::Ender;

/// Blocks the signals for every thread to come and watches for them in one. To be called before other threads start.
pub fn watch(run: Ender) -> Result<()> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    thread::spawn(move || {
        if let Ok(signal) = signals.wait() {
            // After a SIGHUP the terminal is gone, and eprintln! would panic instead of ending anything.
            let _ = writeln!(std::io::stderr(), "bed: {signal}: ending what this run started");
            run.end();
            std::process::exit(128 + signal as i32);
        }
    });
    Ok(())
}

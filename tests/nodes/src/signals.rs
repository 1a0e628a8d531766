//! SIGINT, SIGTERM and SIGHUP end the bed in order: first the processes that it started, then itself.

use std::io::Write as _;
use std::thread;

use anyhow::Result;
use nix::sys::signal::{SigSet, Signal};

use crate::ledger::Ender;

/// Blocks the signals in every later thread, and waits for them in one thread. Call it before any other
/// thread starts.
pub fn watch(run: Ender) -> Result<()> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    thread::spawn(move || {
        if let Ok(signal) = signals.wait() {
            // After a SIGHUP the terminal is gone. eprintln! would panic then, and the run would not end.
            let _ = writeln!(std::io::stderr(), "bed: {signal}: ending what this run started");
            run.end();
            std::process::exit(128 + signal as i32);
        }
    });
    Ok(())
}

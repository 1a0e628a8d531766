//! Makes a process slow: it runs for 10 ms of every 100 ms.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const STOPPED: Duration = Duration::from_millis(90);
const RUNNING: Duration = Duration::from_millis(10);

/// The process is slow until this value is dropped.
#[derive(Debug)]
pub struct Slow {
    pid: Pid,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    /// Starts to slow the process down.
    pub fn begin(pid: Pid) -> Self {
        let (end, asked) = channel::<()>();
        let thread = std::thread::spawn(move || {
            // Nobody sends a value. Dropping the sender ends the wait.
            let lasts = |span| asked.recv_timeout(span) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            while kill(pid, Signal::SIGSTOP).is_ok() && lasts(STOPPED) {
                if kill(pid, Signal::SIGCONT).is_err() || !lasts(RUNNING) {
                    break;
                }
            }
        });
        Self { pid, end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        kill(self.pid, Signal::SIGCONT).ok();
    }
}

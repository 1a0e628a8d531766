//! Work beside an etcd that serves: the lowest priority for processors and for disks.

use super::{Host, Invocation, Tool};
use rustix::process::{getpriority_process, setpriority_process};
use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

/// The lowest priority of setpriority(2).
const LOWEST: i32 = 19;
/// A rest is over after this time at the latest, so that an interruption is noticed.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The rest after this much work: as long as the work was, so that half of the time is left to others.
pub fn rest_after(worked: Duration) -> Duration {
    let rested = worked.min(LONGEST_REST);
    thread::sleep(rested);
    rested
}

/// The thread that made it works in the background until this is dropped, and with it the threads and programs that it starts
/// meanwhile.
///
/// An idle I/O class counts where the disk's scheduler heeds it: bfq does, and mq-deadline from kernel 5.14 on
/// (`block/mq-deadline.c`); `none`, which NVMe disks have, does not. A priority that cannot be had is only logged.
#[derive(Debug)]
pub struct Background<'a> {
    host: &'a Host,
    before: Option<i32>,
    /// The end of the last rest.
    rested: Cell<Instant>,
}

impl<'a> Background<'a> {
    /// Begins to work in the background.
    pub fn enter(host: &'a Host) -> Self {
        let before = getpriority_process(None).ok();
        set(LOWEST);
        io_class(host, "idle");
        Self { host, before, rested: Cell::new(Instant::now()) }
    }

    /// Rests for as long as this thread has worked since it rested.
    pub fn rest(&self) {
        rest_after(self.rested.get().elapsed());
        self.rested.set(Instant::now());
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set(before);
        }
        // The class that a process has before anything was set: it follows from its priority (ioprio_set(2)).
        io_class(self.host, "none");
    }
}

/// On Linux this is the priority of the calling thread, not of its process (setpriority(2)).
fn set(priority: i32) {
    if let Err(error) = setpriority_process(None, priority) {
        tracing::debug!("setting the priority {priority}: {error}");
    }
}

/// With a process's id, ionice(1) sets the class of its main thread, which does all that others do not do for it.
fn io_class(host: &Host, class: &str) {
    if !host.runner.has(Tool::Ionice) {
        return;
    }
    let pid = std::process::id().to_string();
    match host.run(&Invocation::new(Tool::Ionice, ["--class", class, "--pid", &pid])) {
        Ok(output) if output.code == 0 => {}
        Ok(output) => tracing::debug!("setting the I/O class {class}: {}", output.stderr.trim()),
        Err(error) => tracing::debug!("setting the I/O class {class}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Root, transcript::NoTools};

    /// In a thread of its own: without the right to it, nobody gets a priority back.
    #[test]
    fn the_priority_is_the_lowest_meanwhile() {
        let priority = || getpriority_process(None).unwrap();
        std::thread::spawn(move || {
            let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
            let background = Background::enter(&host);
            assert_eq!(priority(), LOWEST);
            let child = std::thread::spawn(priority);
            assert_eq!(child.join().unwrap(), LOWEST);
            drop(background);
        })
        .join()
        .unwrap();
    }
}

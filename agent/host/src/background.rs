//! Work beside an etcd that serves: on one processor, and with the lowest priority for processors and for disks.

use super::{Host, Invocation, Tool};
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The lowest priority of setpriority(2).
const LOWEST: i32 = 19;

/// The thread that made it works in the background until this is dropped, and with it the threads and programs that it starts
/// meanwhile.
///
/// An idle I/O class counts where the disk's scheduler heeds it: bfq does, and mq-deadline from kernel 5.14 on
/// (`block/mq-deadline.c`); `none`, which NVMe disks have, does not. What cannot be had is only logged.
#[derive(Debug)]
pub struct Background<'a> {
    host: &'a Host,
    priority: Option<i32>,
    processors: Option<CpuSet>,
}

impl<'a> Background<'a> {
    /// Begins to work in the background.
    pub fn enter(host: &'a Host) -> Self {
        let priority = getpriority_process(None).ok();
        let processors = sched_getaffinity(None).ok();
        set_priority(LOWEST);
        if let Some(all) = &processors {
            // The first processor often has more interrupts than the others.
            let last = (0..CpuSet::MAX_CPU).rev().find(|number| all.is_set(*number));
            let mut one = CpuSet::new();
            last.into_iter().for_each(|number| one.set(number));
            run_on(&one);
        }
        set_io_class(host, "idle");
        Self { host, priority, processors }
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.priority {
            set_priority(before);
        }
        if let Some(before) = &self.processors {
            run_on(before);
        }
        // The class of a process before anything was set: it follows from its priority (ioprio_set(2)).
        set_io_class(self.host, "none");
    }
}

/// On Linux this is the priority of the calling thread, not of its process (setpriority(2)).
fn set_priority(priority: i32) {
    if let Err(error) = setpriority_process(None, priority) {
        tracing::debug!("setting the priority {priority}: {error}");
    }
}

/// Of the calling thread.
fn run_on(processors: &CpuSet) {
    if let Err(error) = sched_setaffinity(None, processors) {
        tracing::debug!("choosing processors: {error}");
    }
}

/// With a process's id, ionice(1) sets the class of its main thread, which does all that others do not do for it.
fn set_io_class(host: &Host, class: &str) {
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
    use crate::{Root, transcript::NoTools};

    /// In a thread of its own: without the right to it, nobody gets a priority back.
    #[test]
    fn one_processor_and_the_lowest_priority_meanwhile() {
        std::thread::spawn(|| {
            let now = || (getpriority_process(None).unwrap(), sched_getaffinity(None).unwrap().count());
            let (_, processors) = now();
            let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
            let background = Background::enter(&host);
            assert_eq!(now(), (LOWEST, 1));
            assert_eq!(std::thread::spawn(now).join().unwrap(), (LOWEST, 1));
            drop(background);
            assert_eq!(now().1, processors);
        })
        .join()
        .unwrap();
    }
}

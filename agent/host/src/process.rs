//! Other processes.

use super::Host;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    time::{Duration, Instant},
};
use terms::AbsPath;

/// The processes with a path below a directory as an argument, and their names: proc_pid_cmdline(5).
pub fn with_argument_below(host: &Host, dir: &AbsPath) -> io::Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for pid in all(host)? {
        let read = |what: &str| fs::read(host.root.locate(format!("/proc/{pid}/{what}")));
        // Root may read all of them, so an error means that the process has ended.
        let (Ok(line), Ok(comm)) = (read("cmdline"), read("comm")) else { continue };
        let below = |argument: &[u8]| Path::new(OsStr::from_bytes(argument)).starts_with(dir.as_path());
        if line.split(|byte| *byte == 0).any(below) {
            found.push((pid, String::from_utf8_lossy(comm.trim_ascii()).into_owned()));
        }
    }
    Ok(found)
}

/// All processes that can be seen from here.
pub fn all(host: &Host) -> io::Result<Vec<u32>> {
    Ok(host.root.list("/proc")?.into_iter().filter_map(|entry| entry.parse().ok()).collect())
}

/// The processes with a name, as in `/proc/<pid>/comm` (its first 15 bytes: proc_pid_comm(5)). Processes of containers
/// are included, if they can be seen from here.
pub fn named(host: &Host, name: &str) -> io::Result<Vec<u32>> {
    let pids = all(host)?.into_iter();
    // Everyone may read it, so an error means that the process has ended.
    let comm = |pid: &u32| fs::read(host.root.locate(format!("/proc/{pid}/comm"))).unwrap_or_default();
    Ok(pids.filter(|pid| comm(pid).trim_ascii_end() == name.as_bytes()).collect())
}

/// Returns true if this error for a file below `/proc/<pid>` means that the process has ended. `process` is that
/// directory.
///
/// For a link, such as `cwd` or `ns/mnt`, the kernel reports EACCES if the process ends after the path was looked up
/// (`proc_fd_access_allowed` in `fs/proc/base.c`, `proc_ns_get_link` in `fs/proc/namespaces.c`). So EACCES counts only
/// if the directory is gone too. A new process with the same number keeps the error.
fn has_ended(error: &io::Error, process: &Path) -> bool {
    let gone = || fs::symlink_metadata(process).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::PermissionDenied => gone(),
        _ => error.raw_os_error() == Some(nix::libc::ESRCH),
    }
}

/// None instead of an error that means that the process has ended (see [`has_ended`]).
pub(super) fn while_it_lives<T>(process: &Path, result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if has_ended(&error, process) => Ok(None),
        other => other.map(Some),
    }
}

/// Waits until one of these processes has ended, by handles of them (`pidfd_open(2)`), or for this time. Says whether one is
/// known to have ended, even if its parent has not waited for it yet. Returns an error if this process is asked to stop
/// meanwhile. A kernel without such handles (before 5.3) waits for the whole time, but for no more than 200 ms.
pub fn wait_for_an_end(host: &Host, pids: &[u32], limit: Duration) -> io::Result<bool> {
    let mut handles = Vec::new();
    for pid in pids {
        let pid = i32::try_from(*pid).ok().and_then(rustix::process::Pid::from_raw);
        let Some(pid) = pid else { continue };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handles.push(handle),
            Err(rustix::io::Errno::SRCH) => return Ok(true),
            Err(_) => return host.pause(limit.min(Duration::from_millis(200))).map(|()| false),
        }
    }
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(100));
        let left = PollTimeout::try_from(left).map_err(io::Error::other)?;
        let mut watched: Vec<_> =
            handles.iter().map(|handle| PollFd::new(handle.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut watched, left) {
            Ok(0) | Err(Errno::EINTR) if host.interrupt.is_requested() => {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            Ok(0) | Err(Errno::EINTR) if Instant::now() < deadline => {}
            Ok(ended) => return Ok(ended > 0),
            Err(Errno::EINTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Asks a process to end (SIGTERM). If it has ended already, that is no error.
pub fn terminate(pid: u32) -> io::Result<()> {
    let raw = i32::try_from(pid).ok().filter(|pid| *pid > 1);
    let pid = raw.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{pid} is not the id of a single process"))
    })?;
    match kill(Pid::from_raw(pid), Signal::SIGTERM) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => {
            Err(io::Error::new(io::Error::from(error).kind(), format!("ending process {pid}: {error}")))
        }
    }
}

/// A process that was asked to end, by a handle of it.
#[derive(Debug)]
pub struct Asked(OwnedFd);

impl Asked {
    /// Returns true if it is known to have ended, even if its parent has not waited for it yet.
    pub fn has_ended(&self) -> bool {
        let mut watched = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut watched, PollTimeout::ZERO), Ok(1..))
    }
}

/// Asks a process to end (SIGTERM) if it is still the one that is meant when a handle of it is open: its number may be another
/// process's by now. Returns none if it was not asked. A kernel without such handles (before 5.3) asks nobody.
pub fn terminate_if(pid: u32, is_meant: impl FnOnce() -> io::Result<bool>) -> io::Result<Option<Asked>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return Ok(None);
    };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::NOSYS) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !is_meant()? {
        return Ok(None);
    }
    match pidfd_send_signal(&handle, rustix::process::Signal::TERM) {
        Ok(()) => Ok(Some(Asked(handle))),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interrupt, Root, system::SystemRunner, transcript::NoTools};
    use std::{
        io::{Read, Write},
        os::unix::process::ExitStatusExt,
        process::{Command, Stdio},
    };

    #[test]
    fn an_error_of_a_process_that_has_ended() {
        use nix::libc::{EACCES, EIO, ENOENT, ESRCH};
        let (alive, ended) = (std::env::temp_dir(), Path::new("/proc/4294967295"));
        for (code, of_alive, of_ended) in
            [(ENOENT, true, true), (ESRCH, true, true), (EACCES, false, true), (EIO, false, false)]
        {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(
                (has_ended(&error, &alive), has_ended(&error, ended)),
                (of_alive, of_ended),
                "{error}"
            );
        }
    }

    #[test]
    fn found_by_an_argument() {
        let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
        let dir = format!("/nowhere/{}", std::process::id());
        let mut child = Command::new("sh")
            .args(["-c", "read x", &format!("{dir}/2/")])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let found = || with_argument_below(&host, &dir.parse().unwrap()).unwrap();
        while found().is_empty() {} // until the child has become sh
        assert_eq!(found(), [(child.id(), "sh".to_owned())]);
        assert!(with_argument_below(&host, &format!("{dir}/2/3").parse().unwrap()).unwrap().is_empty());
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn ends_a_child_and_never_everybody() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        terminate(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        terminate(child.id()).unwrap();
        // For kill(2), 0 and negative numbers are groups of processes, and 1 is systemd.
        for pid in [0, 1, u32::MAX] {
            assert!(terminate(pid).is_err(), "{pid}");
        }
    }

    #[test]
    fn the_end_of_any_process_ends_the_wait() {
        let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
        let [mut long, mut short] =
            ["60", "0.5"].map(|time| Command::new("sleep").arg(time).spawn().unwrap());
        let took = |pids: &[u32], limit: u64| {
            let begun = std::time::Instant::now();
            let ended = wait_for_an_end(&host, pids, Duration::from_millis(limit)).unwrap();
            (ended, begun.elapsed())
        };
        let soon = |(ended, span)| ended && span < Duration::from_secs(20);
        let not_at_all = |(ended, span): (bool, Duration)| !ended && span >= Duration::from_millis(100);
        assert!(soon(took(&[long.id(), short.id()], 30_000)));
        assert!(soon(took(&[short.id()], 0)), "the test has not waited for it yet");
        short.wait().unwrap();
        assert!(soon(took(&[long.id(), short.id()], 30_000)));
        assert!(not_at_all(took(&[long.id()], 100)));
        assert!(not_at_all(took(&[], 100)));
        terminate(long.id()).unwrap();
        long.wait().unwrap();
    }

    #[test]
    fn found_by_their_whole_name() {
        let runner = Box::new(SystemRunner::new(Interrupt::never()).unwrap());
        let host = Host::fixture(Root::new("/"), runner).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // `spawn` may return before the kernel has set the name.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert!(named(&host, "cat").unwrap().contains(&child.id()));
        assert!(!named(&host, "ca").unwrap().contains(&child.id()));
        terminate(child.id()).unwrap();
        child.wait().unwrap();
        assert!(!named(&host, "cat").unwrap().contains(&child.id()));
    }
}

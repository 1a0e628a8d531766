//! Other processes.

use super::Host;
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, io};

/// The processes of a name, as `/proc/<pid>/comm` has it (its first 15 bytes: proc_pid_comm(5)), in any container whose
/// processes can be seen from here.
pub fn named(host: &Host, name: &str) -> io::Result<Vec<u32>> {
    let pids = host.root.list("/proc")?.into_iter().filter_map(|entry| entry.parse().ok());
    // Everybody may read it, so an error says that the process has ended.
    let comm = |pid: &u32| fs::read(host.root.locate(format!("/proc/{pid}/comm"))).unwrap_or_default();
    Ok(pids.filter(|pid| comm(pid).trim_ascii_end() == name.as_bytes()).collect())
}

/// Asks a process to end (SIGTERM). One that has ended already is well.
pub fn terminate(pid: u32) -> io::Result<()> {
    let raw = i32::try_from(pid).ok().filter(|pid| *pid > 1);
    let pid = raw
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{pid} is no process to end")))?;
    match kill(Pid::from_raw(pid), Signal::SIGTERM) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => {
            Err(io::Error::new(io::Error::from(error).kind(), format!("ending process {pid}: {error}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{named, terminate};
    use crate::host::{Host, Interrupt, Root, system::SystemRunner};
    use std::{
        io::{Read, Write},
        os::unix::process::ExitStatusExt,
        process::{Command, Stdio},
    };

    #[test]
    fn ends_a_child_and_never_everybody() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        terminate(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        terminate(child.id()).unwrap();
        // To kill(2), 0 and negative numbers are groups of processes, and 1 is systemd.
        for pid in [0, 1, u32::MAX] {
            assert!(terminate(pid).is_err(), "{pid}");
        }
    }

    #[test]
    fn found_by_their_whole_name() {
        let runner = Box::new(SystemRunner::new(Interrupt::never()).unwrap());
        let host = Host::fixture(Root::new("/"), runner).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // `spawn` may return before the kernel has given the name: what answers has it.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert!(named(&host, "cat").unwrap().contains(&child.id()));
        assert!(!named(&host, "ca").unwrap().contains(&child.id()));
        terminate(child.id()).unwrap();
        child.wait().unwrap();
        assert!(!named(&host, "cat").unwrap().contains(&child.id()));
    }
}

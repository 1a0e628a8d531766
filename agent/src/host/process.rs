//! Other processes.

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::io;

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
    use super::terminate;
    use std::{os::unix::process::ExitStatusExt, process::Command};

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
}

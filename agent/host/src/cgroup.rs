//! Cgroups of processes: proc_pid_cgroup(5), cgroups(7).
//!
//! ```text
//! 0::/system.slice/sshd.service
//! 1:name=systemd:/user.slice/user-0.slice/session-1.scope
//! ```
//!
//! The first form is that of version 2, the second is systemd's own hierarchy in version 1.

use super::{Host, process::while_it_lives};
use std::{fmt::Display, io};

/// The cgroup by which systemd tracks a process: `self`, or its id. None if the process has ended. `/` on a machine whose
/// cgroups systemd doesn't use.
///
/// The path is relative to the root of the caller's cgroup namespace. It begins with `/..` for a cgroup outside of it
/// (cgroup_namespaces(7)).
pub fn of(host: &Host, process: impl Display) -> io::Result<Option<String>> {
    let dir = format!("/proc/{process}");
    let text = while_it_lives(&host.root.locate(&dir), host.root.read(format!("{dir}/cgroup")))?;
    Ok(text.map(|text| parse(&text).to_owned()))
}

/// Returns true if this process has another cgroup namespace than PID 1, as the processes of a container have.
pub fn is_in_namespace_of_its_own(host: &Host) -> io::Result<bool> {
    // Without cgroup namespaces in the kernel both are absent.
    Ok(host.root.read_link("/proc/self/ns/cgroup")? != host.root.read_link("/proc/1/ns/cgroup")?)
}

fn parse(text: &str) -> &str {
    let path = |wanted: &str| {
        text.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(wanted)?.strip_prefix(':'))
    };
    // In the hybrid mode of systemd both are there, and systemd moves a process in its own hierarchy first.
    path("name=systemd").or_else(|| path("")).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, transcript::NoTools};

    #[test]
    fn of_each_version() {
        for (text, found) in [
            ("0::/system.slice/etcd-lun-apply.scope\n", "/system.slice/etcd-lun-apply.scope"),
            ("0::/../../system.slice/x.scope\n", "/../../system.slice/x.scope"),
            ("12:memory:/a\n1:name=systemd:/b/c:d.scope\n0::/\n", "/b/c:d.scope"),
            ("12:memory:/a\n", "/"),
            ("garbage", "/"),
            ("", "/"),
        ] {
            assert_eq!(parse(text), found, "{text}");
        }
    }

    #[test]
    fn only_of_a_process_that_lives() {
        let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
        assert!(of(&host, std::process::id()).unwrap().unwrap().starts_with('/'));
        assert_eq!(of(&host, u32::MAX).unwrap(), None);
    }
}

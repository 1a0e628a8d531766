//! Cgroups of processes: proc_pid_cgroup(5), cgroups(7).
//!
//! ```text
//! 0::/system.slice/sshd.service
//! 1:name=systemd:/user.slice/user-0.slice/session-1.scope
//! ```
//!
//! The first form is that of version 2, the second is systemd's own hierarchy in version 1.

use super::{Host, process::while_it_lives};
use std::{io, path::PathBuf};

/// The cgroup of a process: `self`, or its id. None if the process has ended.
///
/// The path is relative to the root of the caller's cgroup namespace. It begins with `/..` for a cgroup outside of it
/// (cgroup_namespaces(7)).
pub fn of(host: &Host, process: &str) -> io::Result<Option<PathBuf>> {
    let dir = format!("/proc/{process}");
    let text = while_it_lives(&host.root.locate(&dir), host.root.read(format!("{dir}/cgroup")))?;
    Ok(text.as_deref().and_then(parse))
}

/// Whether this process has another cgroup namespace than PID 1, as the processes of a container have.
pub fn is_in_namespace_of_its_own(host: &Host) -> io::Result<bool> {
    // Without cgroup namespaces in the kernel both are absent.
    Ok(host.root.read_link("/proc/self/ns/cgroup")? != host.root.read_link("/proc/1/ns/cgroup")?)
}

fn parse(text: &str) -> Option<PathBuf> {
    let path = |wanted: &str| {
        text.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(wanted)?.strip_prefix(':'))
    };
    // In the hybrid mode of systemd both are there, and systemd moves a process in its own hierarchy first.
    path("name=systemd").or_else(|| path("")).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_version() {
        for (text, found) in [
            ("0::/system.slice/etcd-lun-apply.scope\n", Some("/system.slice/etcd-lun-apply.scope")),
            ("0::/../../system.slice/x.scope\n", Some("/../../system.slice/x.scope")),
            ("12:memory:/a\n1:name=systemd:/b/c:d.scope\n0::/\n", Some("/b/c:d.scope")),
            ("12:memory:/a\n", None),
            ("garbage", None),
            ("", None),
        ] {
            assert_eq!(parse(text), found.map(PathBuf::from), "{text}");
        }
    }
}

//! Mount namespaces: whether ours is PID 1's, joining that one, and one of our own.

use super::Host;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    unistd::{chroot, fchdir},
};
use rustix::{
    fd::OwnedFd,
    fs::{CWD, Mode, OFlags, openat},
};
use std::{env, fs, io, path::PathBuf};

/// Whether the calling thread sees the mounts that PID 1 sees.
///
/// PID 1 is the one of our PID namespace: in a container with PIDs of its own the answer says
/// nothing about the node. Unknown is an error, such as without the right to look at PID 1
/// (ptrace(2), "PTRACE_MODE_READ").
pub fn is_in_namespace_of_pid1(host: &Host) -> io::Result<bool> {
    let [ours, of_pid1] = [OURS, OF_PID1].map(|path| mount_namespace(host, path));
    Ok(ours? == of_pid1?)
}

// Not /proc/self: that is the main thread, and a mount namespace belongs to a thread.
pub(super) const OURS: &str = "/proc/thread-self/ns/mnt";
pub(super) const OF_PID1: &str = "/proc/1/ns/mnt";

pub(super) fn mount_namespace(host: &Host, path: &str) -> io::Result<PathBuf> {
    // Such as "mnt:[4026531841]": namespaces(7).
    let absent =
        || io::Error::new(io::ErrorKind::NotFound, format!("{path} is not there; is /proc mounted?"));
    host.root.read_link(path)?.ok_or_else(absent)
}

/// How [`join_pid1`] went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// This process was in PID 1's mount namespace already.
    Same,
    /// It was in another one, such as a container's, and is in PID 1's now.
    Joined,
}

/// Joins PID 1's mount namespace: from here on every path means what it means to PID 1, also `/` and what is
/// relative to the working directory, which is the one of the same name. In a container with PIDs of
/// its own, PID 1 is the container's.
///
/// Only while the process has one thread: who shares its root and working directory with
/// another can't leave it (setns(2), "Mount namespaces"; `EINVAL`). Needs `CAP_SYS_ADMIN`,
/// `CAP_SYS_CHROOT`, and the right to look at PID 1 (ptrace(2), `PTRACE_MODE_READ_FSCREDS`).
/// After an error the process may be in PID 1's namespace with `/` as its working directory.
pub fn join_pid1() -> io::Result<Joined> {
    // By their names, for opening them is one more right (SELinux), and a service needs none to stay.
    let [ours, theirs] = [OURS, OF_PID1]
        .map(|path| fs::read_link(path).map_err(|error| explain(&format!("looking at {path}"), &error)));
    if ours? == theirs? {
        return Ok(Joined::Same);
    }
    // All that is needed of the old view is opened before it is left.
    let theirs = open(OF_PID1, OFlags::RDONLY)?;
    let root = open("/proc/1/root", OFlags::PATH | OFlags::DIRECTORY)?;
    let here = env::current_dir()
        .map_err(|error| io::Error::new(error.kind(), format!("finding the working directory: {error}")))?;
    let step = |doing: &str, done: nix::Result<()>| done.map_err(|errno| explain(doing, &errno.into()));
    step("joining PID 1's mount namespace", setns(theirs, CloneFlags::CLONE_NEWNS))?;
    // setns leads to the namespace's root, where PID 1 may have gone on from.
    step("going to PID 1's root directory", fchdir(root).and_then(|()| chroot(".")))?;
    env::set_current_dir(&here).map_err(|error| {
        let said = format!(
            "the working directory {} can't be entered in PID 1's mount namespace: {error}; start from /",
            here.display()
        );
        io::Error::new(error.kind(), said)
    })?;
    Ok(Joined::Joined)
}

fn open(path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| explain(&format!("opening {path}"), &error.into()))
}

fn explain(doing: &str, error: &io::Error) -> io::Error {
    let cure = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": it takes root with CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE, as in a privileged pod"
        }
        io::ErrorKind::NotFound => ": is /proc mounted here?",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{doing}: {error}{cure}"))
}

/// Gives the calling thread a mount namespace of its own: what it mounts from here on nobody
/// else sees, and it goes with the thread.
///
/// All mounts become slaves: what PID 1 mounts and unmounts later still arrives here, where `/`
/// is shared (as under systemd). Other threads stay where they are; programs that this thread
/// starts come along. Needs `CAP_SYS_ADMIN`: unshare(2), mount_namespaces(7).
pub fn private_mounts() -> io::Result<()> {
    let step = |doing: &str, done: nix::Result<()>| {
        done.map_err(|errno| {
            let error = io::Error::from(errno);
            io::Error::new(error.kind(), format!("{doing}: {error}"))
        })
    };
    step("making a mount namespace", unshare(CloneFlags::CLONE_NEWNS))?;
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    step("making all mounts slaves", mount(None::<&str>, "/", None::<&str>, flags, None::<&str>))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Root, identity, transcript::NoTools};

    fn host(root: impl Into<PathBuf>) -> Host {
        Host::fixture(Root::new(root), Box::new(NoTools)).unwrap()
    }

    #[test]
    fn same_other_and_unknown() {
        let base = std::env::temp_dir().join(format!("etcd-lun-namespace-{}", std::process::id()));
        let host = host(&base);
        for dir in ["1", "thread-self"] {
            std::fs::create_dir_all(base.join("proc").join(dir).join("ns")).unwrap();
        }
        let link = |pid: &str, to: &str| {
            let at = base.join("proc").join(pid).join("ns/mnt");
            std::os::unix::fs::symlink(to, at).unwrap();
        };
        link("1", "mnt:[4026531841]");
        assert!(is_in_namespace_of_pid1(&host).is_err());
        link("thread-self", "mnt:[4026531841]");
        assert!(is_in_namespace_of_pid1(&host).unwrap());
        std::fs::remove_file(base.join("proc/1/ns/mnt")).unwrap();
        link("1", "mnt:[4026532211]");
        assert!(!is_in_namespace_of_pid1(&host).unwrap());
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// Does something only as root; in a thread of its own, which takes its namespace with it.
    #[test]
    fn mounts_stay_private() {
        std::thread::spawn(|| {
            let host = host("/");
            if !identity::is_root(&host).unwrap() || private_mounts().is_err() {
                return; // not root, or root in a container without CAP_SYS_ADMIN
            }
            let dir = std::env::temp_dir().join(format!("etcd-lun-private-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            mount(Some("none"), &dir, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
            let seen = |by: &str| {
                let text = std::fs::read_to_string(format!("/proc/{by}/mountinfo")).unwrap();
                text.contains(dir.to_str().unwrap())
            };
            assert!(seen("thread-self") && !seen("self"));
            // Unknown where PID 1 has more capabilities than we; never "the same".
            assert!(!is_in_namespace_of_pid1(&host).unwrap_or(false));
            nix::mount::umount(&dir).unwrap();
            std::fs::remove_dir(&dir).unwrap();
        })
        .join()
        .unwrap();
    }
}

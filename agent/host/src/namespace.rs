//! Mount namespaces: comparing ours with that of PID 1, joining that one, and making one of our own.

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
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// True if the calling thread sees the mounts that PID 1 sees.
///
/// PID 1 is that of our PID namespace: in a container with its own PIDs the answer says nothing about the node. If it
/// can't be determined, such as without permission to look at PID 1 (ptrace(2), "PTRACE_MODE_READ"), that is an error.
pub fn is_in_namespace_of_pid1(host: &Host) -> io::Result<bool> {
    let [ours, of_pid1] = [OURS, OF_PID1].map(|path| mount_namespace(host, path));
    Ok(ours? == of_pid1?)
}

/// True if the calling thread is in a mount namespace of its own that receives what PID 1 mounts and unmounts, as systemd makes
/// one for a service with `PrivateMounts=yes`: its root mount is a slave of PID 1's (mount_namespaces(7), "Propagation type
/// transitions"). What this thread mounts is not seen by PID 1.
pub fn receives_mounts_of_pid1(host: &Host) -> io::Result<bool> {
    let read = |path: &str| {
        let path = Path::new(path);
        fs::read(host.root.locate(path)).map_err(|error| super::root::at(path, &error))
    };
    Ok(has_slave_of(&read(OUR_MOUNTS)?, &read(MOUNTS_OF_PID1)?))
}

/// True if the calling thread sees what PID 1 mounts: in PID 1's namespace, or in one that receives it.
pub fn sees_mounts_of_pid1(host: &Host) -> io::Result<bool> {
    Ok(is_in_namespace_of_pid1(host)? || receives_mounts_of_pid1(host)?)
}

const OUR_MOUNTS: &str = "/proc/thread-self/mountinfo";
const MOUNTS_OF_PID1: &str = "/proc/1/mountinfo";

/// Returns true if a root mount of one list is a slave of a root mount of the other: proc_pid_mountinfo(5).
fn has_slave_of(ours: &[u8], of_pid1: &[u8]) -> bool {
    let groups = |list: &[u8], kind: &str| -> Vec<String> {
        let list = String::from_utf8_lossy(list).into_owned();
        let at_root = list.lines().filter(|line| line.split(' ').nth(4) == Some("/"));
        let optional = at_root.flat_map(|line| line.split(' ').skip(6).take_while(|field| *field != "-"));
        optional.filter_map(|field| field.strip_prefix(kind)).map(str::to_owned).collect()
    };
    let shared = groups(of_pid1, "shared:");
    groups(ours, "master:").iter().any(|group| shared.contains(group))
}

// Not /proc/self: that is the main thread, and each thread can have a mount namespace of its own.
pub(super) const OURS: &str = "/proc/thread-self/ns/mnt";
pub(super) const OF_PID1: &str = "/proc/1/ns/mnt";

pub(super) fn mount_namespace(host: &Host, path: &str) -> io::Result<PathBuf> {
    // For example "mnt:[4026531841]": namespaces(7).
    let absent =
        || io::Error::new(io::ErrorKind::NotFound, format!("{path} is not there; is /proc mounted?"));
    host.root.read_link(path)?.ok_or_else(absent)
}

/// The result of [`join_pid1`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// This process saw PID 1's mounts already: in its mount namespace, or in that of a service, which receives them.
    Same,
    /// It was in another one, such as a container's, and is in PID 1's now.
    Joined,
}

/// Joins PID 1's mount namespace. From then on every path means the same as for PID 1, also `/`. The working directory
/// becomes the directory of the same name. In a container with its own PIDs, PID 1 is the container's.
///
/// A service that systemd started in a namespace of its own stays there if that receives PID 1's mounts. Its SELinux domain
/// may mount, and could leave that namespace only by this call, for which it has no right.
///
/// Only works while the process has one thread: threads share root and working directory, and then setns fails with
/// `EINVAL` (setns(2), "Mount namespaces"). Needs `CAP_SYS_ADMIN`, `CAP_SYS_CHROOT`, and permission to look at PID 1
/// (ptrace(2), `PTRACE_MODE_READ_FSCREDS`). After an error the process may be in PID 1's namespace with `/` as its
/// working directory.
pub fn join_pid1(is_service: bool) -> io::Result<Joined> {
    // The names of the links are compared, because opening them needs one more SELinux permission, and a service that
    // is in the right namespace needs none.
    let [ours, theirs] = [OURS, OF_PID1]
        .map(|path| fs::read_link(path).map_err(|error| explain(&format!("looking at {path}"), &error)));
    if ours? == theirs? {
        return Ok(Joined::Same);
    }
    let read = |path| fs::read(path).map_err(|error| explain(&format!("reading {path}"), &error));
    if is_service && has_slave_of(&read(OUR_MOUNTS)?, &read(MOUNTS_OF_PID1)?) {
        return Ok(Joined::Same);
    }
    let here = env::current_dir()
        .map_err(|error| io::Error::new(error.kind(), format!("finding the working directory: {error}")))?;
    enter()?;
    env::set_current_dir(&here).map_err(|error| {
        let said = format!(
            "the working directory {} can't be entered in PID 1's mount namespace: {error}; start from /",
            here.display()
        );
        io::Error::new(error.kind(), said)
    })?;
    Ok(Joined::Joined)
}

/// Does something in PID 1's mount namespace, in a thread that ends with it: this process stays where it is. Needs the rights that
/// [`join_pid1`] needs.
pub fn in_that_of_pid1<E: From<io::Error> + Send>(
    work: impl FnOnce(&Host) -> Result<(), E> + Send,
) -> Result<(), E> {
    let there = || {
        // Threads share root and working directory, and setns fails while they do (setns(2)).
        unshare(CloneFlags::CLONE_FS).map_err(io::Error::from)?;
        enter()?;
        work(&Host::machine()?)
    };
    let ended_early =
        |_| Err(io::Error::other("the thread in PID 1's mount namespace has ended early").into());
    std::thread::scope(|scope| scope.spawn(there).join().unwrap_or_else(ended_early))
}

/// Takes the calling thread, which shares its root with no other, to PID 1's mount namespace and root directory.
fn enter() -> io::Result<()> {
    // Everything that is needed of the old namespace is opened before the thread leaves it.
    let theirs = open(OF_PID1, OFlags::RDONLY)?;
    let root = open("/proc/1/root", OFlags::PATH | OFlags::DIRECTORY)?;
    let step = |doing: &str, done: nix::Result<()>| done.map_err(|errno| explain(doing, &errno.into()));
    step("joining PID 1's mount namespace", setns(theirs, CloneFlags::CLONE_NEWNS))?;
    // setns leads to the root of the namespace, but PID 1 may have another root directory.
    step("going to PID 1's root directory", fchdir(root).and_then(|()| chroot(".")))
}

fn open(path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| explain(&format!("opening {path}"), &error.into()))
}

fn explain(doing: &str, error: &io::Error) -> io::Error {
    let cure = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": this needs root with CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE, as in a privileged pod"
        }
        io::ErrorKind::NotFound => ": is /proc mounted here?",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{doing}: {error}{cure}"))
}

/// Gives the calling thread a mount namespace of its own. Nobody else sees what it mounts from then on, and the kernel
/// unmounts that when the thread ends.
///
/// All mounts become slaves: what PID 1 mounts and unmounts later still appears here, if `/` is shared (as under
/// systemd). Other threads are not affected; programs that this thread starts are. Needs `CAP_SYS_ADMIN`: unshare(2),
/// mount_namespaces(7).
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
    use crate::{Root, identity, transcript::NoTools};

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

    #[test]
    fn a_slave_of_the_root_receives_its_mounts() {
        let pid1 =
            "22 1 253:4 / / rw shared:1 - xfs /dev/sda4 rw\n30 22 0:23 / /run rw shared:9 - tmpfs tmpfs rw\n";
        for (ours, receives) in [
            ("400 399 253:4 / / rw shared:80 master:1 - xfs /dev/sda4 rw\n", true),
            ("400 399 253:4 / / rw master:1 propagate_from:2 - xfs /dev/sda4 rw\n", true),
            ("400 399 253:4 / / rw - xfs /dev/sda4 rw\n", false),
            ("400 399 253:4 / / rw shared:1 - xfs /dev/sda4 rw\n", false),
            // A container's root, and a slave that is not the root.
            ("400 399 0:50 / / rw master:12 - overlay overlay rw\n", false),
            (
                "400 399 0:50 / / rw - overlay o rw\n401 400 253:4 / /host rw master:1 - xfs /dev/sda4 rw\n",
                false,
            ),
            ("400 399 253:4 / / rw master:9 - xfs master:1 rw\n", false),
            ("", false),
        ] {
            assert_eq!(has_slave_of(ours.as_bytes(), pid1.as_bytes()), receives, "{ours}");
        }
    }

    /// Tests something only as root. It runs in a thread of its own, so that its namespace ends with the thread.
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
            // The result is an error if PID 1 has more capabilities than this process, but never "the same".
            assert!(!is_in_namespace_of_pid1(&host).unwrap_or(false));
            nix::mount::umount(&dir).unwrap();
            std::fs::remove_dir(&dir).unwrap();
        })
        .join()
        .unwrap();
    }
}

//! Unmounting in the mount namespace of another process.

use super::{Host, parse_mounts};
use nix::{
    mount::{MntFlags, umount2},
    sched::{CloneFlags, setns, unshare},
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd, AsRawFd},
};

/// Unmounts a device (major, minor) everywhere in a process's mount namespace. Returns where it was mounted, seen from the
/// root of the namespace. Fails if anybody there uses it (`EBUSY`); nothing is detached lazily.
///
/// The work is done in a thread that ends with it, so the namespaces of this process stay as they are. `umount(8)` is not
/// used: in a container it would be the container's own program.
pub fn unmount_in_namespace_of(host: &Host, pid: u32, device: (u32, u32)) -> io::Result<Vec<String>> {
    let proc = host.root.locate("/proc");
    let work = move || {
        let proc = openat(CWD, &proc, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let read_only = OFlags::RDONLY | OFlags::CLOEXEC;
        let namespace = openat(&proc, format!("{pid}/ns/mnt"), read_only, Mode::empty())?;
        // Threads share root and working directory, and setns fails while they do (setns(2)). Afterwards the root is that
        // of the namespace: the process itself may be in a chroot and see only some of the mounts.
        unshare(CloneFlags::CLONE_FS)?;
        setns(namespace, CloneFlags::CLONE_NEWNS)?;
        // Through the directory that was opened before: `/proc` may be anything in there.
        let mut list = Vec::new();
        File::from(openat(&proc, "thread-self/mountinfo", read_only, Mode::empty())?)
            .read_to_end(&mut list)?;
        let wrong = |line: &[u8]| io::Error::other(format!("no mount: {}", line.escape_ascii()));
        let mounts = parse_mounts(&list, |_| true).map_err(wrong)?;
        let mut unmounted = Vec::new();
        // The last mount is unmounted first: it may be on top of another one.
        for mount in mounts.into_iter().rev().filter(|mount| mount.device == device) {
            let place = mount.mount_point;
            let failed = |error: io::Error| io::Error::new(error.kind(), format!("{place}: {error}"));
            // By the mount's id, which the kernel tells without asking the filesystem: one that has shut down fails every stat.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let top = openat(CWD, &*place, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
            if mount_id(&proc, &top).map_err(failed)? != Some(mount.id) {
                return Err(failed(io::Error::other("another filesystem is mounted over it")));
            }
            drop(top);
            umount2(&*place, MntFlags::UMOUNT_NOFOLLOW).map_err(|error| failed(error.into()))?;
            unmounted.push(place);
        }
        Ok(unmounted)
    };
    let thread = std::thread::Builder::new().name("unmount".into()).spawn(work)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that unmounts has ended early")))
}

/// The mount that an open file is on (proc_pid_fdinfo(5)).
fn mount_id(proc: &impl AsFd, file: &impl AsRawFd) -> io::Result<Option<u64>> {
    let path = format!("thread-self/fdinfo/{}", file.as_raw_fd());
    let mut text = String::new();
    File::from(openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
        .read_to_string(&mut text)?;
    Ok(text.lines().find_map(|line| line.strip_prefix("mnt_id:")).and_then(|id| id.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, identity, transcript::NoTools};
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        process::{Command, Stdio},
    };

    /// Tests something only as root. A shell has a tmpfs at two places of a namespace of its own, and one of them is in
    /// use at first.
    #[test]
    fn at_every_place_and_only_where_nobody_uses_it() {
        let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
        let dir = std::env::temp_dir().join(format!("etcd-lun-unmount-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("a")).unwrap();
        std::fs::create_dir_all(dir.join("b")).unwrap();
        let script = "cd \"$0\" && mount -t tmpfs none a && mount --bind a b && cd a && \
                      stat -c '%Hd %Ld' . && read x && cd / && echo left && read x";
        let mut shell = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let device = line.split_whitespace().map(|number| number.parse::<u32>().unwrap()).collect::<Vec<_>>();
        // Without root, or in a container without CAP_SYS_ADMIN, there is no such shell.
        if let [major, minor] = device[..] {
            assert!(identity::is_root(&host).unwrap());
            let pid = shell.id();
            let unmount = || unmount_in_namespace_of(&host, pid, (major, minor));
            let error = unmount().unwrap_err().to_string();
            assert!(error.contains("/a: ") && error.contains("busy"), "{error}");
            shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            said.read_line(&mut line).unwrap();
            // The other place was free in the first attempt already.
            assert_eq!(unmount().unwrap(), [dir.join("a").to_str().unwrap()]);
            assert!(unmount().unwrap().is_empty());
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

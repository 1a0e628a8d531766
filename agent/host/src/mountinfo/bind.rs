//! Which processes have a directory of the local disk bind-mounted in another mount namespace: mostly containers.
//!
//! A container's volume is a bind mount of a host's directory, in the container's own mount namespace. It does not
//! change when the host later mounts something on that directory: the container continues to write beneath that mount.

use super::{
    super::namespace::{OF_PID1, OURS, mount_namespace},
    Holder, Host, Mount, holders, of_pid1,
};
use std::{
    io, iter,
    path::{Path, PathBuf},
};
use terms::AbsPath;

/// The processes that have `dir`, or something below it, bind-mounted, in any mount namespace but PID 1's and the
/// calling thread's. For errors see [`super::Everywhere::holders`].
///
/// `dir` is the directory on its own filesystem, beneath whatever is mounted on it. Mounts of a parent directory, such
/// as a pod's mount of the node's `/`, don't count. Neither do mounts of a removed directory that had this name,
/// because no file can be made in it. The mounts of a renamed directory have its new name.
pub fn bind_holders(host: &Host, dir: &AbsPath) -> io::Result<Vec<Holder>> {
    let spared = [mount_namespace(host, OF_PID1)?, mount_namespace(host, OURS)?];
    let Some(parent) = host.root.resolve(dir.parent().as_path())? else { return Ok(Vec::new()) };
    let lost = || io::Error::other(format!("{dir} is on no filesystem that PID 1 has mounted"));
    let (device, parent) = on_filesystem(&of_pid1(host)?, &parent).ok_or_else(lost)?;
    let source = parent.join(dir.name());
    holders(host, &spared, |mount| {
        // The path that d_path gives for a removed directory (kernel `fs/d_path.c`, `dentry_path`); no path has `//`.
        let is_removed = mount.root.ends_with("//deleted");
        mount.device == device && !is_removed && Path::new(&mount.root).starts_with(&source)
    })
}

/// The device of the filesystem that holds a directory, and the directory's path in that filesystem.
///
/// The path is walked as the kernel does it: from the root, and at each name into what is mounted there. To take the
/// longest mount point that fits would be wrong where one mount hides others.
fn on_filesystem(mounts: &[Mount], dir: &Path) -> Option<((u32, u32), PathBuf)> {
    let has_parent =
        |mount: &&Mount| mounts.iter().any(|other| other.id == mount.parent && other.id != mount.id);
    let mut at = mounts.iter().find(|mount| mount.mount_point == "/" && !has_parent(mount))?;
    let mut walked = PathBuf::from("/");
    for name in dir.strip_prefix("/").ok()? {
        walked.push(name);
        let on_it = |below: &&Mount| {
            let is_on = |mount: &&Mount| mount.parent == below.id && Path::new(&mount.mount_point) == walked;
            mounts.iter().find(is_on)
        };
        // Several mounts may be on top of each other. The loop is limited, because untrusted input may have circles.
        at = iter::successors(Some(at), on_it).take(mounts.len()).last()?;
    }
    let inside = dir.strip_prefix(&at.mount_point).ok()?;
    Some((at.device, Path::new(&at.root).join(inside)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interrupt, Root, mountinfo::parse_mounts, system::SystemRunner};
    use std::{fs, os::unix::fs::symlink};

    /// An RHCOS node's, shortened, with the LUN on `/var/lib/etcd`.
    const NODE: &str = "\
100 1 253:4 /ostree/deploy/rhcos/deploy/5f.0 / rw,relatime shared:1 - xfs /dev/sda4 rw,prjquota
101 100 253:4 / /sysroot ro,relatime - xfs /dev/sda4 rw,prjquota
102 100 253:4 /ostree/deploy/rhcos/var /var rw,relatime shared:3 - xfs /dev/sda4 rw,prjquota
103 100 253:4 /ostree/deploy/rhcos/deploy/5f.0/etc /etc rw,relatime shared:4 - xfs /dev/sda4 rw,prjquota
104 100 0:23 / /run rw,nosuid shared:9 - tmpfs tmpfs rw
105 100 0:21 / /proc rw shared:8 - proc proc rw
140 102 8:16 / /var/lib/etcd rw,relatime shared:71 - xfs /dev/sdb rw,prjquota
";

    fn on(text: &str, dir: &str) -> Option<(u32, u32, String)> {
        let found = on_filesystem(&parse_mounts(text.as_bytes(), |_| true).unwrap(), Path::new(dir));
        found.map(|((major, minor), path)| (major, minor, path.to_str().unwrap().to_owned()))
    }

    #[test]
    fn where_a_directory_lies_on_disk() {
        let disk = |path: &str| Some((253, 4, path.to_owned()));
        for (dir, found) in [
            ("/var/lib", disk("/ostree/deploy/rhcos/var/lib")),
            ("/var", disk("/ostree/deploy/rhcos/var/")),
            ("/", disk("/ostree/deploy/rhcos/deploy/5f.0/")),
            ("/usr/lib", disk("/ostree/deploy/rhcos/deploy/5f.0/usr/lib")),
            ("/sysroot/ostree/deploy/rhcos/var/lib", disk("/ostree/deploy/rhcos/var/lib")),
            ("/variable/lib", disk("/ostree/deploy/rhcos/deploy/5f.0/variable/lib")),
            ("/var/lib/etcd/member", Some((8, 16, "/member".into()))),
            ("/run/lock", Some((0, 23, "/lock".into()))),
        ] {
            assert_eq!(
                on(NODE, dir).map(|(a, b, path)| (a, b, PathBuf::from(path))),
                found.map(|(a, b, path)| (a, b, PathBuf::from(path))),
                "{dir}"
            );
        }
    }

    #[test]
    fn one_mount_hides_others() {
        // On /var once more, after /var/lib was mounted; then on that again.
        let hidden = "141 102 8:32 / /var/lib rw - xfs /dev/sdc rw\n\
                      142 102 8:48 /sub /var rw - xfs /dev/sdd rw\n143 142 8:64 / /var rw - xfs /dev/sde rw\n";
        assert_eq!(on(&format!("{NODE}{hidden}"), "/var/lib"), Some((8, 64, "/lib".into())));
    }

    #[test]
    fn hostile_lists_end() {
        for text in [
            "",
            "1 1 8:0 / /mnt rw - xfs a rw\n",
            // Each on the other, and one on itself.
            "1 2 8:0 / / rw - xfs a rw\n2 1 8:0 / / rw - xfs a rw\n",
        ] {
            assert_eq!(on(text, "/mnt/x"), None, "{text}");
        }
        let circle = "1 1 8:0 / / rw - xfs a rw\n2 1 8:1 / /mnt rw - xfs a rw\n3 2 8:2 / /mnt rw - xfs a rw\n\
                      2 3 8:3 / /mnt rw - xfs a rw\n";
        assert!(on(circle, "/mnt").is_some());
    }

    struct Machine(PathBuf, Host);

    impl Machine {
        fn new(test: &str) -> Self {
            let base = std::env::temp_dir().join(format!("etcd-lun-bind-{test}-{}", std::process::id()));
            fs::create_dir_all(base.join("var/lib/etcd")).unwrap();
            let runner = Box::new(SystemRunner::new(Interrupt::never()).unwrap());
            let machine = Self(base.clone(), Host::fixture(Root::new(base), runner).unwrap());
            machine.process("1", 1, NODE);
            machine.process("thread-self", 1, NODE);
            machine
        }

        fn process(&self, pid: &str, namespace: u32, mounts: &str) {
            let dir = self.0.join("proc").join(pid);
            fs::create_dir_all(dir.join("ns")).unwrap();
            symlink(format!("mnt:[{namespace}]"), dir.join("ns/mnt")).unwrap();
            symlink("/", dir.join("root")).unwrap();
            fs::write(dir.join("mountinfo"), mounts).unwrap();
            fs::write(dir.join("comm"), format!("program-{pid}\n")).unwrap();
        }

        fn holders(&self) -> Vec<String> {
            let found = bind_holders(&self.1, &"/var/lib/etcd".parse().unwrap()).unwrap();
            found.iter().map(|who| format!("{} {} {}", who.pid, who.comm, who.mount_point)).collect()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn containers_with_the_directory() {
        let machine = Machine::new("containers");
        let volume = |root: &str, place: &str| {
            format!(
                "900 800 0:61 / / rw - overlay overlay rw\n\
                 901 900 253:4 /ostree/deploy/rhcos/var{root} {place} rw - xfs /dev/sda4 rw,prjquota\n"
            )
        };
        machine.process("700", 7, &volume("/lib/etcd", "/var/lib/etcd"));
        machine.process("701", 7, &volume("/lib/etcd", "/var/lib/etcd")); // the same pod's, once is enough
        machine.process("710", 8, &volume("/lib/etcd/member", "/data"));
        // Not the directory: others, what is above it, one that was removed, and the LUN on it.
        machine.process("720", 9, &volume("/lib/etcd-lun", "/x"));
        machine.process("721", 10, &volume("/lib", "/x"));
        machine.process("722", 11, &volume("/lib/etcd//deleted", "/x"));
        machine.process("723", 12, "902 900 8:16 / /var/lib/etcd rw - xfs /dev/sdb rw\n");
        // A debug pod: the node's whole tree on /host.
        let pod = "950 900 253:4 /ostree/deploy/rhcos/deploy/5f.0 /host rw - xfs /dev/sda4 rw,prjquota\n\
                   951 950 253:4 / /host/sysroot ro - xfs /dev/sda4 rw,prjquota\n\
                   952 950 253:4 /ostree/deploy/rhcos/var /host/var rw - xfs /dev/sda4 rw,prjquota\n\
                   953 952 8:16 / /host/var/lib/etcd rw - xfs /dev/sdb rw,prjquota\n";
        machine.process("724", 13, pod);
        // In PID 1's namespace.
        machine.process("730", 1, &volume("/lib/etcd", "/mnt"));
        assert_eq!(machine.holders(), ["700 program-700 /var/lib/etcd", "710 program-710 /data"]);
        // Ours is left out, whichever it is.
        let ours = machine.0.join("proc/thread-self/ns/mnt");
        fs::remove_file(&ours).unwrap();
        symlink("mnt:[7]", ours).unwrap();
        assert_eq!(machine.holders(), ["710 program-710 /data"]);
    }

    #[test]
    fn links_and_absence() {
        let machine = Machine::new("links");
        machine.process(
            "700",
            7,
            "901 900 253:4 /ostree/deploy/rhcos/var/lib/etcd /d rw - xfs /dev/sda4 rw\n",
        );
        symlink(machine.0.join("var/lib"), machine.0.join("srv")).unwrap();
        let holders = |dir: &str| bind_holders(&machine.1, &dir.parse().unwrap());
        assert_eq!(holders("/srv/etcd").unwrap().len(), 1);
        assert!(holders("/nowhere/etcd").unwrap().is_empty());
        // A process that can't be examined must not count as "nobody".
        fs::write(machine.0.join("proc/700/mountinfo"), "x\n").unwrap();
        assert!(holders("/var/lib/etcd").is_err());
        fs::remove_file(machine.0.join("proc/1/ns/mnt")).unwrap();
        assert!(holders("/var/lib/etcd").is_err());
    }
}

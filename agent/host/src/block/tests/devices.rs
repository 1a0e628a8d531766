//! Real block devices, and who holds them.

use super::*;
use crate::{mountinfo, xfs};
use std::{
    io::{BufRead, BufReader},
    process::Child,
    time::Duration,
};
use terms::{FsLabel, FsUuid};

pub(super) struct Loop {
    pub bench: Bench,
    pub name: String,
}

impl Loop {
    pub fn attach(size: u64, more: &[&str]) -> Self {
        let mut bench = Bench::new(size);
        let device = run(Command::new("losetup").args(["-f", "--show"]).args(more).arg(&bench.image));
        bench.host =
            Host::fixture(Root::new("/"), Box::new(SystemRunner::new(Interrupt::never()).unwrap())).unwrap();
        Self { bench, name: device.trim().trim_start_matches("/dev/").to_owned() }
    }

    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run(Command::new("losetup").args(["-d", &format!("/dev/{}", self.name)]));
    }
}

fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// A shell in a mount namespace of its own. It ends when this is dropped.
struct Elsewhere(Child);

impl Elsewhere {
    /// Returns when the shell has printed `ready`.
    fn run(line: &str) -> Self {
        let line = format!("{line} && echo ready && exec sleep 60");
        let mut shell = Command::new("unshare");
        let mut child = shell.args(["-m", "sh", "-c", &line]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self(child)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Looks only at these processes: the test may not be allowed to look at others.
fn holders_among(pids: &[u32], major: u32, minor: u32) -> Vec<mountinfo::Holder> {
    let tree = Bench::scripted(1, 2, "");
    fs::create_dir(tree.base.join("proc")).unwrap();
    for pid in pids.iter().copied().chain([std::process::id()]) {
        std::os::unix::fs::symlink(format!("/proc/{pid}"), tree.base.join(format!("proc/{pid}"))).unwrap();
    }
    mountinfo::Everywhere::new(&tree.host).holders(major, minor).unwrap()
}

#[test]
#[ignore = "needs root, loop devices and mkfs.xfs"]
fn from_blank_to_held() {
    let uuid: FsUuid = "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b".parse().unwrap();
    let label: FsLabel = "etcd-lun".parse().unwrap();
    for more in [&[][..], &["-b", "4096"]] {
        let device = Loop::attach(512 * MIB, more);
        let (host, name) = (&device.bench.host, device.name.as_str());
        assert_eq!(probe(host, name, None).unwrap(), Content::Blank);
        assert!(nobody_holds(host, name).unwrap());
        let limit = Duration::from_secs(60);
        let make = || xfs::make_filesystem(host, &node(name).unwrap(), &uuid, &label, limit);
        make().unwrap();
        let Content::Xfs(found) = probe(host, name, None).unwrap() else { panic!() };
        assert_eq!((found.uuid, found.label.as_str(), found.in_progress), (uuid, "etcd-lun", false));
        assert_eq!(found.size(), disk(host, name).unwrap().unwrap().size);
        match make() {
            Err(xfs::MakeError::Occupied { found, .. }) => assert!(found.contains("(xfs)"), "{found}"),
            other => panic!("{other:?}"),
        }

        let facts = disk(host, name).unwrap().unwrap();
        let holders = |pids: &[u32]| holders_among(pids, facts.major, facts.minor);
        assert!(holders(&[]).is_empty());
        let elsewhere = Elsewhere::run(&format!("mount /dev/{name} /mnt"));
        let found = holders(&[elsewhere.0.id()]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].pid, found[0].mount_point.as_str()), (elsewhere.0.id(), "/mnt"));
        assert!(!nobody_holds(host, name).unwrap());
        assert!(clear_unfinished(host, name, &uuid).is_err());
        drop(elsewhere);

        // The mount is detached, so it is in no list of mounts. But a file is still open.
        let detached = Elsewhere::run(&format!("mount /dev/{name} /mnt && cd /mnt && umount -l /mnt"));
        assert!(holders(&[detached.0.id()]).is_empty());
        assert!(!nobody_holds(host, name).unwrap());
        drop(detached);
        assert!(nobody_holds(host, name).unwrap());

        device.bench.write(126, &[1]);
        assert_eq!(probe(host, name, Some(&uuid)).unwrap(), Content::XfsUnfinished { uuid });
        clear_unfinished(host, name, &uuid).unwrap();
        assert_eq!(probe(host, name, None).unwrap(), Content::Blank);
        make().unwrap();
    }
}

#[test]
#[ignore = "needs root and loop devices"]
fn unreadable_is_an_error() {
    let device = Loop::attach(64 * MIB, &[]);
    // The device keeps its size; reads past the end of its file fail.
    device.bench.file().set_len(32 * MIB).unwrap();
    assert!(probe(&device.bench.host, &device.name, None).is_err());
}

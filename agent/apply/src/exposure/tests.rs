//! A PID 1 that mounts whatever the link leads to when it is asked, and nothing without the link: units/data.mount.in.
#![allow(clippy::disallowed_methods)] // the fixture of a test

use super::*;
use host::{Root, transcript::NoTools};
use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
};

const LUN: &str = "36 25 8:16 / /data rw,noexec - xfs /dev/sdb rw,prjquota\n";
const READ_ONLY: &str = "36 25 8:16 / /data ro,noexec - xfs /dev/sdb ro,prjquota\n";
const OTHER: &str = "36 25 8:32 / /data rw,noexec - xfs /dev/sdc rw,prjquota\n";

struct Pid1 {
    base: PathBuf,
    host: Host,
    /// What it mounts.
    mounts: &'static str,
    /// Whether its mount unit can be stopped.
    unmounts: bool,
    starts: Cell<u32>,
}

impl Pid1 {
    fn new(name: &str, mounts: &'static str) -> Self {
        let base = std::env::temp_dir().join(format!("etcd-lun-exposure-{}-{name}", std::process::id()));
        fs::create_dir_all(base.join("run/etcd-lun-hands")).unwrap();
        fs::create_dir_all(base.join("proc/1")).unwrap();
        fs::write(base.join("proc/1/mountinfo"), "").unwrap();
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        Self { base, host, mounts, unmounts: true, starts: Cell::new(0) }
    }

    fn link(&self) -> Option<PathBuf> {
        fs::read_link(self.base.join("run/etcd-lun-hands/verified")).ok()
    }

    fn mounted(&self) -> String {
        fs::read_to_string(self.base.join("proc/1/mountinfo")).unwrap()
    }

    fn expose(&self) -> anyhow::Result<()> {
        let step = step();
        expose(&self.host, self, &step, "sdb", || is_as_asked(&self.host, &step, "8:16"))
    }
}

impl MountUnit for Pid1 {
    fn name(&self, device: &str) -> anyhow::Result<()> {
        make_link(&self.host, device)
    }

    fn start(&self, _device: &str) -> anyhow::Result<()> {
        self.starts.set(self.starts.get() + 1);
        if self.link().is_some_and(|to| to == Path::new("/dev/sdb")) {
            fs::write(self.base.join("proc/1/mountinfo"), self.mounts).unwrap();
        }
        Ok(())
    }

    fn restart(&self) -> anyhow::Result<()> {
        if self.unmounts {
            fs::write(self.base.join("proc/1/mountinfo"), "").unwrap();
        }
        self.start("")
    }
}

impl Drop for Pid1 {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).unwrap();
    }
}

fn step() -> MountData {
    MountData {
        unit: "data.mount".into(),
        at: "/data".parse().unwrap(),
        wwid: "naa.60014050123456789abcdef012345678".parse().unwrap(),
        uuid: "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b".parse().unwrap(),
        options: vec!["prjquota".into(), "noexec".into()],
    }
}

#[test]
fn what_is_verified_stays_mounted_and_pid_1_mounts_nothing_by_itself() {
    let pid1 = Pid1::new("right", LUN);
    pid1.expose().unwrap();
    assert_eq!((pid1.mounted().as_str(), pid1.link()), (LUN, None));
    // An etcd that requires the mount is started later, when the LUN is not mounted any more.
    fs::write(pid1.base.join("proc/1/mountinfo"), "").unwrap();
    pid1.start("").unwrap();
    assert_eq!(pid1.mounted(), "");
}

#[test]
fn what_fails_the_verification_is_not_mounted_any_more() {
    for (name, mounts, says) in [
        ("other", OTHER, "has mounted device 8:32, not 8:16"),
        ("read-only", READ_ONLY, "has mounted read-only"),
        ("nothing", "", "there are 0 mounts on /data"),
        ("quota", "36 25 8:16 / /data rw,noexec - xfs /dev/sdb rw\n", "has mounted without prjquota"),
        ("ext4", "36 25 8:16 / /data rw,noexec - ext4 /dev/sdb rw,prjquota\n", "has mounted ext4, not xfs"),
    ] {
        let pid1 = Pid1::new(name, mounts);
        let error = format!("{:#}", pid1.expose().unwrap_err());
        assert!(error.contains(says) && error.starts_with("the mount on /data was not accepted"), "{error}");
        assert_eq!((pid1.mounted().as_str(), pid1.link()), ("", None), "{name}");
    }
}

#[test]
fn a_stamp_that_fails_the_verification_takes_the_mount_back_too() {
    let pid1 = Pid1::new("stamp", LUN);
    let step = step();
    let error = expose(&pid1.host, &pid1, &step, "sdb", || bail!("an old stamp")).unwrap_err();
    assert!(format!("{error:#}").ends_with("an old stamp"), "{error:#}");
    assert_eq!((pid1.mounted().as_str(), pid1.link()), ("", None));
}

#[test]
fn a_mount_that_stays_is_named_with_the_cure() {
    let mut pid1 = Pid1::new("stays", OTHER);
    pid1.unmounts = false;
    let error = format!("{:#}", pid1.expose().unwrap_err());
    assert!(
        error.contains("/data may still be mounted") && error.contains("systemctl stop data.mount"),
        "{error}"
    );
    assert_eq!(pid1.link(), None);
}

/// A link that somebody else made names no device that this run has verified.
#[test]
fn a_link_that_is_there_already_is_not_used() {
    let pid1 = Pid1::new("link", LUN);
    std::os::unix::fs::symlink("/dev/sdc", pid1.base.join("run/etcd-lun-hands/verified")).unwrap();
    pid1.expose().unwrap_err();
    assert_eq!((pid1.starts.get(), pid1.mounted().as_str()), (0, ""));
    withdraw(&pid1.host).unwrap();
    assert_eq!(pid1.link(), None);
}

//! Directories below mounts, where the parent is itself a mount point. Needs root. The mounts are made in a
//! mount namespace of the test's own thread.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use host::{Host, dir, inode, namespace};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{fs, io, path::Path};

fn tmpfs(at: &Path) {
    mount(Some("none"), at, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
}

#[test]
fn the_parent_is_a_mount_point() {
    if !nix::unistd::geteuid().is_root() {
        println!("not run: needs root");
        return;
    }
    let base = std::env::temp_dir().join(format!("etcd-lun-rooted-dir-{}", std::process::id()));
    fs::create_dir_all(base.join("lib/etcd")).unwrap();
    fs::write(base.join("lib/etcd/hidden"), "").unwrap();
    let inner = base.clone();
    // A mount namespace belongs to a thread and ends with it, so the test uses a thread of its own.
    std::thread::spawn(move || beneath_two_mounts(&inner)).join().unwrap();
    assert!(base.join("lib/etcd/hidden").exists(), "the directory beneath was touched");
    fs::remove_dir_all(&base).unwrap();
}

fn beneath_two_mounts(base: &Path) {
    let host = Host::machine().unwrap();
    namespace::private_mounts().unwrap();
    let lib = base.join("lib");
    let path = |below: &str| format!("{}/{below}", lib.display()).trim_end_matches('/').parse().unwrap();
    tmpfs(&lib);
    fs::create_dir_all(lib.join("etcd/member")).unwrap();
    fs::create_dir_all(lib.join("state/retired/1")).unwrap();
    tmpfs(&lib.join("etcd"));
    fs::write(lib.join("etcd/on-the-lun"), "").unwrap();

    // The directory below is that of the mounted parent, not the one below both mounts.
    let parent = dir::without_mounts(&host, &path("")).unwrap();
    assert_eq!(dir::names(dir::open(&parent, "etcd").unwrap()).unwrap(), ["member"]);
    assert_eq!(dir::names(inode::beneath(&host, &path("etcd")).unwrap().unwrap()).unwrap(), ["member"]);

    // The exchange happens below the mount, and the mount stays as it was.
    let (parent, shelf) = dir::both_without_mounts(&host, &path(""), &path("state/retired")).unwrap();
    assert_eq!(dir::names(&shelf).unwrap(), ["1"]);
    umount2(&lib.join("etcd"), MntFlags::empty()).unwrap(); // a mount point cannot be renamed
    inode::exchange(&shelf, "1", &parent, "etcd").unwrap();
    assert_eq!(dir::names(dir::open(&shelf, "1").unwrap()).unwrap(), ["member"]);
    assert!(dir::names(dir::open(&parent, "etcd").unwrap()).unwrap().is_empty());

    // A mount in between must be detected.
    tmpfs(&lib.join("state"));
    fs::create_dir(lib.join("state/retired")).unwrap();
    let apart = dir::both_without_mounts(&host, &path(""), &path("state/retired")).unwrap_err();
    assert_eq!(apart.kind(), io::ErrorKind::CrossesDevices, "{apart}");
    drop((parent, shelf));
    umount2(&lib.join("state"), MntFlags::empty()).unwrap();
    umount2(&lib, MntFlags::MNT_DETACH).unwrap();
}

//! Directories below mounts, where the parent is itself a mount point. Needs root. The mounts are made in a
//! mount namespace of the test's own thread.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use host::{Host, dir, inode, namespace, selinux};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{fs, io, os::unix::fs::symlink, path::Path};

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

/// The confined service may make links in its directory, and what they lead to keeps its label. SELinux need not be on: the attribute
/// can be set all the same.
#[test]
fn labels_follow_no_link() {
    if !nix::unistd::geteuid().is_root() {
        println!("not run: needs root");
        return;
    }
    let base = std::env::temp_dir().join(format!("etcd-lun-rooted-labels-{}", std::process::id()));
    fs::create_dir_all(base.join("ours/dir")).unwrap();
    fs::create_dir_all(base.join("others")).unwrap();
    fs::write(base.join("ours/dir/file"), "").unwrap();
    fs::write(base.join("others/file"), "").unwrap();
    symlink(base.join("others"), base.join("ours/link")).unwrap();
    symlink(base.join("others/file"), base.join("ours/dir/link")).unwrap();
    let path = |name: &str| base.join(name).to_str().unwrap().to_owned();
    let (host, label) = (Host::machine().unwrap(), "system_u:object_r:etcd_lun_var_run_t:s0");
    let done = || selinux::label_below(&host, &path("ours"), label).unwrap();
    assert_eq!(done().len(), 5);
    assert!(done().is_empty());
    let labelled =
        |name: &str| selinux::label_of(&host, &path(name)).unwrap().is_some_and(|has| has == label);
    assert!(labelled("ours") && labelled("ours/dir/file"));
    assert!(!labelled("others") && !labelled("others/file"));
    assert!(selinux::label_below(&host, &path("none"), label).unwrap().is_empty());
    // Nor does a look at a file of ours.
    assert!(host.root.read_ours(base.join("ours/dir/link")).is_err());
    assert_eq!(host.root.read_ours(base.join("ours/dir/file")).unwrap().as_deref(), Some(""));
    fs::remove_dir_all(&base).unwrap();
}

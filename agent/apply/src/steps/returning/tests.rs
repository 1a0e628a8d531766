//! The local copy of a rollback on a real filesystem. Needs root, and a temporary directory on a filesystem with the immutable flag.
#![allow(clippy::disallowed_methods)] // the fixture of a test

use super::*;
use crate::steps::fence::tests::{Node, door};
use std::{
    fs,
    ops::Deref,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

const GENERATION: u64 = 2;

/// A node with a fence.
struct Fenced(Node);

impl Deref for Fenced {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Fenced {
    /// None without root: then the test says so.
    fn new(name: &str) -> Option<Self> {
        let node = Node::new(name)?;
        node.files.dir("var/lib/etcd-lun");
        fence::bar(&door(&node.host, &node.at), &node.at).unwrap();
        fence::make_immutable(&node.host, &node.at).unwrap();
        Some(Self(node))
    }

    fn path(&self, at: &str) -> PathBuf {
        self.files.0.join(at.trim_start_matches('/'))
    }

    fn copy(&self) -> PathBuf {
        self.path(&format!("{RETURNING}/{GENERATION}"))
    }

    fn shelve(&self) -> anyhow::Result<OwnedFd> {
        let like = tree::open(&self.path("var/lib/like")).unwrap();
        shelve(&self.host, &format!("{RETURNING}/{GENERATION}").parse().unwrap(), &like)
    }

    /// A directory with the mode that the copy gets, and a finished copy.
    fn with_copy(self) -> Self {
        self.files.put("var/lib/like/file", "");
        fs::set_permissions(self.path("var/lib/like"), fs::Permissions::from_mode(0o700)).unwrap();
        self.shelve().unwrap();
        fs::create_dir(self.copy().join("member")).unwrap();
        fs::write(self.copy().join("member/db"), "returned").unwrap();
        self
    }

    fn is_marked(&self, path: &Path) -> bool {
        inode::attribute(tree::open(path).unwrap(), RETURNING_MARK).unwrap().is_some()
    }
}

#[test]
fn a_copy_that_was_begun_is_gone_on_with() {
    let Some(node) = Fenced::new("returning-again").map(Fenced::with_copy) else { return };
    assert_eq!(fs::metadata(node.copy()).unwrap().permissions().mode() & 0o7777, 0o700);
    assert!(node.is_marked(&node.copy()));
    node.shelve().unwrap();
    // Beside what an earlier rollback left.
    node.files.put(&format!("{}/1/file", &RETURNING[1..]), "");
    node.shelve().unwrap();
    assert_eq!(fs::read_to_string(node.copy().join("member/db")).unwrap(), "returned");
}

#[test]
fn what_an_earlier_rollback_left_is_not_taken() {
    let Some(node) = Fenced::new("returning-earlier") else { return };
    node.files.put(&format!("{}/1/file", &RETURNING[1..]), "");
    let node = node.with_copy();
    assert!(node.is_marked(&node.copy()) && !node.copy().join("file").exists());
}

#[test]
fn a_directory_of_somebody_else_is_not_taken() {
    let Some(node) = Fenced::new("returning-foreign").map(Fenced::with_copy) else { return };
    inode::remove_attribute(tree::open(&node.copy()).unwrap(), RETURNING_MARK).unwrap();
    assert!(node.shelve().is_err());
    assert!(!node.is_marked(&node.copy()));
    assert!(node.copy().join("member/db").exists());
}

#[test]
fn the_copy_takes_the_place_of_the_fence() {
    let Some(node) = Fenced::new("returning-exchange").map(Fenced::with_copy) else { return };
    return_on_node(&door(&node.host, &node.at), &node.at, GENERATION).unwrap();
    let data = node.path("var/lib/etcd");
    assert_eq!(fs::read_to_string(data.join("member/db")).unwrap(), "returned");
    fs::write(data.join("member/wal"), "etcd writes").unwrap();
    assert!(!node.is_immutable() && !node.is_marked(&data));
    assert!(!node.copy().exists(), "the fence was left in the copy's place");
}

/// Data that came meanwhile is somebody's. It stays, and so does the copy.
#[test]
fn data_in_the_place_of_the_fence_stays() {
    let Some(node) = Fenced::new("returning-data").map(Fenced::with_copy) else { return };
    inode::set_immutable(inode::beneath(&node.host, &node.at).unwrap().unwrap(), false).unwrap();
    fs::remove_file(node.path("var/lib/etcd").join(BAR)).unwrap();
    node.files.put("var/lib/etcd/member/db", "newer");
    assert!(return_on_node(&door(&node.host, &node.at), &node.at, GENERATION).is_err());
    assert_eq!(fs::read_to_string(node.path("var/lib/etcd/member/db")).unwrap(), "newer");
    assert_eq!(fs::read_to_string(node.copy().join("member/db")).unwrap(), "returned");
    assert!(node.is_marked(&node.copy()));
}

//! The fence on a real filesystem. Needs root, and a temporary directory on a filesystem with the immutable flag.
#![allow(clippy::disallowed_methods)] // the fixture of a test

use super::*;
use host::{Host, Root, files::Files, transcript::NoTools};
use std::{fs, path::PathBuf};

/// A node whose data directory does not exist yet.
pub struct Node {
    pub files: Files,
    pub host: Host,
    pub at: AbsPath,
}

impl Node {
    /// None without root: then the test says so.
    pub fn new(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("not run: needs root");
            return None;
        }
        let files = Files::new(name);
        files.dir("var/lib");
        files.put("proc/1/mountinfo", "");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        Some(Self { files, host, at: "/var/lib/etcd".parse().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.0.join("var/lib/etcd").join(name)
    }

    fn opened(&self) -> OwnedFd {
        inode::beneath(&self.host, &self.at).unwrap().unwrap()
    }

    pub fn is_immutable(&self) -> bool {
        inode::is_immutable(self.opened()).unwrap().unwrap()
    }
}

/// The door of a run by hand.
pub fn door<'a>(host: &'a Host, data_dir: &AbsPath) -> Door<'a> {
    let runtime = config::Runtime::Systemd { unit: "etcd.service".into() };
    let (requester, data_dir) = (hands::Requester::Person, data_dir.clone());
    let direct = hands::Direct { requester, target: None, data_dir, mount_options: Vec::new(), runtime };
    Door::to(host, requester, Box::new(direct))
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.path("").exists() {
            let _ = inode::set_immutable(self.opened(), false);
        }
    }
}

#[test]
fn an_absent_directory_is_made_barred_and_then_fenced() {
    let Some(node) = Node::new("fence-absent") else { return };
    // Only what is barred is made immutable.
    assert!(make_immutable(&node.host, &node.at).is_err());
    bar(&door(&node.host, &node.at), &node.at).unwrap();
    assert!(node.path(BAR).is_file());
    assert!(!node.is_immutable());
    make_immutable(&node.host, &node.at).unwrap();
    assert!(node.is_immutable());
    assert!(fs::write(node.path("db"), "").is_err(), "a fenced directory took a file");
    assert!(fs::remove_dir_all(node.path("")).is_err());
    // A run that was cut short does both again.
    bar(&door(&node.host, &node.at), &node.at).unwrap();
    make_immutable(&node.host, &node.at).unwrap();
    assert!(node.is_immutable() && node.path(BAR).is_file());
}

#[test]
fn an_empty_directory_is_no_fence() {
    let Some(node) = Node::new("fence-empty") else { return };
    node.files.dir("var/lib/etcd");
    let error = make_immutable(&node.host, &node.at).unwrap_err().to_string();
    assert!(error.contains("is empty: only a barred directory is fenced"), "{error}");
    assert!(!node.is_immutable());
    bar(&door(&node.host, &node.at), &node.at).unwrap();
    assert!(node.path(BAR).is_file());
}

#[test]
fn data_is_neither_barred_nor_fenced() {
    let Some(node) = Node::new("fence-data") else { return };
    for names in [&["member/snap/db"][..], &["member", "lost"], &["lost"]] {
        let _ = fs::remove_dir_all(node.path(""));
        for name in names {
            node.files.put(&format!("var/lib/etcd/{name}"), "data");
        }
        for found in [bar(&door(&node.host, &node.at), &node.at), make_immutable(&node.host, &node.at)] {
            let error = found.unwrap_err().to_string();
            assert!(error.contains("only an empty directory is fenced"), "{names:?}: {error}");
        }
        assert!(!node.is_immutable(), "{names:?}");
        assert_eq!(fs::read_dir(node.path("")).unwrap().count(), names.len());
    }
}

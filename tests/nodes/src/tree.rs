//! The filesystem of a node's disk, mounted on the host with the same layout as in a booted node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::host;

/// The mounted filesystem. It is unmounted when this value is dropped.
#[derive(Debug)]
pub struct Tree {
    dir: PathBuf,
    mounted: bool,
    limit: Duration,
}

impl Tree {
    /// Mounts a node's disk (`disk` is what mount(8) gets for it) and its `/var`. No single mount may take
    /// longer than `limit`.
    pub fn mount(disk: &[&str], dir: PathBuf, limit: Duration) -> Result<Self> {
        fs::create_dir_all(&dir)?;
        let mut tree = Self { dir, mounted: false, limit };
        tree.add(disk, "/").context("cannot mount the node's disk")?;
        tree.mounted = true;
        let var = tree.path("/ostree/deploy/rhcos/var");
        tree.add(&["--bind", var.to_str().context("the path of the node's /var is not UTF-8")?], "/var")?;
        Ok(tree)
    }

    /// Mounts one more filesystem in the tree.
    pub fn add(&self, arguments: &[&str], at: &str) -> Result<()> {
        host::ok(Command::new("mount").args(arguments).arg(self.path(at)), self.limit).map(drop)
    }

    /// The directory that is the node's `/`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path on the host of a file of the node.
    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.join(path.trim_start_matches('/'))
    }

    /// Unmounts the whole tree.
    pub fn unmount(mut self) -> Result<()> {
        self.mounted = false;
        self.umount()
    }

    fn umount(&self) -> Result<()> {
        host::ok(Command::new("umount").arg("--recursive").arg(&self.dir), self.limit).map(drop)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.mounted {
            self.umount().ok();
        }
    }
}

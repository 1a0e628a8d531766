//! The filesystem of a node's disk, mounted on this machine as a boot has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::host;

/// Unmounted with this value.
#[derive(Debug)]
pub struct Tree {
    dir: PathBuf,
    mounted: bool,
    limit: Duration,
}

impl Tree {
    /// Mounts a node's disk, which `disk` names to mount(8), and `/var` in its place. No mount may take longer than `limit`.
    pub fn mount(disk: &[&str], dir: PathBuf, limit: Duration) -> Result<Self> {
        fs::create_dir_all(&dir)?;
        let mut tree = Self { dir, mounted: false, limit };
        tree.add(disk, "/").context("the node's disk doesn't mount")?;
        tree.mounted = true;
        let var = tree.path("/ostree/deploy/rhcos/var");
        tree.add(&["--bind", var.to_str().context("not UTF-8")?], "/var")?;
        Ok(tree)
    }

    /// Mounts something more in it.
    pub fn add(&self, arguments: &[&str], at: &str) -> Result<()> {
        host::ok(Command::new("mount").args(arguments).arg(self.path(at)), self.limit).map(drop)
    }

    /// The directory that is the node's `/`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a path of the node is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.join(path.trim_start_matches('/'))
    }

    /// Unmounts all of it.
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

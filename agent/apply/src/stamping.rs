//! Setting and removing a stamp, and reading it back from the LUN.

use anyhow::{Context as _, bail};
use host::{block, dir, inode, staging::Staging};
use node::authority::Stamp;
use std::os::fd::OwnedFd;

/// Replaces the stamp of the filesystem with this root directory, and syncs it.
pub fn set(root: &OwnedFd, stamp: &Stamp) -> anyhow::Result<()> {
    inode::set_attribute(root, Stamp::ATTRIBUTE, stamp.to_text()?.as_bytes())?;
    dir::sync_filesystem(root).context("syncing the LUN")
}

/// Removes the stamp, and syncs that.
pub fn remove(root: &OwnedFd) -> anyhow::Result<()> {
    inode::remove_attribute(root, Stamp::ATTRIBUTE)?;
    dir::sync_filesystem(root).context("syncing the LUN")
}

/// The stamp is on the LUN itself, and not only in this node's memory. The record is written next, and says what this says: a LUN
/// that has reported a write and lost it would be taken for an old one at the next boot, when nothing can be done any more.
pub fn read_back(staging: &Staging, stamp: &Stamp) -> anyhow::Result<()> {
    staging.settle().context("writing the LUN's filesystem in place, to read the stamp back")?;
    let name = Stamp::ATTRIBUTE.to_str()?.trim_start_matches("trusted.");
    let found = block::trusted_attribute_of_root(staging.node(), name)
        .with_context(|| format!("reading the stamp back from {}", staging.node().display()))?;
    if found.as_deref() == Some(stamp.to_text()?.as_bytes()) {
        return Ok(());
    }
    let holds = match found {
        None => "no stamp",
        Some(_) => "another stamp",
    };
    bail!(
        "{} holds {holds}, though it has reported that the new one is written: the disk, or its target, loses writes. etcd must not run on it: have the storage checked, its write caches first, or take another LUN",
        staging.node().display()
    )
}

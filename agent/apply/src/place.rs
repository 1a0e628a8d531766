//! What is mounted on the data directory, and what is beneath the mount.

use anyhow::Context as _;
use host::{
    Host, inode,
    mountinfo::{self, Mount},
};
use node::authority::Stamp;
use std::os::fd::OwnedFd;
use terms::AbsPath;

/// What PID 1 has mounted on the data directory, if anything.
pub fn mounted_on(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Option<Mount>> {
    let mounts = mountinfo::of_pid1(host)?;
    Ok(mounts.into_iter().find(|mount| mount.mount_point == data_dir.as_str()))
}

/// Whether the directory beneath the mount point is immutable.
pub fn is_fenced(host: &Host, data_dir: &AbsPath) -> anyhow::Result<bool> {
    let Some(place) = inode::beneath(host, data_dir)? else { return Ok(false) };
    Ok(inode::is_immutable(&place)? == Some(true))
}

/// The stamp of a filesystem, read from its root directory; none if it has no stamp.
pub fn stamp_if_any(root: &OwnedFd) -> anyhow::Result<Option<Stamp>> {
    let Some(text) = inode::attribute(root, Stamp::ATTRIBUTE)? else { return Ok(None) };
    let stamp = Stamp::parse(&String::from_utf8_lossy(&text));
    stamp.map(Some).context("reading the stamp of the filesystem")
}

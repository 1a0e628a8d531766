//! Reading a tree from its device where its filesystem can't be unmounted. For tests; a pass of
//! [`update`](super::update()) drops the pages of each file where it has to.

use super::{
    Side, TreeError,
    walk::{Node, Walk},
};
use crate::Interrupt;
use rustix::{
    fd::AsFd,
    fs::{Advice, fadvise, syncfs},
    io::Errno,
};

/// Syncs the filesystem and drops the contents of the tree's files from memory, so that the next reader gets them from
/// the device: `POSIX_FADV_DONTNEED`, `posix_fadvise(2)`. The kernel keeps only pages that are dirty, mapped or in use
/// at that moment (kernel `mm/fadvise.c`).
///
/// Names, modes, owners and times stay in memory. There is no call to drop those of a single tree, and dropping those
/// of the whole system (`/proc/sys/vm/drop_caches`) would slow down a node in use. They are in the filesystem's
/// journal, which was synced.
pub fn forget(root: impl AsFd, interrupt: &Interrupt) -> Result<(), TreeError> {
    let said = |path: &[u8], error: Errno| Side::Copy.unreadable(path, error.into());
    syncfs(&root).map_err(|error| said(b"", error))?;
    let mut walk = Walk::new(root.as_fd(), Side::Copy, interrupt)?;
    while let Some(entry) = walk.next()? {
        if let Node::File(file) = &entry.node {
            fadvise(file, 0, None, Advice::DontNeed).map_err(|error| said(&entry.path, error))?;
        }
    }
    Ok(())
}

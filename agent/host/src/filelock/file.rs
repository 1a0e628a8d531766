//! The identity of a file: device and inode, which are the same for every path to it.

use crate::{root::at, xfs::DONT_SYNC};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};
use std::{io, path::Path};

/// The identity of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileId {
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
    pub(super) is_directory: bool,
}

impl PartialEq for FileId {
    fn eq(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl FileId {
    /// The file at a path, links followed; none if it is absent.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        Self::stat(path, AtFlags::empty())
    }

    /// The entry at a path, links not followed.
    pub(super) fn of_entry(path: &Path) -> io::Result<Option<Self>> {
        Self::stat(path, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn stat(path: &Path, flags: AtFlags) -> io::Result<Option<Self>> {
        // Without synchronisation: a process may have a file of a dead NFS server open, and a request to that server
        // would hang this program too.
        let flags = flags | DONT_SYNC;
        let found =
            rustix::fs::statx(CWD, path, flags, StatxFlags::INO | StatxFlags::TYPE).map_err(io::Error::from);
        // The file is absent too if a parent directory is a regular file, such as `member` in a fenced data directory.
        if found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotADirectory) {
            return Ok(None);
        }
        Ok(vanished(found).map_err(|error| at(path, &error))?.map(|found| Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            is_directory: FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory,
        }))
    }

    pub(super) fn is_on_filesystem_of(self, other: Self) -> bool {
        self.device == other.device
    }
}

/// `fe:00`, hexadecimal.
pub(super) fn parse_device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?))
}

/// None for the errors that `/proc` gives for a process or descriptor that has just ended.
pub(super) fn vanished<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    let gone = [nix::libc::ENOENT, nix::libc::ESRCH];
    match result {
        Err(error) if error.raw_os_error().is_some_and(|code| gone.contains(&code)) => Ok(None),
        other => other.map(Some),
    }
}

//! A lock of our own: one holder at a time, and released when the holder ends.

use super::{
    file::FileId,
    users::{Holder, holder, lockers},
};
use crate::{Host, root::at};
use nix::fcntl::OFlag;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
};
use terms::{AbsPath, ErrorName, Named};

/// An exclusive lock, held until dropped.
///
/// It is taken with flock(2) on a file that is never removed: removing it would allow two holders. Programs that we
/// start don't inherit it.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("locking {path}: {by} holds it; try again when that has ended")]
    Held {
        /// The lock file.
        path: AbsPath,
        /// The holder, as far as it can be determined.
        by: Holder,
    },
    /// The file could not be made or locked.
    #[error("locking {path}")]
    Io {
        /// The lock file.
        path: AbsPath,
        /// The reason.
        source: io::Error,
    },
}

impl Named for LockError {
    fn name(&self) -> Option<ErrorName> {
        matches!(self, Self::Held { .. }).then_some(ErrorName::AnotherRun)
    }
}

impl Lock {
    /// Takes the lock, or fails at once if another process holds it. Makes the file and its directory.
    pub fn take(host: &Host, path: &AbsPath) -> Result<Self, LockError> {
        let io_error = |source| LockError::Io { path: path.clone(), source };
        let full = host.root.locate(path.as_path());
        host.root.make_dir(path.parent().as_path(), 0o700).map_err(io_error)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let file = options.open(&full).map_err(|error| io_error(at(path.as_path(), &error)))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let unknown = Holder { pid: None, command: String::new() };
                // The holder's name is only for the message, so an error here is ignored.
                let by = FileId::of(&full).and_then(|file| who(host, file)).ok().flatten();
                Err(LockError::Held { path: path.clone(), by: by.unwrap_or(unknown) })
            }
            Err(TryLockError::Error(error)) => Err(io_error(error)),
        }
    }
}

fn who(host: &Host, file: Option<FileId>) -> io::Result<Option<Holder>> {
    let Some(file) = file else { return Ok(None) };
    let pid = lockers(host, file)?.into_iter().flatten().next();
    Ok(pid.map(|pid| holder(host, pid)).transpose()?.flatten())
}

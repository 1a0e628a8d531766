//! What a tree of files holds, and whether a copy holds the same.
//!
//! Everything is read: contents and metadata, by directory handles, in one pass. The memory that this needs doesn't
//! grow with the files. A handle may lead to a mounted filesystem, to one that is mounted nowhere, or to a directory
//! beneath a mount. The caller must make sure that [`fingerprint`] gets the contents from the device and not from memory: see
//! [`super::staging`]. [`update`] makes sure of that itself.

mod compare;
mod fingerprint;
mod state;
mod types;
mod unsupported;
mod update;
mod walk;

pub use fingerprint::fingerprint;
pub use state::{State, state};
pub use types::{Summary, TreeError};
pub use unsupported::unsupported;
pub use update::{Audit, Ledger, Moved, Progress, Source, audit, settle, update, warm};

use rustix::fd::OwnedFd;
use std::{io, path::Path};
use types::{CHUNK, Side, shown};

/// Opens a directory as the root of a tree. A symbolic link is not followed.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    walk::open(path).map_err(|error| super::root::at(path, &error))
}

#[cfg(test)]
mod tests;

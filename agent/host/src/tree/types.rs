//! The results of reading a tree: a summary, or the error.

use std::{fmt, io};
use terms::{Bytes, ErrorName, Fingerprint, Named};

/// How much of a file is read at a time: large enough to be fast on any disk.
pub(super) const CHUNK: usize = 1 << 20;

/// The content of a tree while it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Regular files; several names of one file count once.
    pub files: u64,
    /// Directories below the root.
    pub directories: u64,
    /// The sizes of the files.
    pub bytes: Bytes,
    /// The fingerprint of everything that was read.
    pub fingerprint: Fingerprint,
}

/// Why a tree could not be read, or is not like the other.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The operating system returned an error.
    #[error("reading {file}")]
    Unreadable {
        /// The entry, relative to the root, and of which tree.
        file: String,
        /// The reason.
        source: io::Error,
    },
    /// The entry changed while it was read.
    #[error("{file} is being written: stop what writes it, then try again")]
    Changing {
        /// The entry.
        file: String,
    },
    /// Another filesystem, or another part of this one, is mounted on the entry.
    #[error("{file} is a mount point: unmount what is there")]
    Mounted {
        /// The entry.
        file: String,
    },
    /// The entry is, or has, something that a copy would lose.
    #[error("{file} {found}")]
    Unsupported {
        /// The entry.
        file: String,
        /// The fault of the entry, and the cure.
        found: String,
    },
    /// The two trees differ; this is the first difference.
    #[error("{file}: {found}")]
    Different {
        /// The entry, relative to both roots.
        file: String,
        /// The difference, and on which side it is.
        found: String,
    },
    /// An entry of the copy could not be made, written or synced.
    #[error("writing {file}")]
    Unwritable {
        /// The entry.
        file: String,
        /// The reason.
        source: io::Error,
    },
    /// The device returned something else than was written to it, or than it returned before.
    #[error(
        "{file}: the device returns something else than what it took, from byte {at} on: don't use it, and see the kernel's log and its storage"
    )]
    NotKept {
        /// The entry.
        file: String,
        /// The start of the block.
        at: u64,
    },
    /// This process was asked to stop.
    #[error("interrupted while reading files")]
    Interrupted,
}

impl Named for TreeError {
    fn name(&self) -> Option<ErrorName> {
        Some(match self {
            Self::Changing { .. } => ErrorName::BeingWritten,
            Self::Mounted { .. } => ErrorName::MountChanged,
            Self::Different { .. } => ErrorName::CopyDiffers,
            Self::NotKept { .. } => ErrorName::StorageLosesWrites,
            Self::Interrupted => ErrorName::Interrupted,
            Self::Unreadable { .. } | Self::Unwritable { .. } => ErrorName::IoFailed,
            Self::Unsupported { .. } => return None,
        })
    }
}

impl TreeError {
    /// Returns true if it means that someone writes to a tree, or that a tree was written since it was copied. A second
    /// try may succeed then. An entry that cannot be found was in its directory a moment before.
    pub fn is_a_change(&self) -> bool {
        match self {
            Self::Changing { .. } | Self::Different { .. } => true,
            Self::Unreadable { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Mounted { .. }
            | Self::Unsupported { .. }
            | Self::Unwritable { .. }
            | Self::NotKept { .. }
            | Self::Interrupted => false,
        }
    }
}

/// Which tree an entry is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// There is only one tree.
    Only,
    /// The tree that was copied.
    Source,
    /// The copy.
    Copy,
}

impl Side {
    /// The entry as a person reads it.
    pub(super) fn name(self, path: &[u8]) -> String {
        format!("{}{self}", shown(path))
    }

    pub(super) fn unreadable(self, path: &[u8], source: io::Error) -> TreeError {
        TreeError::Unreadable { file: self.name(path), source }
    }

    pub(super) fn unwritable(self, path: &[u8], source: io::Error) -> TreeError {
        TreeError::Unwritable { file: self.name(path), source }
    }

    pub(super) fn changing(self, path: &[u8]) -> TreeError {
        TreeError::Changing { file: self.name(path) }
    }

    pub(super) fn special(self, path: &[u8], what: &str) -> TreeError {
        TreeError::Unsupported {
            file: self.name(path),
            found: format!("is {what}, which can't be copied: remove it"),
        }
    }
}

impl fmt::Display for Side {
    /// The text after a path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Only => "",
            Self::Source => " on the source",
            Self::Copy => " on the copy",
        })
    }
}

/// A path or name for a message: names may be any bytes, messages must stay one plain line.
pub(super) fn shown(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "the top directory".into();
    }
    let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    String::from_utf8_lossy(bytes).chars().map(plain).collect()
}

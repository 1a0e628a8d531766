//! The LUN as the node sees it.

use super::{Fact, authority::Stamp};
use crate::terms::{Bytes, FsLabel, FsUuid, Wwid};
use serde::Serialize;

/// Whether the LUN can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LunView {
    /// No session to the target is logged in.
    NoSession,
    /// There is a session, and no disk of our LUN number on it; or the device's link leads nowhere.
    NotAttached,
    /// Here it is.
    Seen(Box<Lun>),
}

/// A LUN that is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lun {
    /// The kernel name of the device to use: a disk, or the multipath map over its paths.
    pub device: String,
    /// Its device number, `major:minor`.
    pub devno: String,
    /// The kernel names of all its paths.
    pub paths: Vec<String>,
    /// Whether multipathd has, or is about to have, the paths.
    pub multipath: Multipath,
    /// The name for life, the same on all paths.
    pub wwid: Fact<Wwid>,
    /// VPD page 0x80.
    pub serial: Option<String>,
    /// Size.
    pub size: Bytes,
    /// The kernel's read-only flag.
    pub read_only: bool,
    /// Devices stacked on it, other than its own multipath map.
    pub holders: Vec<String>,
    /// Partitions on it.
    pub partitions: Vec<String>,
    /// Who has it mounted, in any mount namespace, or swaps on it. Our own staging is left out.
    pub users: Fact<Vec<User>>,
    /// What is on it.
    pub content: Fact<Content>,
    /// Other devices that carry the label of our filesystem.
    pub same_label: Fact<Vec<String>>,
}

/// multipathd's interest in the LUN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Multipath {
    /// None.
    Unclaimed,
    /// udev says that the path belongs to multipath, and the map isn't there yet.
    Claimed,
    /// The map is the device to use.
    Mapped,
}

/// Somebody who uses the LUN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct User {
    /// Where: a mount point, or `swap`.
    pub at: String,
    /// A process in whose namespace that is.
    pub pid: u32,
    /// That process's name.
    pub command: String,
}

/// What the medium holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Provably nothing.
    Blank,
    /// Only what a `mkfs.xfs` for this UUID leaves when it is cut short.
    Unfinished {
        /// The UUID that the record has announced.
        uuid: FsUuid,
    },
    /// An XFS.
    Xfs {
        /// Its UUID.
        uuid: FsUuid,
        /// Its label, when it has one that could be ours.
        label: Option<FsLabel>,
        /// What can be read of its stamp without a change to the LUN.
        stamp: Fact<Option<Stamp>>,
        /// Whether the stamp was read from a live or staged mount. A look at an unmounted
        /// filesystem doesn't replay its log, so it may show an older stamp.
        settled: bool,
        /// Whether its root directory is empty; told only together with a settled stamp.
        empty: Option<bool>,
    },
    /// Anything else.
    Foreign {
        /// What, in words that follow "holds".
        found: String,
    },
}

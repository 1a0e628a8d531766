//! The LUN, as this node sees it.

use super::{SeenSession, authority::Stamp, fact::Fact};
use schemars::JsonSchema;
use serde::Serialize;
use terms::{Bytes, FsLabel, FsUuid, Wwid};

/// The LUN as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LunView {
    /// No session to the target is logged in.
    NoSession,
    /// A session is logged in and has no disk with our LUN number; or the device's link does not exist.
    NotAttached,
    /// It is attached.
    Seen(Box<Lun>),
}

/// A LUN that is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lun {
    /// The kernel name of the device to use: a disk, or the multipath map over the paths.
    pub device: String,
    /// Its device number, `major:minor`.
    pub devno: String,
    /// The kernel names of all its paths.
    pub paths: Vec<String>,
    /// The use of the paths by multipathd.
    pub multipath: Multipath,
    /// The WWID, the same on all paths.
    pub wwid: Fact<Wwid>,
    /// The serial number, from VPD page 0x80.
    pub serial: Option<String>,
    /// Its size.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// The size of its smallest path. A multipath map keeps its old size when the LUN grows, until multipathd is told.
    #[serde(rename = "path_size_bytes")]
    pub path_size: Bytes,
    /// How two of its paths differ in what they hold, if they do: two volumes have one WWID.
    pub paths_differ: Option<String>,
    /// True if commands to each of its paths wait while none ends: the target has fallen silent.
    pub silent: bool,
    /// The kernel's read-only flag.
    pub read_only: bool,
    /// Devices stacked on it, such as LVM; not its own multipath map.
    pub holders: Vec<String>,
    /// Partitions on it.
    pub partitions: Vec<String>,
    /// Processes that have it mounted in any mount namespace, and swap. Our own staging mount is left out.
    pub users: Fact<Vec<User>>,
    /// The content. Of a LUN that is mounted for etcd it is what the device has in its place now, past the filesystem in memory. A
    /// LUN that is mounted elsewhere is not read, and neither is one that does not answer: a read would wait with the target.
    pub content: Fact<Content>,
}

impl Lun {
    /// Those of its paths that its map does not have: of no session is this disk in use. None without a map.
    pub fn outside_map(&self, sessions: &[SeenSession]) -> Vec<&String> {
        let is_used = |path: &&String| sessions.iter().any(|session| session.in_use.contains(path));
        self.paths.iter().filter(|path| self.multipath == Multipath::Mapped && !is_used(path)).collect()
    }

    /// True if the LUN has grown beyond the filesystem that is mounted from it, whose size is `seems` by statfs(2): the
    /// LUN is not read for this. XFS leaves its log out there (kernel `fs/xfs/xfs_super.c`, `xfs_fs_statfs`), so it seems
    /// a little smaller than the LUN even if it fills it. The paths count: a map may still have the size of a LUN that was
    /// made smaller.
    pub fn exceeds(&self, seems: Bytes) -> bool {
        self.path_size.0.saturating_sub(seems.0) > log_at_most(seems).0
    }

    /// The size that every path and the map over them have.
    pub fn least_size(&self) -> Bytes {
        self.size.min(self.path_size)
    }
}

/// The largest log that such a filesystem may have: 2 GiB (kernel `fs/xfs/libxfs/xfs_fs.h`, `XFS_MAX_LOG_BYTES`).
/// `mkfs.xfs` makes it much smaller: a 2,048th of the filesystem, and of a small one 64 MiB, or more on a machine with
/// many processors.
fn log_at_most(filesystem: Bytes) -> Bytes {
    Bytes((filesystem.0 / 16).clamp(256 << 20, 2 << 30))
}

/// The use of a LUN by multipathd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Multipath {
    /// It does not.
    Unclaimed,
    /// udev reports that the path belongs to multipath, and there is no map yet.
    Claimed,
    /// It does: the map is the device to use.
    Mapped,
}

/// A user of the LUN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct User {
    /// The mount point, or `swap`.
    pub at: String,
    /// A process that has this mount in its mount namespace.
    pub pid: u32,
    /// The name of this process.
    pub command: String,
}

/// The content of the LUN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Nothing, which is proven.
    Blank,
    /// Only what `mkfs.xfs` with this UUID leaves if it is interrupted.
    Unfinished {
        /// The UUID, which the record announced before `mkfs.xfs` ran.
        uuid: FsUuid,
    },
    /// An XFS.
    Xfs {
        /// Its UUID.
        uuid: FsUuid,
        /// Its label, if it has one that could be ours.
        label: Option<FsLabel>,
        /// The filesystem's size.
        #[serde(rename = "size_bytes")]
        size: Bytes,
        /// Its stamp, as far as it can be read without writing to the LUN.
        stamp: Fact<Option<Stamp>>,
        /// True if the stamp was read through our staging mount. Reading the device does not replay the log, so it may
        /// show an older stamp.
        settled: bool,
        /// True if its root directory is empty; known only if the stamp is settled.
        empty: Option<bool>,
    },
    /// Anything else.
    Foreign {
        /// A description, in words that follow "holds".
        found: String,
    },
}

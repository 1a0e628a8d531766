//! The node's own side: the data directory, its mount, the mount unit, etcd.

use crate::terms::{Bytes, Fingerprint, Span};
use serde::Serialize;

/// The data directory on the local disk, as it is beneath any mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalDir {
    /// There is none.
    Absent,
    /// There is one.
    Present {
        /// Names in it.
        entries: Vec<String>,
        /// Whether it is immutable; none when the filesystem has no such flag.
        immutable: Option<bool>,
        /// Its fingerprint; taken only when a record says that the LUN is the truth and there is
        /// something here all the same, for it means reading everything.
        fingerprint: Option<Fingerprint>,
        /// Whether it lies on the same mount as etcd-lun's own state directory, so that a rename
        /// can retire it.
        with_state: bool,
        /// Bytes below it, when counted (before a migration).
        size: Option<Bytes>,
    },
}

impl LocalDir {
    /// Whether there is nothing in it, or no directory at all.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Present { entries, .. } => entries.is_empty(),
        }
    }

    /// Whether etcd could neither read old data here nor write new.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Present { entries, immutable: Some(true), .. } if entries.is_empty())
    }
}

/// What a rollback has to know of the local disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shelf {
    /// Bytes free on the filesystem of etcd-lun's own state directory.
    pub free: Bytes,
    /// What lies where the LUN's data is staged; none when there is nothing.
    pub copy: Option<StagedCopy>,
}

/// A copy of the LUN's data that waits to take the data directory's place, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StagedCopy {
    /// Whether it carries our mark.
    pub ours: bool,
    /// Bytes in it.
    pub size: Bytes,
    /// Its fingerprint; taken only when a record says that it is the truth, for it means reading everything.
    pub fingerprint: Option<Fingerprint>,
}

/// Local data of an earlier migration, out of the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Retired {
    /// Its directory's name: the generation that the data became on the LUN.
    pub name: String,
    /// Whether it carries our mark for that generation.
    pub ours: bool,
    /// Bytes in it.
    pub size: Bytes,
    /// For how long it has lain there.
    pub age: Span,
}

/// What PID 1 sees mounted on the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DataMount {
    /// The device number, `major:minor`.
    pub devno: String,
    /// The device as named when it was mounted.
    pub source: String,
    /// The filesystem's type.
    pub fs_type: String,
    /// Options of the mount and of its superblock.
    pub options: Vec<String>,
    /// How many mounts lie on top of each other here.
    pub layers: usize,
    /// Bytes free for etcd, and in all.
    pub free: Option<(Bytes, Bytes)>,
    /// Whether a look at it gave an I/O error: XFS has shut down.
    pub io_error: bool,
}

/// The mount unit as systemd knows it, against what `render units` writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountUnit {
    /// systemd knows no such unit.
    Absent,
    /// The file is another.
    Differs {
        /// The file that systemd reads.
        path: String,
        /// What differs.
        how: String,
    },
    /// The file is right, and systemd has not read it yet.
    NotLoaded,
    /// As rendered.
    Right,
}

/// etcd as its runtime sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Etcd {
    /// What it is run by: its unit, or its static pod's manifest.
    pub name: String,
    /// Whether there is, or may yet be, an etcd of that name.
    pub exists: bool,
    /// systemd's word for a unit: `active`, `activating`, `failed`, `inactive`, …; for a static pod `manifest in
    /// place`, `manifest parked`, `no manifest`.
    pub state: String,
    /// Whether it runs, or is on its way up or down.
    pub running: bool,
    /// Whether it starts at boot: the unit is enabled, the manifest is in place.
    pub enabled: bool,
    /// Whether it will start without anybody's doing: systemd has its start in the queue, or the kubelet finds its
    /// manifest when it comes up.
    pub start_queued: bool,
    /// Whether an earlier run of ours stopped it and did not put it back.
    pub stopped_by_us: bool,
    /// Who holds the database's lock on the local disk or on the LUN's mount, as `command (pid N)`.
    pub lock_holders: Vec<String>,
}

/// What runs static pods.
pub const KUBELET: &str = "kubelet.service";
/// The state of a static pod whose etcd has its database open.
pub const POD_SERVES: &str = "running";

impl Etcd {
    /// Whether it is up: its unit is active, or its static pod has the database open.
    pub fn is_up(&self) -> bool {
        self.state == "active" || self.state == POD_SERVES
    }

    /// Whether it should run: it does, it starts at boot, it tried and failed, or we took it down.
    pub fn is_wanted(&self) -> bool {
        self.exists && (self.running || self.enabled || self.state == "failed" || self.stopped_by_us)
    }

    /// Whether it should run and only we would start it; or somebody did, and what we left for that is still there.
    pub fn waits_for_us(&self) -> bool {
        self.is_wanted() && (self.stopped_by_us || (!self.running && !self.start_queued))
    }
}

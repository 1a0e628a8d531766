//! What can be done, one value per act. A step carries every choice; `apply` has none left.

use crate::{
    config::{Discovery, Runtime},
    node::{
        authority::{Authority, Record, Stamp},
        layout,
    },
    terms::{AbsPath, Bytes, DiskLink, Fingerprint, FsLabel, FsUuid, Iqn, LunNumber, Portal, Span, Wwid},
};
use serde::Serialize;
use std::fmt;

/// Which way data is copied, out of the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From the local disk to the staged LUN.
    ToLun,
    /// From the LUN, mounted on the data directory, to where the local disk keeps it until it takes that directory's
    /// place.
    ToLocal {
        /// The generation that the copy becomes.
        generation: u64,
    },
}

impl fmt::Display for Way {
    /// Where to.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToLun => f.write_str("the LUN"),
            Self::ToLocal { generation } => write!(f, "{}/{generation} on the local disk", layout::RETURNING),
        }
    }
}

/// One act of `apply` or `rollback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Writes the initiator name where iscsid reads it.
    SetInitiatorName {
        /// The name.
        name: Iqn,
    },
    /// Makes a running iscsid read the initiator name again.
    RestartIscsid,
    /// Ends a session that nobody uses: it was made with another initiator name, or is not needed after a rollback.
    LogOut {
        /// The session's number.
        sid: u32,
    },
    /// Discovers the target, writes its records and logs in.
    LogIn {
        /// The target.
        target: Iqn,
        /// Its portals.
        portals: Vec<Portal>,
        /// How portals are learnt.
        discovery: Discovery,
        /// To all portals (multipath), or to the first one that works.
        all: bool,
        /// What the records say of a target that falls silent: how often it is asked, ...
        noop_interval: Span,
        /// ... and how long an answer may take.
        noop_timeout: Span,
        /// How long transient failures are retried.
        limit: Span,
    },
    /// Has a session wait for its target as long as etcd is to.
    SetTimeout {
        /// The session's number.
        sid: u32,
        /// How long.
        replacement: Span,
    },
    /// Scans for the LUN, and only it, and waits for udev to have finished with its disk.
    AttachLun {
        /// The target.
        target: Iqn,
        /// Its number.
        lun: LunNumber,
        /// How long it is waited for.
        limit: Span,
    },
    /// Waits for a disk of the machine's own, and for udev to have finished with it.
    AwaitDisk {
        /// The link that leads to it.
        path: DiskLink,
        /// How long it is waited for.
        limit: Span,
    },
    /// Writes the record that announces an attempt: the truth stays local.
    BeginRecord {
        /// The record.
        record: Record,
    },
    /// Removes what a `mkfs.xfs` of ours left when it was cut short.
    ClearUnfinished {
        /// The LUN.
        wwid: Wwid,
        /// The UUID that everything to be removed carries.
        uuid: FsUuid,
    },
    /// Makes the filesystem on a LUN that is blank.
    Format {
        /// The LUN.
        wwid: Wwid,
        /// The filesystem's UUID.
        uuid: FsUuid,
        /// Its label.
        label: FsLabel,
    },
    /// Mounts the LUN in a mount namespace of this process's own; the log is replayed.
    Stage {
        /// The LUN.
        wwid: Wwid,
        /// The filesystem's UUID.
        uuid: FsUuid,
    },
    /// Takes the stamp off a filesystem whose data is about to be replaced.
    Unstamp,
    /// Copies while etcd still runs, so that the copy that counts is short.
    PreCopy {
        /// The data directory.
        from: AbsPath,
        /// Where to.
        way: Way,
        /// About how much there is.
        size: Option<Bytes>,
        /// Whether nothing can have been copied there before.
        onto_empty: bool,
    },
    /// Stops etcd and waits until nobody holds its database.
    StopEtcd {
        /// What runs it.
        runtime: Runtime,
    },
    /// Copies with etcd stopped.
    Copy {
        /// The data directory.
        from: AbsPath,
        /// Where to.
        way: Way,
        /// About how much there is.
        size: Option<Bytes>,
        /// Whether nothing can have been copied there before.
        onto_empty: bool,
    },
    /// Measures the staged LUN, and refuses one that is too slow.
    Measure {
        /// The LUN.
        wwid: Wwid,
        /// Within this 99 of 100 `fdatasync` calls must end.
        limit: Span,
    },
    /// Compares both trees, the copy read from its device.
    Prove {
        /// The data directory.
        from: AbsPath,
        /// Where the copy is.
        way: Way,
    },
    /// Stamps the LUN: its data is complete.
    Stamp {
        /// The stamp.
        stamp: Stamp,
    },
    /// The commit point: from here on the truth is on the LUN.
    Commit {
        /// The record, still without the fingerprint that the proof gives.
        record: Record,
    },
    /// Moves the local data out of the data directory.
    Retire {
        /// The data directory.
        from: AbsPath,
        /// The generation that the data became.
        generation: u64,
        /// What the data must be, when it was not proven in this very run.
        fingerprint: Option<Fingerprint>,
    },
    /// Leaves the directory beneath the mount point without data, and immutable.
    Fence {
        /// The data directory.
        at: AbsPath,
    },
    /// Counts a use of the LUN, on its stamp and then in the record.
    Activate {
        /// The stamp as it will be.
        stamp: Stamp,
        /// The record as it will be.
        record: Record,
    },
    /// The same while it is mounted and in use.
    Mark {
        /// The data directory.
        at: AbsPath,
        /// The stamp as it will be.
        stamp: Stamp,
        /// The record as it will be.
        record: Record,
    },
    /// Has PID 1 mount the LUN on the data directory.
    MountData {
        /// The mount unit.
        unit: String,
        /// Where.
        at: AbsPath,
        /// The LUN.
        wwid: Wwid,
        /// The filesystem's UUID.
        uuid: FsUuid,
        /// Its label.
        label: FsLabel,
        /// Options that must be in effect afterwards.
        options: Vec<String>,
    },
    /// Has PID 1 unmount the LUN, so that etcd finds the fence until the local data has taken its place.
    UnmountData {
        /// The mount unit.
        unit: String,
        /// Where.
        at: AbsPath,
    },
    /// Has PID 1 unmount a filesystem that has shut down, so that it can be mounted anew.
    UnmountShutDown {
        /// The mount unit.
        unit: String,
        /// Where.
        at: AbsPath,
    },
    /// The commit point of a rollback: from here on the truth is on the local disk.
    CommitLocal {
        /// The record, still without the fingerprint that the proof gives.
        record: Record,
    },
    /// Opens the fence by putting the proven copy in its place.
    Return {
        /// The data directory.
        at: AbsPath,
        /// The generation that the copy is.
        generation: u64,
    },
    /// Starts etcd.
    StartEtcd {
        /// What runs it.
        runtime: Runtime,
        /// The data directory.
        data_dir: AbsPath,
        /// Where that must lead.
        on: Authority,
        /// Whether to wait until it runs.
        wait: bool,
    },
}

impl Step {
    /// A stable name for the journal and JSON.
    pub fn id(&self) -> &'static str {
        match self {
            Self::SetInitiatorName { .. } => "set-initiator-name",
            Self::RestartIscsid => "restart-iscsid",
            Self::LogOut { .. } => "log-out",
            Self::LogIn { .. } => "log-in",
            Self::SetTimeout { .. } => "set-timeout",
            Self::AttachLun { .. } => "attach-lun",
            Self::AwaitDisk { .. } => "await-disk",
            Self::BeginRecord { .. } => "begin-record",
            Self::ClearUnfinished { .. } => "clear-unfinished",
            Self::Format { .. } => "format",
            Self::Stage { .. } => "stage",
            Self::Unstamp => "unstamp",
            Self::PreCopy { .. } => "pre-copy",
            Self::StopEtcd { .. } => "stop-etcd",
            Self::Copy { .. } => "copy",
            Self::Measure { .. } => "measure",
            Self::Prove { .. } => "prove",
            Self::Stamp { .. } => "stamp",
            Self::Commit { .. } => "commit",
            Self::Retire { .. } => "retire",
            Self::Fence { .. } => "fence",
            Self::Activate { .. } => "activate",
            Self::Mark { .. } => "mark",
            Self::MountData { .. } => "mount-data",
            Self::UnmountData { .. } => "unmount-data",
            Self::UnmountShutDown { .. } => "unmount-shut-down",
            Self::CommitLocal { .. } => "commit-local",
            Self::Return { .. } => "return",
            Self::StartEtcd { .. } => "start-etcd",
        }
    }

    /// Whether it overwrites or moves something that could be missed.
    pub fn is_destructive(&self) -> bool {
        match self {
            Self::ClearUnfinished { .. }
            | Self::Format { .. }
            | Self::Unstamp
            | Self::PreCopy { .. }
            | Self::Copy { .. }
            | Self::Commit { .. }
            | Self::Retire { .. }
            | Self::CommitLocal { .. }
            | Self::Return { .. } => true,
            Self::SetInitiatorName { .. }
            | Self::RestartIscsid
            | Self::LogOut { .. }
            | Self::LogIn { .. }
            | Self::SetTimeout { .. }
            | Self::AttachLun { .. }
            | Self::AwaitDisk { .. }
            | Self::BeginRecord { .. }
            | Self::Stage { .. }
            | Self::StopEtcd { .. }
            | Self::Measure { .. }
            | Self::Prove { .. }
            | Self::Stamp { .. }
            | Self::Fence { .. }
            | Self::Activate { .. }
            | Self::Mark { .. }
            | Self::MountData { .. }
            | Self::UnmountData { .. }
            | Self::UnmountShutDown { .. }
            | Self::StartEtcd { .. } => false,
        }
    }
}

impl fmt::Display for Step {
    /// An imperative phrase.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetInitiatorName { name } => write!(f, "set the initiator name to {name}"),
            Self::RestartIscsid => write!(f, "restart iscsid, so that it takes the new initiator name"),
            Self::LogOut { sid } => {
                write!(f, "log out session {sid}, which is not needed any more and which nobody uses")
            }
            Self::LogIn { target, portals, discovery, all, limit, .. } => {
                let portals = portals.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let how = match discovery {
                    Discovery::SendTargets => "discover and log in to",
                    Discovery::Static => "log in to",
                };
                let which = if *all { "at" } else { "at the first that works of" };
                write!(f, "{how} {target} {which} {portals}, retrying for up to {limit}")
            }
            Self::SetTimeout { sid, replacement } => {
                write!(f, "have session {sid} keep writes waiting for {replacement} when the target is gone")
            }
            Self::AttachLun { target, lun, .. } => write!(f, "attach LUN {lun} of {target}, and no other"),
            Self::AwaitDisk { path, limit } => write!(f, "wait for {path}, for up to {limit}"),
            Self::BeginRecord { record } => {
                write!(
                    f,
                    "record attempt {} with filesystem {}; the truth stays on the local disk",
                    record.generation, record.uuid
                )
            }
            Self::ClearUnfinished { wwid, uuid } => {
                write!(f, "clear the unfinished filesystem {uuid} of an earlier attempt from LUN {wwid}")
            }
            Self::Format { wwid, uuid, label } => {
                write!(f, "format LUN {wwid} as XFS labelled {label}, UUID {uuid}")
            }
            Self::Stage { wwid, .. } => write!(f, "mount LUN {wwid} for this program only"),
            Self::Unstamp => write!(f, "take the old stamp off the LUN"),
            Self::PreCopy { from, way, size, .. } => {
                write!(f, "copy {from}{} to {way} while etcd still runs", sized(*size))
            }
            Self::StopEtcd { runtime: Runtime::Systemd { unit } } => {
                write!(f, "stop {unit} and wait until nobody holds the database")
            }
            Self::StopEtcd { runtime: Runtime::StaticPod { manifest } } => write!(
                f,
                "move {manifest} aside, and wait until the kubelet has ended etcd's containers and nobody holds the database"
            ),
            Self::Copy { from, way, size, .. } => write!(f, "copy {from}{} to {way}", sized(*size)),
            Self::Measure { limit, .. } => {
                write!(
                    f,
                    "measure the LUN, which is refused unless 99 of 100 fdatasync calls end within {limit}"
                )
            }
            Self::Prove { from, way } => {
                write!(f, "compare {from} and {way}, content and metadata, read from the device")
            }
            Self::Stamp { stamp } => {
                write!(f, "stamp the LUN with generation {} for {}", stamp.generation, stamp.node)
            }
            Self::Commit { record } => {
                write!(f, "commit: from here on generation {} on the LUN is the truth", record.generation)
            }
            Self::Retire { from, generation, .. } => {
                write!(f, "retire the data in {from} to {}/{generation}", layout::RETIRED)
            }
            Self::Fence { at } => write!(f, "fence {at}: without data and immutable beneath the mount"),
            Self::Activate { stamp, .. } | Self::Mark { stamp, .. } => {
                write!(f, "count use {} of the LUN, on its stamp and in the record", stamp.activations)
            }
            Self::MountData { unit, at, .. } => write!(f, "have systemd mount {at} ({unit})"),
            Self::UnmountData { unit, at } => write!(f, "have systemd unmount {at} ({unit})"),
            Self::UnmountShutDown { unit, at } => write!(
                f,
                "have systemd unmount {at} ({unit}), whose filesystem has shut down after an I/O error"
            ),
            Self::CommitLocal { record } => write!(
                f,
                "commit: from here on generation {} on the local disk is the truth, and stays it until a person applies",
                record.generation
            ),
            Self::Return { at, generation } => {
                write!(f, "open the fence: put {}/{generation} in the place of {at}", layout::RETURNING)
            }
            Self::StartEtcd { runtime: Runtime::Systemd { unit }, on, .. } => {
                write!(f, "start {unit} on the {on}")
            }
            Self::StartEtcd { runtime: Runtime::StaticPod { manifest }, on, .. } => {
                write!(f, "put {manifest} back, so that the kubelet starts etcd on the {on}")
            }
        }
    }
}

fn sized(size: Option<Bytes>) -> String {
    size.map(|size| format!(" ({size})")).unwrap_or_default()
}

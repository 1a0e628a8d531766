//! What can be done: one value per act. A step carries every choice that a plan can make.
//!
//! * [`payload`]: what a step with more than two choices carries
//! * [`words`]: what is said of it: its name in the journal and in JSON, and a phrase for people

mod payload;
mod words;

pub use payload::{
    AddPath, AttachLun, AwaitMember, CatchUp, Claim, Copy, Format, Grow, LogIn, Mark, MountData, Preflight,
    RemovePath, Retire, StartEtcd, StopEtcd, WatchLun, Way,
};
pub use words::Phase;

use node::authority::{Record, Stamp};
use schemars::JsonSchema;
use serde::Serialize;
use terms::{AbsPath, Bytes, DiskLink, FsUuid, Iqn, Span, Wwid};

/// One act of `apply` or `rollback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Step {
    /// One that decides which copy is the truth, and on which one etcd can start.
    Protocol(ProtocolStep),
    /// Any other.
    Node(NodeStep),
}

/// A step of record and stamp, of the data directory and the mount, of the copy and its proof, or etcd's stop and start. It runs on
/// any machine, so that tests can play it on a simulated one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum ProtocolStep {
    /// Writes the record that announces an attempt: the local disk stays authoritative.
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
    Format(Format),
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
    PreCopy(Copy),
    /// Brings that copy up to date in rounds while etcd still runs, and refuses if the last round tells that etcd would be
    /// away for too long.
    CatchUp(CatchUp),
    /// Stops etcd and waits until nobody holds its database.
    StopEtcd(StopEtcd),
    /// Copies with etcd stopped.
    Copy(Copy),
    /// Compares both trees. The copy was read from its device.
    Prove {
        /// The data directory.
        from: AbsPath,
        /// Where the copy is.
        way: Way,
        /// True if containers of etcd's pod may still write: then the proof counts only when `Confirm` says so.
        provisional: bool,
        /// True if the LUN is mounted anew first, so that names and metadata come from its device too. Where etcd runs
        /// until shortly before, `CatchUp` has done that.
        afresh: bool,
    },
    /// Waits until all containers of etcd's pod have ended and nobody uses the data directory.
    AwaitPodEnd {
        /// The pod's manifest, which is moved aside.
        manifest: AbsPath,
    },
    /// Finds out whether anything was written since the provisional proof began. If so, copies and proves again.
    Confirm(Copy),
    /// Stamps the LUN: its data is complete.
    Stamp {
        /// The stamp.
        stamp: Stamp,
    },
    /// The commit point: from here on the LUN is authoritative.
    Commit {
        /// The record, still without the fingerprint that the proof gives.
        record: Record,
    },
    /// Moves the local data out of the data directory.
    Retire(Retire),
    /// Leaves the directory beneath the mount point without data, and immutable.
    Fence {
        /// The data directory.
        at: AbsPath,
    },
    /// Begins a use of the LUN: announces it in the record, gives it to the stamp, and takes it over into the record.
    Activate {
        /// The stamp as it will be.
        stamp: Stamp,
    },
    /// Takes a commit back, because the LUN was never used and etcd has run on the local disk since.
    TakeBack {
        /// The record as it will be.
        record: Record,
    },
    /// Puts the local data aside and leaves the fence in its place, because the LUN is newer than the record. A person can undo
    /// it.
    Bar {
        /// The data directory.
        at: AbsPath,
    },
    /// Looks at the LUN twice, and fails if somebody has used it meanwhile.
    WatchLun(WatchLun),
    /// Makes this node the LUN's owner: the record names the LUN, and a use begins.
    Claim(Claim),
    /// Decides for the barred data: from here on it is authoritative, as after a rollback.
    KeepLocal {
        /// The record, still without the data's fingerprint.
        record: Record,
    },
    /// Moves barred data to where a rollback stages its copy.
    Unbar {
        /// The generation that the data is.
        generation: u64,
    },
    /// Says on the stamp that a rollback has moved the data back to the local disk.
    Release {
        /// The stamp as it will be.
        stamp: Stamp,
    },
    /// Advances the use counter while the LUN is mounted and in use.
    Mark(Mark),
    /// Asks PID 1 to mount the LUN on the data directory.
    MountData(MountData),
    /// Asks PID 1 to unmount the LUN, so that etcd finds the fence until the local data has taken its place.
    UnmountData {
        /// The mount unit.
        unit: String,
        /// Where.
        at: AbsPath,
    },
    /// Asks PID 1 to unmount a filesystem that has shut down, so that it can be mounted again.
    UnmountShutDown {
        /// The mount unit.
        unit: String,
        /// Where.
        at: AbsPath,
    },
    /// The commit point of a rollback: from here on the local disk is authoritative.
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
    StartEtcd(StartEtcd),
}

/// A step of sessions and disks, or one that only looks or waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum NodeStep {
    /// Gives the node an initiator name of its own, where it has none: iscsid doesn't work without one.
    SetInitiatorName {
        /// The name.
        name: Iqn,
    },
    /// Ends a session that nobody uses: the config had another initiator name or portal when it was made, or it is not needed
    /// after a rollback.
    LogOut {
        /// The session's number.
        sid: u32,
    },
    /// Discovers the target and logs in, by node records that only this run sees.
    LogIn(LogIn),
    /// Has a session wait for its target as long as etcd is to.
    SetTimeout {
        /// The session's number.
        sid: u32,
        /// How long.
        #[serde(rename = "replacement_seconds")]
        replacement: Span,
    },
    /// Tells multipathd to take a path out of the map, because its session is to end. Another path works.
    RemovePath(RemovePath),
    /// Tells multipathd to take a path into the map again that it was made to forget.
    AddPath(AddPath),
    /// Scans for the LUN, and only it, and waits for udev to have finished with its disk.
    AttachLun(AttachLun),
    /// Waits for a disk of the machine's own, and for udev to have finished with it.
    AwaitDisk {
        /// The link that leads to it.
        path: DiskLink,
        /// How long it is waited for.
        #[serde(rename = "limit_seconds")]
        limit: Span,
    },
    /// Tries everything that the steps after the stop need, while etcd still runs.
    Preflight(Preflight),
    /// Measures the staged LUN, and refuses one that is too slow.
    Measure {
        /// The LUN.
        wwid: Wwid,
        /// Within this 99 of 100 `fdatasync` calls must end.
        #[serde(rename = "limit_seconds")]
        limit: Span,
    },
    /// Has multipathd give the map the size of its paths, after the LUN has grown.
    ResizeMap {
        /// The kernel name of the map.
        map: String,
        /// The size of the paths.
        #[serde(rename = "to_bytes")]
        to: Bytes,
    },
    /// Grows the mounted filesystem to the size of the LUN, while etcd uses it.
    Grow(Grow),
    /// Waits until this node's member serves.
    AwaitMember(AwaitMember),
}

#[cfg(test)]
mod tests;

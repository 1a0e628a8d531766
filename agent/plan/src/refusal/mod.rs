//! Refusals: what etcd-lun looked at, what it found, and the cure.
//!
//! There is no force flag. A refusal loses nothing.

mod authority;
mod cluster;
mod label;
mod place;
mod retired;
mod rollback;
mod shut_down;

pub use authority::AuthorityRefusal;
pub use cluster::ClusterRefusal;
pub use label::LabelRefusal;
pub use place::PlaceRefusal;
pub use retired::RetiredRefusal;
pub use rollback::RollbackRefusal;
pub use shut_down::ShutDownRefusal;

use config::Place;
use node::User;
use schemars::JsonSchema;
use serde::Serialize;
use terms::{Bytes, Span, Wwid};

/// Why etcd-lun refuses to act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum Refusal {
    /// A fact that must be known could not be observed.
    #[error("{what} cannot be determined: {why}; correct that, then run this again")]
    Unknown {
        /// The fact.
        what: &'static str,
        /// Why it is not known.
        why: String,
    },
    /// A program is not installed.
    #[error("{tools} missing: install it, then run `etcd-lun apply` again")]
    ToolMissing {
        /// Program and package.
        tools: String,
    },
    /// This process does not see the host's mounts.
    #[error(
        "this process is not in PID 1's mount namespace, so its mounts would be lost: run it as `nsenter -t 1 -m etcd-lun …`"
    )]
    OtherNamespace,
    /// The run would end with its container, in the middle of its work.
    #[error(
        "this run is in a container and cannot leave it, because systemd made no scope for it ({why}): the container's end would end the run, and etcd could stay stopped. Run it over SSH instead: `ssh core@NODE sudo etcd-lun …`"
    )]
    EndsWithContainer {
        /// Why there is no scope.
        why: String,
    },
    /// The config says that this node's etcd stays on the local disk.
    #[error(
        "this node's etcd stays on the local disk: its entry ({entry}) has `migrate = false`; remove that line (if a MachineConfig delivers the file: in the object), then run `etcd-lun apply` again"
    )]
    MigrationOff {
        /// The entry, its file and line.
        entry: String,
    },
    /// The config names another data directory than the migrated one.
    #[error(
        "the record is for the data directory {recorded}, and the config says {configured}: set `etcd.data_dir` back to {recorded}"
    )]
    OtherDataDir {
        /// From the record.
        recorded: String,
        /// From the config.
        configured: String,
    },
    /// There is no etcd to move.
    #[error("systemd does not know the unit {unit}: set `etcd.unit` to the name of etcd's unit")]
    NoEtcd {
        /// The unit.
        unit: String,
    },
    /// Something else is mounted on the data directory.
    #[error(
        "{at} is already a mount point, of {source_device} ({fs_type}), and etcd-lun moves only a plain directory: unmount it, and move its data to the local disk first"
    )]
    ForeignMount {
        /// The data directory.
        at: String,
        /// The device.
        source_device: String,
        /// The filesystem.
        fs_type: String,
    },
    /// The local filesystem does not support the fence.
    #[error(
        "the filesystem of {at} has no immutable flag, so nothing could keep etcd from starting on old data there: put {at} on a local disk with XFS or ext4"
    )]
    NoImmutableFlag {
        /// The data directory.
        at: String,
    },
    /// The data directory cannot be retired by a rename.
    #[error(
        "{at} is not on the filesystem of {state}, so a rename cannot retire its data: put both on one filesystem"
    )]
    OtherFilesystem {
        /// The data directory.
        at: String,
        /// Our state directory.
        state: &'static str,
    },
    /// The data directory keeps etcd out, and no record says why.
    #[error(
        "{at} keeps etcd out, and there is no record of where its data is ({record}). Do not run `chattr -i` or `rm` there: etcd would begin without data. If the data is on this node's LUN, see that the target shows that LUN, run `etcd-lun claim`, then `etcd-lun apply`"
    )]
    FencedWithoutRecord {
        /// The data directory.
        at: String,
        /// The record's path.
        record: &'static str,
    },
    /// The initiator name of our session would have to change while the session is in use.
    #[error(
        "session {sid} to {target} has the initiator name {found}, the config wants {wanted}, and the session is in use: set `node.initiator` to {found}, or reboot this node"
    )]
    InitiatorInUse {
        /// The name of the session.
        found: String,
        /// The config's.
        wanted: String,
        /// The session.
        sid: u32,
        /// Its target.
        target: String,
    },
    /// The config wants a map, and nothing makes one.
    #[error(
        "multipathd does not run, and the config wants it (`target.multipath`): run `systemctl enable --now multipathd`, on Red Hat's systems first `mpathconf --enable`"
    )]
    NoMultipathd,
    /// There are several paths, or the config wants a map, and multipathd has not made one.
    #[error(
        "{lun} is attached as {paths}, and multipathd has not made one device of them: run `systemctl start multipathd`, see in `multipath -d -v3` why it leaves them alone, or log out all sessions but one and remove `target.multipath`"
    )]
    SeveralPaths {
        /// Its number at the target, or the device's link.
        lun: Place,
        /// Kernel names.
        paths: String,
    },
    /// multipathd claims the LUN and has made no map of it.
    #[error(
        "{lun} ({paths}) is claimed by multipath, and there is no map: see `multipath -ll` and `journalctl -u multipathd`"
    )]
    MultipathPending {
        /// Its number at the target, or the device's link.
        lun: Place,
        /// Kernel names.
        paths: String,
    },
    /// The LUN is not the one that the config or the record names.
    #[error("{lun} is {found}, {source_of_wish} {wanted}: {cure}")]
    WrongLun {
        /// How the LUN was found.
        lun: Place,
        /// Its WWID.
        found: Wwid,
        /// `the config wants` or `the record names`.
        source_of_wish: &'static str,
        /// The expected WWID.
        wanted: Wwid,
        /// What to correct.
        cure: &'static str,
    },
    /// Something is mounted, and the disk's link is gone.
    #[error(
        "{at} is mounted from {source_device}, and {path} leads to no disk any more, so whether it is LUN {wwid} cannot be determined: attach the disk to this machine again, then reboot this node"
    )]
    DiskGone {
        /// The data directory.
        at: String,
        /// The device as it was named when it was mounted.
        source_device: String,
        /// The link.
        path: String,
        /// The recorded disk.
        wwid: Wwid,
    },
    /// The LUN is read-only.
    #[error("LUN {wwid} is read-only: allow this node to write {where_to_fix}, then run `etcd-lun apply`")]
    ReadOnly {
        /// The LUN.
        wwid: Wwid,
        /// Where this can be fixed.
        #[serde(skip)]
        where_to_fix: &'static str,
    },
    /// The LUN is too slow.
    #[error(
        "LUN {wwid} is too slow for etcd: {found}, and 99 of 100 must be within {limit} (`lun.require_fsync_p99`); check {storage}, and measure again with `etcd-lun bench`"
    )]
    TooSlow {
        /// The LUN.
        wwid: Wwid,
        /// The measured time.
        found: String,
        /// The limit.
        #[serde(rename = "limit_seconds")]
        limit: Span,
        /// A possible cause.
        #[serde(skip)]
        storage: &'static str,
    },
    /// etcd would be away for too long.
    #[error(
        "etcd would be away for too long: {found}, and the last blocks may take {limit} (`lun.max_switch`); see with `etcd-lun bench` whether the LUN is slow, wait until etcd writes less, or raise `lun.max_switch`"
    )]
    SwitchTooLong {
        /// The result of the last round.
        found: String,
        /// The limit.
        #[serde(rename = "limit_seconds")]
        limit: Span,
    },
    /// Somebody beside etcd uses its data.
    #[error(
        "{at} is also used by {users}, which does not end when etcd is stopped: end it, then run this again; etcd was not stopped"
    )]
    DataInUse {
        /// The data directory.
        at: String,
        /// The processes, and how they use it.
        users: String,
    },
    /// rsync would leave something behind.
    #[error("a copy of {at} would not be complete: {found}, then run this again; etcd was not stopped")]
    CopyWouldLose {
        /// The data directory.
        at: String,
        /// The file, what it has, and the cure.
        found: String,
    },
    /// systemd could not start etcd again.
    #[error(
        "systemd could not start {unit} again after a stop, because the unit is {found}: run `systemctl unmask {unit}`, see `systemctl status {unit}`, then run this again; etcd was not stopped"
    )]
    UnitNotLoaded {
        /// etcd's unit.
        unit: String,
        /// Its load state.
        found: String,
    },
    /// Nothing would stop and start the pod.
    #[error(
        "{kubelet} is {found}, so nothing would end etcd's pod and start it again: run `systemctl start {kubelet}`, then run this again; etcd was not stopped"
    )]
    KubeletStopped {
        /// The kubelet's unit.
        kubelet: &'static str,
        /// Its state.
        found: String,
    },
    /// The rest of the copy would not fit.
    #[error(
        "the copy on {to} needs {wanted} more, and there is {found} of free space: free some space there, then run this again; etcd was not stopped"
    )]
    CopyTooLarge {
        /// Where the copy goes.
        to: String,
        /// The free space.
        #[serde(rename = "found_bytes")]
        found: Bytes,
        /// The needed space.
        #[serde(rename = "wanted_bytes")]
        wanted: Bytes,
    },
    /// The LUN is too small.
    #[error("LUN {wwid} has {found}, and {asks} {wanted}: grow it {where_to_fix}, or lower {instead}")]
    TooSmall {
        /// The LUN.
        wwid: Wwid,
        /// Its size.
        #[serde(rename = "found_bytes")]
        found: Bytes,
        /// The size that is needed.
        #[serde(rename = "wanted_bytes")]
        wanted: Bytes,
        /// What needs it.
        asks: String,
        /// Where this can be fixed.
        #[serde(skip)]
        where_to_fix: &'static str,
        /// What else can be changed.
        #[serde(skip)]
        instead: &'static str,
    },
    /// The LUN ends before its filesystem does.
    #[error(
        "LUN {wwid} has {found}, and the filesystem on it has {wanted}: it was made smaller, and what lay beyond its end is lost to etcd. Stop etcd on this node, and grow the LUN to at least {wanted} {where_to_fix}; if its data is lost, replace this etcd member"
    )]
    Shrunk {
        /// The LUN.
        wwid: Wwid,
        /// Its size.
        #[serde(rename = "found_bytes")]
        found: Bytes,
        /// The filesystem's size.
        #[serde(rename = "wanted_bytes")]
        wanted: Bytes,
        /// Where this can be fixed.
        #[serde(skip)]
        where_to_fix: &'static str,
    },
    /// The data does not fit on the LUN.
    #[error(
        "LUN {wwid} has {found} of space, and etcd's data and its next files need {wanted}: grow it {where_to_fix}, or name a larger LUN"
    )]
    NoRoom {
        /// The LUN.
        wwid: Wwid,
        /// Its size.
        #[serde(rename = "found_bytes")]
        found: Bytes,
        /// The size that is needed.
        #[serde(rename = "wanted_bytes")]
        wanted: Bytes,
        /// Where this can be fixed.
        #[serde(skip)]
        where_to_fix: &'static str,
    },
    /// Another device is stacked on the LUN.
    #[error("LUN {wwid} is held by {holders}: remove what is stacked on it first (see `lsblk`)")]
    Held {
        /// The LUN.
        wwid: Wwid,
        /// Device names.
        holders: String,
    },
    /// The LUN is mounted, or used as swap.
    #[error("LUN {wwid} is in use at {} by {} (pid {}): unmount it there first", user.at, user.command, user.pid)]
    InUse {
        /// The LUN.
        wwid: Wwid,
        /// The first user.
        user: User,
    },
    /// The LUN is not blank, and what it holds is not ours.
    #[error(
        "LUN {wwid} holds {found}; nothing was written to it. {cure}, or name another LUN (`node.lun` or `device.path`)"
    )]
    ForeignContent {
        /// The LUN.
        wwid: Wwid,
        /// The content.
        found: String,
        /// The way out.
        cure: &'static str,
    },
    /// The LUN is stamped, and this node has no record of it.
    #[error(
        "LUN {wwid} holds etcd data of {owner}, generation {generation}, and this node has no record of it; nothing was written to it. {cure}, or name another LUN (`node.lun` or `device.path`)"
    )]
    StampedByOther {
        /// The LUN.
        wwid: Wwid,
        /// The node that owns the data.
        owner: String,
        /// Its generation.
        generation: u64,
        /// The way out.
        cure: String,
    },
    /// The record says that the LUN is authoritative, and the LUN does not match the record.
    #[error(
        "the record says that generation {generation} on LUN {wwid} is authoritative, but {found}; etcd stays down. {cure}"
    )]
    NotTheTruth {
        /// The recorded generation.
        generation: u64,
        /// The LUN.
        wwid: Wwid,
        /// The mismatch.
        found: String,
        /// The cure.
        cure: &'static str,
    },
    /// The LUN and the local disk hold different data.
    #[error(
        "two histories: the record says that generation {generation} on the LUN is authoritative, and {at} holds data that is not the migrated data; etcd must not start on either. Stop etcd, find out who wrote {at}, move that data away, then run `etcd-lun apply` again"
    )]
    TwoHistories {
        /// The recorded generation.
        generation: u64,
        /// The data directory.
        at: String,
    },
    /// The local data is to be retired, and cannot be compared with the migrated data.
    #[error(
        "{at} cannot be compared with what was copied: the record says that generation {generation} on the LUN is authoritative, and its fingerprint of the copied data is of an older version of etcd-lun, made with another hash; etcd must not start on either. Run `etcd-lun apply` of the version that was installed before. Or stop etcd, and if nobody has written to {at} since it was copied, run `mv {at} {at}.before-lun`, then `etcd-lun apply`"
    )]
    OlderFingerprint {
        /// The recorded generation.
        generation: u64,
        /// The data directory.
        at: String,
    },
    /// A migration was cut short, and the local data is gone.
    #[error(
        "the record says that the local disk is authoritative, {at} is empty, and LUN {wwid} holds a copy of generation {generation}: restore the local data, or name another LUN (`node.lun` or `device.path`) to start a new member"
    )]
    LocalDataGone {
        /// The data directory.
        at: String,
        /// The LUN.
        wwid: Wwid,
        /// The copy's generation.
        generation: u64,
    },
    /// Another process has the database open.
    #[error("{holders} holds etcd's database, and {unit} is not running: stop that process first")]
    DatabaseHeld {
        /// `command (pid N)`, several joined.
        holders: String,
        /// etcd's unit.
        unit: String,
    },
    /// The filesystem on the LUN has shut down.
    #[error(transparent)]
    #[serde(untagged)]
    ShutDown(#[from] ShutDownRefusal),
    /// Which copy is to be used is a person's decision.
    #[error(transparent)]
    #[serde(untagged)]
    Authority(#[from] AuthorityRefusal),
    /// etcd is not stopped.
    #[error(transparent)]
    #[serde(untagged)]
    Cluster(#[from] ClusterRefusal),
    /// etcd's data may be in another place.
    #[error(transparent)]
    #[serde(untagged)]
    Place(#[from] PlaceRefusal),
    /// SELinux would keep a later boot from its work.
    #[error(transparent)]
    #[serde(untagged)]
    Label(#[from] LabelRefusal),
    /// The data is not moved back to the local disk.
    #[error(transparent)]
    #[serde(untagged)]
    Rollback(#[from] RollbackRefusal),
    /// Retired data is not deleted.
    #[error(transparent)]
    #[serde(untagged)]
    Retired(#[from] RetiredRefusal),
}

impl Refusal {
    /// Its name, as in JSON, in the last line of a run, and in the documents.
    pub fn name(&self) -> String {
        let fields = serde_json::to_value(self).ok();
        let name = fields.as_ref().and_then(|fields| fields.get("refusal")?.as_str());
        name.unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests;

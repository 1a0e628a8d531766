//! Why etcd-lun will not act: what was looked at, what was found, and the cure.
//!
//! There is no force flag. Each refusal leaves everything as it was.

use crate::{
    config::Place,
    node::User,
    terms::{Bytes, Span, Wwid},
};
use serde::Serialize;

/// A situation in which nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum Refusal {
    /// Something that must be known could not be seen.
    #[error("{what} can't be told: {why}")]
    Unknown {
        /// The fact.
        what: &'static str,
        /// Why it isn't known.
        why: String,
    },
    /// A program is not installed.
    #[error("{tools} missing: install it, then apply again")]
    ToolMissing {
        /// Program and package.
        tools: String,
    },
    /// This process can't see the host's mounts.
    #[error(
        "this process is not in PID 1's mount namespace, so its mounts would be lost; run it as `nsenter -t 1 -m etcd-lun …`"
    )]
    OtherNamespace,
    /// The config names another data directory than the one that was migrated.
    #[error(
        "the record is for {recorded}, the config says {configured}: set `etcd.data_dir` back to {recorded}"
    )]
    OtherDataDir {
        /// From the record.
        recorded: String,
        /// From the config.
        configured: String,
    },
    /// There is no etcd to move.
    #[error("systemd knows no unit {unit}: name etcd's unit with `etcd.unit`")]
    NoEtcd {
        /// The unit.
        unit: String,
    },
    /// The mount unit isn't there, or isn't ours.
    #[error(
        "mount unit {unit}: {found}; write it with `etcd-lun render units --into /etc/systemd/system` and run `systemctl daemon-reload`"
    )]
    MountUnit {
        /// Its name.
        unit: String,
        /// What was found.
        found: String,
    },
    /// Something else is mounted on the data directory.
    #[error(
        "{at} is a mount point already, of {source_device} ({fs_type}); etcd-lun moves a plain directory: unmount it and move its data to the local disk first"
    )]
    ForeignMount {
        /// The data directory.
        at: String,
        /// The device.
        source_device: String,
        /// The filesystem.
        fs_type: String,
    },
    /// The local filesystem can't hold the fence.
    #[error(
        "the filesystem of {at} has no immutable flag, so nothing could keep etcd from starting on old data there; use a local disk with XFS or ext4"
    )]
    NoImmutableFlag {
        /// The data directory.
        at: String,
    },
    /// The data directory can't be retired by a rename.
    #[error(
        "{at} is not on the filesystem of {state}, so its data can't be retired by a rename; make both one filesystem"
    )]
    OtherFilesystem {
        /// The data directory.
        at: String,
        /// Our state directory.
        state: &'static str,
    },
    /// The service, in its domain, couldn't exchange the data directory.
    #[error(
        "{parent} is labelled {found}, where etcd-lun's SELinux module lets the service exchange directories only in one of type {wanted}, such as /var/lib: put etcd's data there, or label {parent} so (`semanage fcontext --add --type {wanted} {parent}`, then `restorecon {parent}`)"
    )]
    OtherLabel {
        /// The directory that holds the data directory.
        parent: String,
        /// Its label.
        found: String,
        /// The type that it must have.
        wanted: &'static str,
    },
    /// The data directory is immutable, and no record says why.
    #[error(
        "{at} is immutable though no record says that its data moved to a LUN; find out why, then `chattr -i {at}`, or restore {record}"
    )]
    FencedWithoutRecord {
        /// The data directory.
        at: String,
        /// The record's path.
        record: &'static str,
    },
    /// The initiator name must change, and a session is in use.
    #[error(
        "the initiator name is {found}, the config wants {wanted}, and session {sid} to {target} is in use: free it, or keep the name"
    )]
    InitiatorInUse {
        /// The name in effect.
        found: String,
        /// The config's.
        wanted: String,
        /// The session.
        sid: u32,
        /// Its target.
        target: String,
    },
    /// Several paths, and no multipathd that makes them one.
    #[error(
        "{lun} is there as {paths} and multipathd has not made them one device; start multipathd for it, or log out all sessions but one"
    )]
    SeveralPaths {
        /// Its number at the target, or the device's link.
        lun: Place,
        /// Kernel names.
        paths: String,
    },
    /// multipathd wants it and hasn't got it.
    #[error(
        "{lun} ({paths}) is claimed by multipath, and there is no map; see `multipath -ll` and `journalctl -u multipathd`"
    )]
    MultipathPending {
        /// Its number at the target, or the device's link.
        lun: Place,
        /// Kernel names.
        paths: String,
    },
    /// Another LUN than the config or the record names.
    #[error(
        "LUN {lun} at the target is {found}, {source_of_wish} {wanted}: correct the mapping at the target, or the config"
    )]
    WrongLun {
        /// The LUN number.
        lun: u16,
        /// Its WWID.
        found: Wwid,
        /// `the config wants` or `the record names`.
        source_of_wish: &'static str,
        /// The expected WWID.
        wanted: Wwid,
    },
    /// The link leads to another disk than the config or the record names.
    #[error(
        "{path} is {found}, {source_of_wish} {wanted}: attach that disk where the link leads to it, or correct the config"
    )]
    WrongDisk {
        /// The link.
        path: String,
        /// The disk's WWID.
        found: Wwid,
        /// `the config wants` or `the record names`.
        source_of_wish: &'static str,
        /// The expected WWID.
        wanted: Wwid,
    },
    /// Something is mounted, and the link of its disk is gone.
    #[error(
        "{at} is mounted from {source_device}, and {path} leads to no disk any more, so nobody can tell whether it is LUN {wwid}: see that the disk is attached to this machine; if it was taken away, attach it again and reboot this node"
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
    /// It can't be written.
    #[error("LUN {wwid} is read-only: allow this node to write it {whence}, then apply again")]
    ReadOnly {
        /// The LUN.
        wwid: Wwid,
        /// Where that is mended.
        #[serde(skip)]
        whence: &'static str,
    },
    /// It is too slow.
    #[error(
        "LUN {wwid} is too slow for etcd, {limit} is the limit for 99 of 100 (`lun.require_fsync_p99`): {found}; look at {storage} with `etcd-lun bench`"
    )]
    TooSlow {
        /// The LUN.
        wwid: Wwid,
        /// What was measured.
        found: String,
        /// The limit.
        limit: Span,
        /// What may be at fault.
        #[serde(skip)]
        storage: &'static str,
    },
    /// It is too small.
    #[error("LUN {wwid} has {found}, {wanted} wanted: grow it {whence}, or lower `lun.min_size`")]
    TooSmall {
        /// The LUN.
        wwid: Wwid,
        /// Its size.
        found: Bytes,
        /// What it takes.
        wanted: Bytes,
        /// Where that is mended.
        #[serde(skip)]
        whence: &'static str,
    },
    /// The data doesn't fit.
    #[error(
        "LUN {wwid} has {found} of space, and etcd's data with room for its next files takes {wanted}: grow it {whence}, or name a larger LUN"
    )]
    NoRoom {
        /// The LUN.
        wwid: Wwid,
        /// Its size.
        found: Bytes,
        /// What it takes.
        wanted: Bytes,
        /// Where that is mended.
        #[serde(skip)]
        whence: &'static str,
    },
    /// Something is stacked on it.
    #[error("LUN {wwid} is held by {holders}: free it first (see `lsblk`)")]
    Held {
        /// The LUN.
        wwid: Wwid,
        /// Device names.
        holders: String,
    },
    /// Somebody has it mounted.
    #[error("LUN {wwid} is in use at {} by {} (pid {}): free it first", user.at, user.command, user.pid)]
    InUse {
        /// The LUN.
        wwid: Wwid,
        /// The first user.
        user: User,
    },
    /// It isn't blank and isn't ours.
    #[error(
        "LUN {wwid} holds {found}; nothing was written to it. If that can go, clear all of it by hand (`blkdiscard -z`), or name another LUN"
    )]
    ForeignContent {
        /// The LUN.
        wwid: Wwid,
        /// What.
        found: String,
    },
    /// Stamped, and this node has no record of it.
    #[error(
        "LUN {wwid} holds etcd data of {owner}, generation {generation}, and this node has no record of it; nothing was written to it. If that data can go, clear all of it by hand (`blkdiscard -z`), or name another LUN"
    )]
    StampedByOther {
        /// The LUN.
        wwid: Wwid,
        /// Whose.
        owner: String,
        /// Its generation.
        generation: u64,
    },
    /// The same label elsewhere.
    #[error(
        "{devices} carries the label {label} too, so a mount by label could take the wrong one: relabel or detach it"
    )]
    SameLabel {
        /// Kernel names.
        devices: String,
        /// The label.
        label: String,
    },
    /// The record says LUN, and the LUN says otherwise.
    #[error(
        "the record says that generation {generation} on LUN {wwid} is the truth, but {found}; etcd stays down. {cure}"
    )]
    NotTheTruth {
        /// The recorded generation.
        generation: u64,
        /// The LUN.
        wwid: Wwid,
        /// What is wrong with the LUN.
        found: String,
        /// What to do.
        cure: &'static str,
    },
    /// Data on both sides.
    #[error(
        "two histories: the record says that generation {generation} on the LUN is the truth, and {at} holds other data that is not the copied one; etcd must not start on either. Stop etcd, find out who wrote {at}, move it away, then apply again"
    )]
    TwoHistories {
        /// The recorded generation.
        generation: u64,
        /// The data directory.
        at: String,
    },
    /// The local data was to be retired, and cannot be compared with what was copied.
    #[error(
        "{at} cannot be compared with what was copied: the record says that generation {generation} on the LUN is the truth, and its fingerprint of the copied data is of an older version of etcd-lun, made with another hash; etcd must not start on either. Run `etcd-lun apply` of the version that was installed before. Or stop etcd, and if nobody has written to {at} since it was copied, run `mv {at} {at}.before-lun`, then apply again"
    )]
    OlderFingerprint {
        /// The recorded generation.
        generation: u64,
        /// The data directory.
        at: String,
    },
    /// An attempt was cut short and the local data went away.
    #[error(
        "the record says that the local disk is the truth, {at} is empty, and LUN {wwid} holds a copy of generation {generation}; restore the local data, or clear the LUN if a new member is meant"
    )]
    LocalDataGone {
        /// The data directory.
        at: String,
        /// The LUN.
        wwid: Wwid,
        /// The copy's generation.
        generation: u64,
    },
    /// At boot, or in the background later, an etcd that serves isn't stopped.
    #[error(
        "etcd ({name}) runs from the local disk already, and only a person stops a member that serves: see that the other members are healthy, then run `etcd-lun apply`, or reboot this node"
    )]
    EtcdServes {
        /// Its unit or manifest.
        name: String,
    },
    /// Somebody else's process uses the database.
    #[error("{holders} holds etcd's database though {unit} is not running: end it first")]
    DatabaseHeld {
        /// `command (pid N)`, several joined.
        holders: String,
        /// etcd's unit.
        unit: String,
    },
    /// XFS has shut down after an I/O error.
    #[error(
        "the filesystem at {at} has shut down after an I/O error, and etcd can't use it: see that the LUN is reachable, then run `etcd-lun apply`, which stops etcd and mounts it anew"
    )]
    ShutDown {
        /// The data directory.
        at: String,
    },
    /// The same, and to unmount it would open old data to etcd, or a place to write.
    #[error(
        "the filesystem at {at} has shut down after an I/O error, and the directory beneath it is not fenced: stop etcd by hand and see that it stays stopped, `systemctl stop {unit}`, then apply again"
    )]
    Unfenced {
        /// The data directory.
        at: String,
        /// The mount unit.
        unit: String,
    },
    /// No data of this node's is on a LUN.
    #[error("{found}: etcd's data is on no LUN of etcd-lun's, and there is nothing to bring back")]
    NothingToReturn {
        /// What the record says, or that there is none.
        found: &'static str,
    },
    /// The truth is out of reach.
    #[error(
        "the record says that generation {generation} on LUN {wwid} is the truth, and {found}: there is no bringing its data back without it. {cure} and that `etcd-lun apply` goes well, then roll back; if the LUN is lost for good, replace this etcd member"
    )]
    OutOfReach {
        /// The recorded generation.
        generation: u64,
        /// The LUN.
        wwid: Wwid,
        /// What is missing.
        found: String,
        /// What to see to first.
        #[serde(skip)]
        cure: &'static str,
    },
    /// The LUN's data doesn't fit on the local disk.
    #[error(
        "the local disk has {found} free at {state}, and etcd's data with room for its next files takes {wanted}: make room there (data of earlier migrations lies in {retired})"
    )]
    NoLocalRoom {
        /// What is free.
        found: Bytes,
        /// What it takes.
        wanted: Bytes,
        /// Our state directory.
        state: &'static str,
        /// Retired data.
        retired: &'static str,
    },
    /// Somebody else's data lies where a rollback stages.
    #[error("{at} holds something that was not put there by a rollback: look at it and move it away")]
    ShelfTaken {
        /// The directory.
        at: String,
    },
    /// There is no such directory.
    #[error("{at} isn't there: `etcd-lun retired list` shows what is")]
    NothingRetired {
        /// The directory.
        at: String,
    },
    /// It has no mark, or that of another generation.
    #[error(
        "{at} doesn't carry etcd-lun's mark for its generation: look at what it is, and remove it by hand if it can go"
    )]
    RetiredByOthers {
        /// The directory.
        at: String,
    },
    /// etcd hasn't done without it for long enough.
    #[error(
        "{at} was retired {age} ago, and is kept for {keep} (`lun.keep_retired`): nobody should miss it before it is deleted"
    )]
    RetiredLately {
        /// The directory.
        at: String,
        /// How long ago.
        age: Span,
        /// The config's wish.
        keep: Span,
    },
    /// etcd doesn't run on the LUN.
    #[error("{found}: retired data is deleted only while etcd runs on the LUN")]
    RetiredIsNeeded {
        /// What is not as it should be.
        found: String,
    },
    /// A rollback waits to be brought to its end.
    #[error(
        "a rollback to the local disk, generation {generation}, is not finished: run `etcd-lun rollback` again, then apply if you want the LUN after all"
    )]
    RollbackUnfinished {
        /// Its generation.
        generation: u64,
    },
    /// Something is mounted over the data that was rolled back.
    #[error(
        "the record says that generation {generation}, rolled back to the local disk, is the truth, and {source_device} is mounted over it at {at}: stop etcd if it runs there, `systemctl stop {unit}`, then run this again"
    )]
    MountedOver {
        /// The recorded generation.
        generation: u64,
        /// The data directory.
        at: String,
        /// The device.
        source_device: String,
        /// The mount unit.
        unit: String,
    },
    /// A rollback was committed, and its data is not where it should be.
    #[error(
        "the record says that generation {generation}, rolled back to the local disk, is the truth, but {found}; find out who changed {at} or {shelf}, and restore the data from there or replace this etcd member"
    )]
    ReturnedDataGone {
        /// The recorded generation.
        generation: u64,
        /// What was found.
        found: &'static str,
        /// The data directory.
        at: String,
        /// Where the copy was staged.
        shelf: String,
    },
    /// A rollback was committed by an older version, and its copy cannot be compared with what was proven.
    #[error(
        "{shelf} cannot be compared with what was proven: the record says that generation {generation}, rolled back to the local disk, is the truth, and its fingerprint is of an older version of etcd-lun, made with another hash. Run `etcd-lun rollback` of the version that was installed before, or replace this etcd member"
    )]
    OlderFingerprintOfReturned {
        /// The recorded generation.
        generation: u64,
        /// Where the copy was staged.
        shelf: String,
    },
}

impl Refusal {
    /// Whether it rests on what the kernel asked the LUN at login, and keeps: its identity, its size, and whether it can be
    /// written (`drivers/scsi/sd.c`, `sd_revalidate_disk`).
    pub fn rests_on_login(&self) -> bool {
        matches!(
            self,
            Self::WrongLun { .. }
                | Self::WrongDisk { .. }
                | Self::ReadOnly { .. }
                | Self::TooSmall { .. }
                | Self::NoRoom { .. }
        )
    }
}

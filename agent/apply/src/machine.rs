//! What the steps of the protocol see of the machine, and what they do to it.
//!
//! A step looks, judges, and performs effects. [`Machine`] is all that it has for that. Behind it is the node
//! ([`performer`](super::performer)), or the simulated machine of `tests/model`, which plays the same functions of [`steps`]
//! through every event at every place.
//!
//! [`steps`]: super::steps

use super::pod::EtcdPod;
use anyhow::Context as _;
use config::Runtime;
use hands::Shelf;
use node::{
    Etcd, Identity,
    authority::{Record, Stamp},
    layout::{BARRED_MARK, RETIRED_MARK},
};
use plan::{
    Way,
    step::{CatchUp, Copy, Format, MountData},
};
use std::ffi::CStr;
use terms::{AbsPath, Fingerprint, FsUuid, Span, Wwid};

/// A machine on which steps are carried out. Each look comes from the thing itself and never from a plan.
///
/// Every look and every effect fails if it cannot be done, with the reason; a step then ends.
pub trait Machine {
    /// Machine id and name of this node.
    fn identity(&self) -> &Identity;

    /// The record; none if there is none.
    fn record(&self) -> anyhow::Result<Option<Record>>;

    /// The stamp of a mounted filesystem; none if it has none.
    fn stamp(&self, on: Place) -> anyhow::Result<Option<Stamp>>;

    /// The stamp of a LUN that is mounted nowhere, after all checks of the LUN's identity. It comes from the device, and nothing is
    /// written to that: what only XFS's log has is not seen.
    fn stamp_at_rest(&self, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<Option<Stamp>>;

    /// Returns true if etcd runs, by what runs it and by the lock on its database.
    fn etcd(&self) -> anyhow::Result<Etcd>;

    /// The processes that use the directory, as a person knows them.
    fn users(&self, of: &AbsPath) -> anyhow::Result<Vec<String>>;

    /// Returns the source of the mount on the data directory; none if nothing is.
    fn mounted_on(&self, data_dir: &AbsPath) -> anyhow::Result<Option<String>>;

    /// Returns true if the directory beneath the mount point is immutable.
    fn is_fenced(&self, data_dir: &AbsPath) -> anyhow::Result<bool>;

    /// The record says that the LUN's copy is authoritative, and this very LUN is mounted on the data directory.
    fn data_is_on_lun(&self, data_dir: &AbsPath) -> anyhow::Result<()>;

    /// Returns true if data lies there that no run has marked: it was put aside, and the run was cut short before it
    /// looked at it again.
    fn is_unfinished(&self, aside: Aside) -> anyhow::Result<bool>;

    /// Returns true if the filesystem at the data directory has shut down.
    fn is_shut_down(&self, data_dir: &AbsPath) -> anyhow::Result<bool>;

    /// Returns true if this run has the LUN mounted for itself.
    fn is_staged(&self) -> bool;

    /// The filesystem on the device of the staged LUN, as the device itself says now, and not the mount.
    fn staged_filesystem(&self) -> anyhow::Result<FsUuid>;

    /// Returns true if this run has retired the local data, and nobody used it after that.
    fn has_retired(&self) -> bool;

    /// Holds what is mounted on the data directory: it stays mounted for as long as this machine is held, and [`Place::Held`]
    /// leads to it.
    fn hold(&mut self, data_dir: &AbsPath) -> anyhow::Result<()>;

    /// Reads a whole directory. The machine keeps the state of it before, for [`Machine::unchanged`].
    fn fingerprint(&mut self, of: &Source, seed: u64) -> anyhow::Result<Fingerprint>;

    /// Nothing in the directory has changed since the last [`Machine::fingerprint`], also if it lies elsewhere by now.
    fn unchanged(&self, of: &Source) -> anyhow::Result<()>;

    /// The fingerprint that this run has proven for both copies.
    fn proof(&self) -> Option<Fingerprint>;

    /// Compares both copies with what this run has proven, and returns the proven fingerprint. The caller first looks for
    /// processes that use the source, so that this finds what they wrote before they ended.
    fn still_holds(&self, source: &Source) -> anyhow::Result<Fingerprint>;

    /// Makes the provisional proof of this copy the proof, if nobody has written to the source since it began.
    fn confirm(&mut self, of: &Copy) -> anyhow::Result<Confirmed>;

    /// The other members of the cluster can do without this node's, as they answer now.
    fn others_are_a_quorum(&self) -> anyhow::Result<()>;

    /// If this node's member leads its cluster, another voter leads from now on; returns its name. A simulated cluster has no
    /// leader.
    fn lead_elsewhere(&mut self) -> anyhow::Result<Option<String>> {
        Ok(None)
    }

    /// The pod in which etcd runs, if its other containers may be asked to end once etcd has: by hand, and never at a boot.
    fn etcd_pod(&self, runtime: &Runtime) -> anyhow::Result<Option<EtcdPod>>;

    /// Waits this long. It fails if the run is interrupted.
    fn pause(&mut self, span: Span) -> anyhow::Result<()>;

    /// Tells a person.
    fn note(&mut self, text: &str);

    /// Does something durable. It is durable when this returns. Says what has changed where only the machine knows it; else the
    /// text is empty.
    fn perform(&mut self, effect: &Effect) -> anyhow::Result<String>;
}

/// The result of a provisional proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmed {
    /// It is the proof now: what it is of.
    Holds(Fingerprint),
    /// Somebody has written to the source: what has changed.
    Changed(String),
    /// There was none.
    Nothing,
}

/// Where a mounted filesystem with a stamp is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The LUN, mounted for this run only.
    Staging,
    /// The LUN, mounted for etcd, and held by [`Machine::hold`].
    Held,
    /// Returns the mount on the data directory of the config.
    Mounted,
    /// The device beneath that mount, past the filesystem in memory.
    Device,
}

/// The source of a copy, wherever it lies now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This directory of the local disk, beneath whatever is mounted there.
    Dir(AbsPath),
    /// Returns the mount on this directory.
    Mounted(AbsPath),
    /// The LUN, mounted for this run only.
    Staging,
}

/// The state that a wait after an unmount expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// It is unmounted in every mount namespace, and nobody has the device open.
    Device,
    /// No mount namespace has the filesystem mounted.
    Filesystem,
}

/// Where the content of the data directory is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// To the retired data, as the one of this generation.
    Retired {
        /// The generation.
        generation: u64,
    },
    /// To the barred data, until a person has decided.
    Barred,
}

impl Aside {
    /// Where it lies then.
    pub fn shelf(self) -> Shelf {
        match self {
            Self::Retired { generation } => Shelf::Retired(generation),
            Self::Barred => Shelf::Barred,
        }
    }

    /// Its whole path.
    pub fn path(self) -> String {
        self.shelf().path()
    }

    /// The attribute that says that it is ours, and the attribute's value.
    pub fn mark(self) -> (&'static CStr, String) {
        match self {
            Self::Retired { generation } => (RETIRED_MARK, generation.to_string()),
            Self::Barred => (BARRED_MARK, "barred".into()),
        }
    }
}

/// An effect of a step on the machine. It outlives the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Replaces the record.
    WriteRecord {
        /// The new one.
        record: Record,
    },
    /// Replaces the stamp of a filesystem, and syncs it. That of the staged LUN is read back from the device: it fails if the
    /// device has not kept it.
    SetStamp {
        /// Of which one.
        on: Place,
        /// The new one.
        stamp: Stamp,
    },
    /// Removes the stamp of the staged LUN, and syncs it.
    RemoveStamp,
    /// Stops etcd, and waits until nobody uses its data: of a static pod until all containers have ended, or etcd itself.
    StopEtcd {
        /// The runtime of etcd.
        runtime: Runtime,
        /// True if all containers of its pod are waited for.
        whole_pod: bool,
    },
    /// Asks the other containers of this pod of etcd's to end, if no etcd runs. Their files may still be open when this returns.
    EndOthers {
        /// The pod, as it was found while etcd ran.
        pod: EtcdPod,
    },
    /// Waits until all containers of etcd's pod have ended. Its manifest lies aside.
    AwaitPodEnd {
        /// The manifest's place.
        manifest: AbsPath,
    },
    /// Copies with rsync while etcd writes.
    PreCopy {
        /// From where, and to where.
        copy: Copy,
    },
    /// Brings the copy up to date in rounds while etcd writes, and reads the whole copy from its device.
    CatchUp {
        /// From where, to where, and how long the last round may take.
        catch_up: CatchUp,
    },
    /// Brings the copy up to date, and reads back from its device what was written. A proof of before is void.
    Copy {
        /// From where, and to where. A provisional one does not fail if somebody writes to the source.
        copy: Copy,
    },
    /// Compares both trees. If they are the same, that is the proof of this run.
    Prove {
        /// The source.
        from: AbsPath,
        /// The copy.
        way: Way,
        /// True if names and metadata of the copy are read from its device.
        afresh: bool,
    },
    /// Proves the copy for [`Machine::confirm`]: the proof is provisional, and there is none if somebody writes to the
    /// source.
    ProveProvisionally {
        /// The source.
        from: AbsPath,
        /// The copy.
        way: Way,
    },
    /// The proof is void.
    ForgetProof,
    /// Clears what an interrupted mkfs has left, after all checks of the LUN's identity.
    ClearUnfinished {
        /// The LUN.
        wwid: Wwid,
        /// The filesystem that it would have become.
        uuid: FsUuid,
    },
    /// Makes the filesystem, after all checks of the LUN's identity, and if the LUN is provably blank.
    Format {
        /// Where, and which one.
        format: Format,
    },
    /// Mounts the LUN for this run, after all checks of its identity, and labels its root directory.
    Stage {
        /// The LUN.
        wwid: Wwid,
        /// The filesystem on it.
        uuid: FsUuid,
    },
    /// Stages the LUN of the record. What this run knows of a copy stays.
    StageAgain,
    /// Unmounts the staged LUN.
    Unstage,
    /// Writes it while PID 1 has the LUN mounted for etcd.
    LeaveStaging,
    /// Asks PID 1 to mount the staged LUN for etcd, and checks that it has mounted this device, as asked. After an error nothing is
    /// mounted there, or the error says that something is.
    Expose {
        /// The source and the place of the mount.
        mount: MountData,
    },
    /// Asks PID 1 to unmount what [`Effect::Expose`] has mounted.
    TakeBack {
        /// The source and the place of the former mount.
        mount: MountData,
    },
    /// Asks PID 1 to unmount the data directory.
    Unmount {
        /// The mount unit.
        unit: String,
        /// The data directory.
        data_dir: AbsPath,
        /// The expected state.
        until: Free,
    },
    /// Exchanges the data directory for one that holds only the file `member`, beneath whatever is mounted there.
    PutAside {
        /// The data directory.
        data: AbsPath,
        /// Where its content goes.
        aside: Aside,
    },
    /// Reverses [`Effect::PutAside`].
    PutBack {
        /// The data directory.
        data: AbsPath,
        /// Where its content lies.
        aside: Aside,
    },
    /// Marks what was put aside as ours: it stays there.
    MarkAside {
        /// The data directory.
        data: AbsPath,
        /// Where its content lies.
        aside: Aside,
    },
    /// Makes the directory beneath the mount point, if it is absent, and the file `member` in it, if it is empty. Anything else
    /// in it is an error.
    Bar {
        /// The data directory.
        data_dir: AbsPath,
    },
    /// Makes the directory beneath the mount point immutable, which holds only the file `member`.
    MakeImmutable {
        /// The data directory.
        data_dir: AbsPath,
    },
    /// Exchanges a rollback's copy for the fence, and removes that.
    Return {
        /// The data directory.
        data_dir: AbsPath,
        /// The generation of the copy.
        generation: u64,
    },
    /// Starts etcd, or queues its start.
    StartEtcd {
        /// The runtime of etcd.
        runtime: Runtime,
        /// The data directory.
        data_dir: AbsPath,
        /// True if this waits until etcd runs.
        wait: bool,
    },
    /// Makes barred data, if there is any, the retired data of this generation.
    RetireBarred {
        /// The generation.
        generation: u64,
    },
    /// Says on barred data which generation it becomes: a person returns to it.
    ChooseBarred {
        /// The generation.
        generation: u64,
    },
    /// Moves barred data to where a rollback of this generation stages its copy.
    Unbar {
        /// The generation.
        generation: u64,
    },
}

/// The record; an error if there is none.
pub fn record(machine: &dyn Machine) -> anyhow::Result<Record> {
    machine.record()?.context("the record is gone")
}

/// The stamp; an error if there is none.
pub fn stamp(machine: &dyn Machine, on: Place) -> anyhow::Result<Stamp> {
    machine.stamp(on)?.context("the mounted filesystem has no stamp")
}

//! What the steps of the protocol see of the machine, and what they do to it.
//!
//! A step looks, judges, and performs effects. [`Machine`] is all that it has for that. Behind it is the node
//! ([`performer`](super::performer)), or the simulated machine of `tests/model`, which plays the same functions of [`steps`]
//! through every event at every place.
//!
//! [`steps`]: super::steps

use crate::{
    node::{
        Etcd,
        authority::{Record, Stamp},
    },
    terms::{AbsPath, Fingerprint},
};
use anyhow::Context as _;

/// A machine on which steps are carried out. Each look comes from the thing itself and never from a plan.
///
/// Every look and every effect fails if it cannot be done, with the reason; a step then ends.
pub trait Machine {
    /// This node's machine id.
    fn machine_id(&self) -> &str;

    /// The record; none if there is none.
    fn record(&self) -> anyhow::Result<Option<Record>>;

    /// The stamp of a mounted filesystem; none if it has none.
    fn stamp(&self, on: Place) -> anyhow::Result<Option<Stamp>>;

    /// Whether etcd runs, by what runs it and by the lock on its database.
    fn etcd(&self) -> anyhow::Result<Etcd>;

    /// The processes that use the directory, as a person knows them.
    fn users(&self, of: &AbsPath) -> anyhow::Result<Vec<String>>;

    /// What is mounted on the data directory, by its source; none if nothing is.
    fn mounted_on(&self, data_dir: &AbsPath) -> anyhow::Result<Option<String>>;

    /// Whether the directory beneath the mount point is immutable.
    fn is_fenced(&self, data_dir: &AbsPath) -> anyhow::Result<bool>;

    /// The record says that the LUN's copy is authoritative, and this very LUN is mounted on the data directory. The mount stays
    /// for as long as this machine is held: [`Place::Held`] leads to it.
    fn hold_lun(&mut self, data_dir: &AbsPath) -> anyhow::Result<()>;

    /// The fingerprint that this run has proven for both copies.
    fn proof(&self) -> Option<Fingerprint>;

    /// Compares both copies with what this run has proven, and returns the proven fingerprint. The caller first looks for
    /// processes that use the source, so that this finds what they wrote before they ended.
    fn still_holds(&self, source: &Source) -> anyhow::Result<Fingerprint>;

    /// Does something durable. It is durable when this returns.
    fn perform(&mut self, effect: &Effect) -> anyhow::Result<()>;
}

/// Where a mounted filesystem with a stamp is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The LUN, mounted for this run only.
    Staging,
    /// The LUN, mounted for etcd, and held by [`Machine::hold_lun`].
    Held,
}

/// The source of a proven copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This directory of the local disk.
    Dir(AbsPath),
    /// The LUN, mounted for this run only.
    Staging,
}

/// What a step does to the machine, and what outlives the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Replaces the record.
    WriteRecord {
        /// The new one.
        record: Record,
    },
    /// Replaces the stamp of a filesystem, and syncs it.
    SetStamp {
        /// Of which one.
        on: Place,
        /// The new one.
        stamp: Stamp,
    },
    /// Removes the stamp of the staged LUN, and syncs it.
    RemoveStamp,
    /// Mounts the LUN of the record for this run, after all checks of its identity.
    Stage,
    /// Unmounts the staged LUN.
    Unstage,
    /// Makes barred data, if there is any, the retired data of this generation.
    RetireBarred {
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

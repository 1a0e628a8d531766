//! Refusals of a rollback, and of what follows one.

use schemars::JsonSchema;
use serde::Serialize;
use terms::{Bytes, Wwid};

/// Why data is not moved back to the local disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum RollbackRefusal {
    /// No data of this node is on a LUN.
    #[error(
        "{found}: etcd's data is not on a LUN, so there is nothing to roll back or to claim; run `etcd-lun plan` for what `apply` would do"
    )]
    NothingToReturn {
        /// The record's statement, or that there is none.
        found: &'static str,
    },
    /// The authoritative copy cannot be reached.
    #[error(
        "the record says that generation {generation} on LUN {wwid} is authoritative, and {found}: its data cannot be moved back without it. {cure}, run `etcd-lun apply`, then `etcd-lun rollback`; if the LUN is lost for good, replace this etcd member"
    )]
    OutOfReach {
        /// The recorded generation.
        generation: u64,
        /// The LUN.
        wwid: Wwid,
        /// The missing fact or thing.
        found: String,
        /// The first thing to do.
        #[serde(skip)]
        cure: &'static str,
    },
    /// The LUN's data does not fit on the local disk.
    #[error(
        "the local disk has {found} free at {state}, and etcd's data and its next files need {wanted}: make room there (retired data is in {retired}: see `etcd-lun retired list`)"
    )]
    NoLocalRoom {
        /// The free space.
        #[serde(rename = "found_bytes")]
        found: Bytes,
        /// The size that is needed.
        #[serde(rename = "wanted_bytes")]
        wanted: Bytes,
        /// Our state directory.
        state: &'static str,
        /// Retired data.
        retired: &'static str,
    },
    /// The staging directory of a rollback holds something else.
    #[error("{at} holds something that no rollback has put there: look at it, then move it away")]
    ShelfTaken {
        /// The directory.
        at: String,
    },
    /// A rollback was cut short.
    #[error(
        "a rollback to the local disk, generation {generation}, is not finished: run `etcd-lun rollback` again, then `etcd-lun apply` to move the data to the LUN again"
    )]
    RollbackUnfinished {
        /// Its generation.
        generation: u64,
    },
    /// Something is mounted over the local data after a rollback.
    #[error(
        "the record says that generation {generation}, rolled back to the local disk, is authoritative, and {source_device} is mounted over it at {at}: stop etcd if it runs there, run `systemctl stop {unit}`, then run this command again"
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
    /// A rollback is committed, and its data is missing.
    #[error(
        "the record says that generation {generation}, rolled back to the local disk, is authoritative, but {found}: find out who changed {at} or {shelf}, and restore the data from there, or replace this etcd member"
    )]
    ReturnedDataGone {
        /// The recorded generation.
        generation: u64,
        /// The finding.
        found: &'static str,
        /// The data directory.
        at: String,
        /// Where the copy was staged.
        shelf: String,
    },
    /// A rollback was committed by an older version, and its copy cannot be compared with what was proven.
    #[error(
        "{shelf} cannot be compared with what was proven: the record says that generation {generation}, rolled back to the local disk, is authoritative, and its fingerprint is of an older version of etcd-lun, made with another hash. Run `etcd-lun rollback` of the version that was installed before, or replace this etcd member"
    )]
    OlderFingerprintOfReturned {
        /// The recorded generation.
        generation: u64,
        /// Where the copy was staged.
        shelf: String,
    },
}

//! Refusals because of the LUN's persistent reservation (`lun.reserve`).

use schemars::JsonSchema;
use serde::Serialize;
use terms::Wwid;

/// Why the LUN is not reserved for this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum ReservationRefusal {
    /// It is another computer's, or this node's was ended.
    #[error(
        "LUN {wwid} is not reserved for this node{found}: another computer has its reservation, or has ended this node's. See whose it is with `sg_persist --in --read-reservation /dev/{disk}` (the key is the first 16 digits of a machine id), and if that computer does not use the LUN, end it at the array, or with `etcd-lun claim` if the LUN holds this node's data"
    )]
    Reserved {
        /// The LUN.
        wwid: Wwid,
        /// Kernel name.
        disk: String,
        /// The keys that are registered, if they could be read.
        found: String,
    },
    /// There are no reservations of this LUN.
    #[error(
        "LUN {wwid} cannot be reserved: {found}. Turn on persistent reservations at the array, or set `lun.reserve = false`"
    )]
    NotReservable {
        /// The LUN.
        wwid: Wwid,
        /// Why not.
        found: String,
    },
}

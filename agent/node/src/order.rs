//! How the LUN's stamp compares with the node's record.
//!
//! This is the only place that compares the two. Everything that decides by them uses [`order`].

use super::authority::{Authority, Record, Stamp};
use terms::FsUuid;

/// The relation of a stamp to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The record names another filesystem, or there is no record that could name one.
    OtherFilesystem,
    /// The stamp names another machine id.
    OtherOwner,
    /// Both are of one moment.
    Same {
        /// True if the LUN was never mounted for use since its data was copied.
        unused: bool,
    },
    /// The LUN went back in time, or this node has left this generation behind.
    Older,
    /// This node's disk went back in time, or another computer with its identity uses the LUN.
    Newer,
    /// The LUN is as a rollback of this node has left it.
    Released,
}

impl Order {
    /// True if this holds although the stamp was read without replaying the log. What was found there was really there: a log can
    /// only hold a later stamp.
    pub fn holds_before_replay(self) -> bool {
        match self {
            Self::OtherOwner | Self::Newer => true,
            Self::Same { .. } | Self::Older | Self::Released | Self::OtherFilesystem => false,
        }
    }
}

/// Compares the stamp of the filesystem `uuid` with the record of the node with this machine id. Without `uuid` the caller knows
/// by other means that it is the filesystem which the record names: it is mounted from the recorded LUN.
///
/// A stamp that is ahead of the record is never accepted because it is ahead.
pub fn order(record: Option<&Record>, uuid: Option<FsUuid>, stamp: &Stamp, machine_id: &str) -> Order {
    let is_ours = stamp.machine_id == machine_id;
    // An etcd of this node has run on the LUN, and nobody has moved its data back.
    let in_use = is_ours && !stamp.is_unused() && !stamp.released;
    match record {
        None if in_use => Order::Newer,
        None => Order::OtherFilesystem,
        Some(record) if uuid.is_some_and(|uuid| uuid != record.uuid) => {
            // The LUN was cleared and used again after this record was written. A LUN of before has a lower generation.
            let later = record.authority == Authority::Local && stamp.generation > record.generation;
            if in_use && later { Order::Newer } else { Order::OtherFilesystem }
        }
        Some(_) if !is_ours => Order::OtherOwner,
        Some(record) if stamp.generation > record.generation => Order::Newer,
        Some(record) => match (record.authority, stamp.generation == record.generation) {
            (Authority::Lun, true) => of_one_generation(record, stamp),
            (Authority::Lun, false) => Order::Older,
            // The record of the attempt announced this very stamp, and the LUN never served.
            (Authority::Local, true) if is_announced(record, stamp) && stamp.is_unused() => {
                Order::Same { unused: true }
            }
            (Authority::Local, true) => Order::Newer,
            (Authority::Local, false) if stamp.released || was_left(record, stamp) => Order::Released,
            (Authority::Local, false) => Order::Older,
        },
    }
}

/// The record says that the LUN is authoritative, and names the stamp's generation.
fn of_one_generation(record: &Record, stamp: &Stamp) -> Order {
    let same = Order::Same { unused: stamp.is_unused() };
    // Only a rollback that is committed releases the LUN, and its commit is not in this record.
    if stamp.released {
        return Order::Newer;
    }
    if (stamp.activations, stamp.nonce) == (record.activations, record.nonce) || is_announced(record, stamp) {
        return same;
    }
    match (stamp.nonce, record.nonce) {
        // Formats without a nonce were written stamp first. So a run of an older release that was cut short has left the stamp
        // one use ahead, and the node must go on by itself. More than one is not what a single cut leaves.
        (None, None) if stamp.activations == record.activations.saturating_add(1) => same,
        // A program that knows nonces used the LUN, and this node's disk went back to before its first use of them.
        (Some(_), None) => Order::Newer,
        (None, _) | (Some(_), Some(_)) if stamp.activations > record.activations => Order::Newer,
        (None, _) | (Some(_), Some(_)) => Order::Older,
    }
}

/// The stamp is the one that the record announced: a run was cut short before the record took it over.
fn is_announced(record: &Record, stamp: &Stamp) -> bool {
    record
        .announced
        .is_some_and(|next| (next.activations, Some(next.nonce)) == (stamp.activations, stamp.nonce))
}

/// The stamp is what a rollback of this node has left, though it could not release the LUN. A record of an older format does not
/// have the last use. Such a node goes on by itself, because the generation proves that the rollback came later.
fn was_left(record: &Record, stamp: &Stamp) -> bool {
    let is_last_use = (stamp.activations, stamp.nonce) == (record.activations, record.nonce);
    record.rolled_back && (is_last_use || record.is_of_older_format() && stamp.nonce.is_none())
}

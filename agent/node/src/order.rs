//! How the LUN's stamp compares with the node's record.
//!
//! This is the only place that compares the two. Everything that decides by them uses [`order`].

use super::{
    Content, DataMount, Fact, Identity,
    authority::{Authority, Record, Stamp},
};
use std::time::Duration;
use terms::{FsUuid, Span};

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

/// Compares the stamp of the filesystem `uuid` with the record of this node. Without `uuid` the caller knows
/// by other means that it is the filesystem which the record names: it is mounted from the recorded LUN.
///
/// A stamp that is ahead of the record is never accepted because it is ahead.
pub fn order(record: Option<&Record>, uuid: Option<FsUuid>, stamp: &Stamp, node: &Identity) -> Order {
    let is_ours = stamp.machine_id == node.machine_id;
    // An etcd of this node has run on the LUN. That a rollback has moved its data back is known only to a disk of a later moment.
    // Another name is another machine with this id. It matters only where no record proves that this node made the filesystem.
    let has_served = is_ours && node.may_be(&stamp.node) && !stamp.is_unused();
    match record {
        None if has_served => Order::Newer,
        None => Order::OtherFilesystem,
        Some(record) if uuid.is_some_and(|uuid| uuid != record.uuid) => {
            // The LUN was cleared and used again after this record was written. A LUN of before has a lower generation, unless the
            // record was removed meanwhile: then generations began at 1 again, and which of both is the later one is not known.
            let later = record.authority == Authority::Local && stamp.generation >= record.generation;
            if has_served && later { Order::Newer } else { Order::OtherFilesystem }
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

/// What the device has in the place of the stamp, while the filesystem with that stamp is mounted from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InPlace {
    /// The stamp.
    Current,
    /// The use before it, which XFS has not replaced yet.
    Behind,
    /// Another filesystem, or none: another volume lies there. In words that follow "the LUN".
    OtherVolume(String),
    /// Anything else, in such words.
    Foreign(String),
}

/// After this time a device has in its place what XFS has in its log: XFS writes that back every 30 s
/// (`fs.xfs.xfssyncd_centisecs`, kernel `Documentation/admin-guide/xfs.rst`), and 9 to 21 s were measured. This is twice the 30 s,
/// because the device may be slow.
pub const WRITTEN_BACK: Duration = Duration::from_secs(60);

/// Compares what the device has in its place with the stamp that was read later, through the mount. A mount answers from memory, so
/// only the device shows what another computer has written there, or that another volume lies beneath.
///
/// `mark` counts a use only where the one before is in its place. So what is there is this node's own use before, whose number may be
/// lower by more than one: a number that was announced and never stamped is not used again. After [`WRITTEN_BACK`] it is none of them.
pub fn in_place(record: &Record, mount: &DataMount, stamp: &Stamp, content: &Fact<Content>) -> Fact<InPlace> {
    let foreign = |found: String| Fact::Known(InPlace::Foreign(found));
    let found = match content {
        Fact::Unknown(why) => return Fact::Unknown(why.clone()),
        Fact::Known(Content::Xfs { uuid, stamp, .. }) if *uuid == record.uuid => match stamp {
            Fact::Unknown(why) => return Fact::Unknown(why.clone()),
            Fact::Known(None) => return foreign("has no stamp any more".into()),
            Fact::Known(Some(found)) => found,
        },
        Fact::Known(Content::Xfs { uuid, .. }) => {
            return Fact::Known(InPlace::OtherVolume(format!("holds another XFS, UUID {uuid}")));
        }
        Fact::Known(_) => return Fact::Known(InPlace::OtherVolume("holds no XFS any more".into())),
    };
    let is_before = found.activations < stamp.activations
        && found.last_use().is_some_and(|earlier| stamp.clone().used(earlier) == *found);
    if found == stamp {
        Fact::Known(InPlace::Current)
    } else if is_before && mount.root_age.is_none_or(|Span(age)| age <= WRITTEN_BACK) {
        Fact::Known(InPlace::Behind)
    } else {
        foreign(format!(
            "has the stamp of {}, generation {}, use {}, where this node has written generation {}, use {}",
            found.node, found.generation, found.activations, stamp.generation, stamp.activations
        ))
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

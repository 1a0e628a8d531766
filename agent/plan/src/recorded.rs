//! Whether a LUN holds what the record says.

use super::{
    input::{PlanInput, require},
    refusal::{AuthorityRefusal, Refusal},
};
use node::{
    Content, Fact, Lun, Order,
    authority::{Authority, LunUse, Record, Stamp},
    order,
};
use terms::{FsUuid, Wwid};

const RESTORE_OR_REPLACE: &str = "See at the target what happened to the LUN; if its data is lost, replace this etcd member (guide.md, \"Replacing a node\")";
const CLAIM: &str = "If this is the same node with a new machine id, and no machine has the old one any more, run `etcd-lun claim`";
const REPLACE_AFTER_SNAPSHOT: &str =
    "A restored snapshot is an out-of-date member: replace this etcd member (guide.md, \"Replacing a node\")";

/// How a stamp compares with the record. `uuid` is that of the filesystem which has the stamp, where it was read.
pub(super) fn order_of(input: &PlanInput<'_>, uuid: Option<FsUuid>, stamp: &Stamp) -> Order {
    order(input.record, uuid, stamp, &input.node.identity)
}

/// Returns the stamp, and true if the filesystem's log is replayed. Refuses unless it is the filesystem that the record
/// names.
pub(super) fn check_filesystem<'a>(
    record: &Record,
    seen: &'a Lun,
) -> Result<(bool, &'a Fact<Option<Stamp>>), Refusal> {
    let found = match require("what the LUN holds", &seen.content)? {
        Content::Xfs { uuid, settled, stamp, .. } if *uuid == record.uuid => return Ok((*settled, stamp)),
        Content::Xfs { uuid, .. } => format!("it holds another XFS, UUID {uuid}"),
        Content::Blank => "it is blank".into(),
        Content::Unfinished { .. } => "it holds an unfinished filesystem".into(),
        Content::Foreign { found } => format!("it holds {found}"),
    };
    Err(refused(record, found))
}

/// The stamp. Refuses a LUN without one.
pub(super) fn known_stamp<'a>(record: &Record, stamp: &'a Fact<Option<Stamp>>) -> Result<&'a Stamp, Refusal> {
    let stamp = require("the LUN's stamp", stamp)?.as_ref();
    stamp.ok_or_else(|| refused(record, "it has no stamp".into()))
}

/// The refusal of a LUN that does not hold what the record says.
fn refused(record: &Record, found: String) -> Refusal {
    not_authoritative(record, found, RESTORE_OR_REPLACE)
}

fn not_authoritative(record: &Record, found: String, cure: &'static str) -> Refusal {
    Refusal::NotTheTruth { generation: record.generation, wwid: record.wwid.clone(), found, cure }
}

/// Refuses a stamp that was read without replaying the log, if no log could make it acceptable.
pub(super) fn check_unsettled(
    input: &PlanInput<'_>,
    record: &Record,
    stamp: &Fact<Option<Stamp>>,
) -> Result<(), Refusal> {
    let Some(Some(stamp)) = stamp.known() else { return Ok(()) };
    match order_of(input, None, stamp).holds_before_replay() {
        true => Err(not_same(input, record, stamp)),
        false => Ok(()),
    }
}

/// The stamp, and whether the LUN was never used. Refuses unless stamp and record are of one moment.
pub(super) fn check_stamp<'a>(
    input: &PlanInput<'_>,
    record: &Record,
    stamp: &'a Fact<Option<Stamp>>,
) -> Result<(&'a Stamp, bool), Refusal> {
    let stamp = known_stamp(record, stamp)?;
    match order_of(input, None, stamp) {
        Order::Same { unused } => Ok((stamp, unused)),
        Order::OtherOwner | Order::Newer | Order::Older | Order::Released | Order::OtherFilesystem => {
            Err(not_same(input, record, stamp))
        }
    }
}

/// The refusal of a stamp that is not of the record's moment, while the record says LUN.
pub(super) fn not_same(input: &PlanInput<'_>, record: &Record, stamp: &Stamp) -> Refusal {
    match order_of(input, None, stamp) {
        Order::OtherOwner => {
            let found = format!(
                "it is stamped for {} (machine id {}), and this node's machine id is {}",
                stamp.node, stamp.machine_id, input.node.identity.machine_id
            );
            let cure = if with_new_id(input, None, stamp).is_some() { CLAIM } else { RESTORE_OR_REPLACE };
            not_authoritative(record, found, cure)
        }
        Order::Newer => {
            let is_kept_out = matches!(input.node.mount, Fact::Known(None)) && input.local.is_fenced();
            lun_newer(input, &record.wwid, stamp, if is_kept_out { FENCED } else { NOT_FENCED })
        }
        Order::Same { .. } | Order::Older | Order::Released | Order::OtherFilesystem => older(record, stamp),
    }
}

fn older(record: &Record, stamp: &Stamp) -> Refusal {
    if stamp.generation != record.generation {
        return refused(record, format!("its stamp is of generation {}", stamp.generation));
    }
    let found = if stamp.activations == record.activations {
        format!("use {} in its stamp is not the one that the record has", stamp.activations)
    } else {
        format!(
            "it has gone back in time: the use counter is {} in its stamp and {} in the record",
            stamp.activations, record.activations
        )
    };
    not_authoritative(record, found, REPLACE_AFTER_SNAPSHOT)
}

/// The stamp with this node's machine id, if it differs in nothing else that would keep the node from the LUN: the record names
/// this LUN, and the stamp this node's name.
pub(super) fn with_new_id(input: &PlanInput<'_>, uuid: Option<FsUuid>, stamp: &Stamp) -> Option<Stamp> {
    let identity = &input.node.identity;
    let ours = stamp.clone().owned_by(identity.machine_id.clone());
    let is_named = stamp.machine_id != identity.machine_id && stamp.node == identity.hostname;
    match order_of(input, uuid, &ours) {
        Order::Same { .. } | Order::Newer if is_named && input.record.is_some() => Some(ours),
        Order::Same { .. } | Order::Newer => None,
        Order::OtherFilesystem | Order::OtherOwner | Order::Older | Order::Released => None,
    }
}

/// The next use of the LUN. It is above all counters that were ever written: a run that was cut short may have left the higher
/// one on the LUN, or announced it, and so may a snapshot of the LUN.
pub(super) fn next_use(
    input: &PlanInput<'_>,
    record: Option<&Record>,
    stamp: &Stamp,
) -> Result<LunUse, Refusal> {
    let nonce = *require("a random number from the kernel", &input.node.fresh_nonce)?;
    let announced = record.and_then(|record| record.announced).map_or(0, |next| next.activations);
    let last = record.map_or(0, |record| record.activations).max(announced).max(stamp.activations);
    Ok(LunUse { activations: last.saturating_add(1), nonce })
}

/// Why etcd cannot start on out-of-date data of a migrated node.
const FENCED: &str = "etcd stays down, because the fence keeps it from the local disk";

const NOT_FENCED: &str = "Nothing keeps etcd from starting: keep it stopped";

/// The refusal of a LUN that is newer than the record. `local` says why etcd cannot start, or what the person has to do first.
pub(super) fn lun_newer(input: &PlanInput<'_>, wwid: &Wwid, stamp: &Stamp, local: &str) -> Refusal {
    AuthorityRefusal::LunNewer {
        wwid: wwid.clone(),
        found: found(input.record, stamp),
        local: local.to_owned(),
    }
    .into()
}

fn found(record: Option<&Record>, stamp: &Stamp) -> String {
    let Stamp { generation, activations, .. } = stamp;
    match record {
        None => format!("it holds data of this node, generation {generation}, and there is no record of it"),
        Some(record) if record.generation != *generation => {
            format!("its stamp is of generation {generation}, the record of generation {}", record.generation)
        }
        Some(_) if stamp.released => {
            "a rollback has moved its data to the local disk since the record was written".into()
        }
        Some(record) if record.authority == Authority::Local => {
            format!("it was used since the record of attempt {generation} was written")
        }
        Some(record) => format!(
            "the use counter is {activations} in its stamp and {} in the record, which has not announced this use",
            record.activations
        ),
    }
}

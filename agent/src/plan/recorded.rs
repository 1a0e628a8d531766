//! Whether a LUN holds what the record says.

use super::{
    input::{PlanInput, require},
    refusal::Refusal,
};
use crate::node::{
    Content, Fact, Lun,
    authority::{Record, Stamp},
};

const RESTORE_OR_REPLACE: &str = "See at the target what happened to the LUN; if its data is lost, replace this etcd member (remove it from the cluster, clear the LUN, remove the record)";
const CLAIM: &str = "If this is the same node with a new machine id, and no machine has the old one any more, run `etcd-lun claim`";
const REPLACE_AFTER_SNAPSHOT: &str = "A restored snapshot is an out-of-date member: replace this etcd member (remove it from the cluster, clear the LUN, remove the record)";

/// Whether the filesystem's log is replayed, and its stamp. Refuses unless it is the filesystem that the record names.
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

/// Refuses a stamp in which more than the machine id differs from the record or from this node.
pub(super) fn check_but_owner(input: &PlanInput<'_>, record: &Record, stamp: &Stamp) -> Result<(), Refusal> {
    check_generation(record, stamp)?;
    let here = &input.node.identity.hostname;
    let found = if stamp.activations != record.activations {
        format!(
            "the use counter is {} in its stamp and {} in the record: another machine has used the LUN, or a snapshot was restored",
            stamp.activations, record.activations
        )
    } else if stamp.node != *here {
        format!("it is stamped for {}, and this node is {here}", stamp.node)
    } else {
        return Ok(());
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

fn check_generation(record: &Record, stamp: &Stamp) -> Result<(), Refusal> {
    if stamp.generation == record.generation {
        return Ok(());
    }
    Err(refused(record, format!("its stamp is of generation {}", stamp.generation)))
}

/// Refuses a LUN that is stamped for another machine id.
pub(super) fn check_owner(input: &PlanInput<'_>, record: &Record, stamp: &Stamp) -> Result<(), Refusal> {
    if stamp.machine_id == input.node.identity.machine_id {
        return Ok(());
    }
    let found = format!(
        "it is stamped for {} (machine id {}), and this node's machine id is {}",
        stamp.node, stamp.machine_id, input.node.identity.machine_id
    );
    let only_the_id = check_but_owner(input, record, stamp).is_ok();
    Err(not_authoritative(record, found, if only_the_id { CLAIM } else { RESTORE_OR_REPLACE }))
}

/// The stamp. Refuses unless it has the record's generation and owner, and a use counter that is not behind the record's.
pub(super) fn check_stamp<'a>(
    input: &PlanInput<'_>,
    record: &Record,
    stamp: &'a Fact<Option<Stamp>>,
) -> Result<&'a Stamp, Refusal> {
    let stamp = known_stamp(record, stamp)?;
    check_owner(input, record, stamp)?;
    check_generation(record, stamp)?;
    if stamp.activations < record.activations {
        let found = format!(
            "it has gone back in time: the use counter is {} in its stamp and {} in the record",
            stamp.activations, record.activations
        );
        return Err(not_authoritative(record, found, REPLACE_AFTER_SNAPSHOT));
    }
    Ok(stamp)
}

//! From the local disk to the LUN: the record is absent or says that the truth is local.

use super::{
    Horizon, Occasion, Plan, Refusal, Sight, Step, Way, lun, mount_unit, reach, require,
    step::{Copy, Format, Retire},
};
use crate::{
    node::{
        Content, LocalDir, Lun, LunView,
        authority::{Authority, FIRST_ACTIVATION, Record, Stamp},
        layout::{RECORD, STATE},
    },
    terms::{Bytes, FsUuid, Wwid},
};

pub(super) fn plan(sight: &Sight<'_>) -> Result<Plan, Refusal> {
    let missing = &sight.node.missing_tools;
    if !missing.is_empty() {
        return Err(Refusal::ToolMissing { tools: missing.join(", ") });
    }
    local_can_be_left(sight)?;
    if sight.occasion == Occasion::Boot && sight.etcd.running {
        return Err(Refusal::EtcdServes { name: sight.etcd.name.clone() });
    }
    mount_unit(sight)?;
    if let Some(plan) = reach::plan(sight)? {
        return Ok(plan);
    }
    let seen = match sight.view()? {
        LunView::Seen(seen) => seen,
        // `reach` has planned for these.
        LunView::NoSession | LunView::NotAttached => return Ok(Plan::until(Vec::new(), Horizon::Lun)),
    };
    let wwid = lun::usable(sight, seen)?;
    lun::holds(sight, seen, wwid, local_size(sight.local))?;
    lun::label_is_unique(sight, seen)?;
    by_content(sight, seen, wwid)
}

/// Whether the local side can be retired and fenced when the time comes.
fn local_can_be_left(sight: &Sight<'_>) -> Result<(), Refusal> {
    let at = sight.data_dir();
    match sight.local {
        LocalDir::Absent => {}
        LocalDir::Present { immutable: None, .. } => return Err(Refusal::NoImmutableFlag { at }),
        LocalDir::Present { immutable: Some(true), .. } => {
            return Err(Refusal::FencedWithoutRecord { at, record: RECORD });
        }
        LocalDir::Present { with_state: false, .. } => {
            return Err(Refusal::OtherFilesystem { at, state: STATE });
        }
        LocalDir::Present { .. } => {}
    }
    sight.database_is_free()
}

/// Reuse what matches, create where there is provably nothing, refuse everything else.
fn by_content(sight: &Sight<'_>, lun: &Lun, wwid: &Wwid) -> Result<Plan, Refusal> {
    let announced = sight.record.map(|record| record.uuid);
    match require("what the LUN holds", &lun.content)? {
        Content::Blank => afresh(sight, wwid, Vec::new()),
        Content::Unfinished { uuid } if announced == Some(*uuid) => {
            let clear = Step::ClearUnfinished { wwid: wwid.clone(), uuid: *uuid };
            afresh(sight, wwid, vec![clear])
        }
        Content::Unfinished { uuid } => Err(foreign(wwid, format!("an unfinished XFS with UUID {uuid}"))),
        Content::Xfs { uuid, settled: false, stamp, .. } if announced == Some(*uuid) => {
            // To stage it is to write to it, and an owner that a look finds may have it mounted.
            if let Some(Some(stamp)) = stamp.known() {
                check_owner(sight, wwid, stamp)?;
            }
            Ok(Plan::until(vec![Step::Stage { wwid: wwid.clone(), uuid: *uuid }], Horizon::Stamp))
        }
        Content::Xfs { uuid, stamp, empty, .. } if announced == Some(*uuid) => {
            let stamp = require("the LUN's stamp", stamp)?.as_ref();
            again(sight, wwid, *uuid, stamp, *empty)
        }
        Content::Xfs { uuid, label, stamp, .. } => {
            // Not ours to touch either way; a stamp only makes a better message.
            if let Some(Some(stamp)) = stamp.known() {
                return Err(stamped(wwid, stamp));
            }
            let label = label.as_ref().map_or("without a label".into(), |label| format!("labelled {label}"));
            Err(foreign(wwid, format!("an XFS {label} with UUID {uuid}")))
        }
        Content::Foreign { found } => Err(foreign(wwid, found.clone())),
    }
}

fn stamped(wwid: &Wwid, stamp: &Stamp) -> Refusal {
    Refusal::StampedByOther {
        wwid: wwid.clone(),
        owner: format!("{} (machine id {})", stamp.node, stamp.machine_id),
        generation: stamp.generation,
    }
}

fn check_owner(sight: &Sight<'_>, wwid: &Wwid, stamp: &Stamp) -> Result<(), Refusal> {
    if stamp.machine_id == sight.node.identity.machine_id { Ok(()) } else { Err(stamped(wwid, stamp)) }
}

fn foreign(wwid: &Wwid, found: String) -> Refusal {
    Refusal::ForeignContent { wwid: wwid.clone(), found }
}

/// A new filesystem on a LUN that is blank, or will be after `first`.
fn afresh(sight: &Sight<'_>, wwid: &Wwid, first: Vec<Step>) -> Result<Plan, Refusal> {
    let record = begin(sight, sight.node.fresh_uuid, wwid);
    let mut steps = first;
    steps.push(Step::BeginRecord { record: record.clone() });
    steps.push(Step::Format(Format {
        wwid: wwid.clone(),
        uuid: record.uuid,
        label: sight.config.lun.label.clone(),
    }));
    steps.push(Step::Stage { wwid: wwid.clone(), uuid: record.uuid });
    copy_and_commit(sight, record, steps, true)
}

/// The filesystem of an earlier attempt of ours: its data is replaced, for etcd may have run
/// locally since.
fn again(
    sight: &Sight<'_>,
    wwid: &Wwid,
    uuid: FsUuid,
    stamp: Option<&Stamp>,
    empty: Option<bool>,
) -> Result<Plan, Refusal> {
    if let Some(stamp) = stamp {
        check_owner(sight, wwid, stamp)?;
        // A stamp says that the LUN once held everything. With nothing left here it may be all
        // there is.
        if sight.local.is_empty() && empty != Some(true) {
            let generation = stamp.generation;
            return Err(Refusal::LocalDataGone { at: sight.data_dir(), wwid: wwid.clone(), generation });
        }
    }
    let record = begin(sight, uuid, wwid);
    // The stamp goes first: a record of a new attempt beside the stamp of an old one is a state
    // that nobody should have to think about.
    let mut steps = if stamp.is_some() { vec![Step::Unstamp] } else { Vec::new() };
    steps.push(Step::BeginRecord { record: record.clone() });
    copy_and_commit(sight, record, steps, false)
}

fn begin(sight: &Sight<'_>, uuid: FsUuid, wwid: &Wwid) -> Record {
    let generation = sight.record.map_or(0, |record| record.generation).saturating_add(1);
    Record::begin(generation, uuid, wwid.clone(), sight.config.etcd.data_dir.clone())
}

/// The LUN is staged: copy, prove, stamp, commit, retire, fence, mount, start.
fn copy_and_commit(
    sight: &Sight<'_>,
    record: Record,
    mut steps: Vec<Step>,
    fresh: bool,
) -> Result<Plan, Refusal> {
    let from = sight.config.etcd.data_dir.clone();
    let size = local_size(sight.local);
    if let Some(limit) = sight.config.lun.require_fsync_p99 {
        steps.push(Step::Measure { wwid: record.wwid.clone(), limit });
    }
    let pre_copy = sight.etcd.running && !sight.local.is_empty();
    if pre_copy {
        steps.push(Step::PreCopy(Copy { from: from.clone(), way: Way::ToLun, size, onto_empty: fresh }));
    }
    let stop = sight.stop_etcd();
    let stopped = stop.is_some();
    steps.extend(stop);
    let identity = &sight.node.identity;
    let (machine_id, node) = (identity.machine_id.clone(), identity.hostname.clone());
    let onto_empty = fresh && !pre_copy;
    steps.push(Step::Copy(Copy { from: from.clone(), way: Way::ToLun, size, onto_empty }));
    steps.push(Step::Prove { from: from.clone(), way: Way::ToLun });
    steps.push(Step::Stamp { stamp: Stamp::new(record.generation, machine_id, node, FIRST_ACTIVATION) });
    steps.push(Step::Commit { record: record.clone() });
    if !sight.local.is_empty() {
        let generation = record.generation;
        steps.push(Step::Retire(Retire { from: from.clone(), generation, fingerprint: None }));
    }
    steps.push(Step::Fence { at: from });
    steps.push(sight.mount_data(&record));
    steps.extend(reach::timeouts(sight)?);
    if sight.etcd.waits_for_us() || stopped {
        steps.push(sight.start_etcd(Authority::Lun));
    }
    Ok(Plan::whole(steps))
}

fn local_size(local: &LocalDir) -> Option<Bytes> {
    match local {
        LocalDir::Present { size, .. } => *size,
        LocalDir::Absent => None,
    }
}

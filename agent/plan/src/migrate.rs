//! Moves the data from the local disk to the LUN: there is no record, or it says that the local disk is authoritative.

use super::{
    attach, barred,
    input::{Occasion, PlanInput, require},
    lun::{self, CLEAR},
    outcome::{Horizon, Plan},
    recorded::order_of,
    refusal::{AuthorityRefusal, ClusterRefusal, PlaceRefusal, Refusal},
    resume,
    step::{Copy, Format, NodeStep, ProtocolStep, Retire, Step, Way},
};
use node::{
    Content, LocalDir, Lun, LunView, Order,
    authority::{Authority, FIRST_USE, LunUse, NEVER_USED, Record, Stamp},
    layout::{RECORD, STATE},
};
use std::time::Duration;
use terms::{FsUuid, Nonce, Wwid};

pub(super) fn plan(input: &PlanInput<'_>) -> Result<Plan, Refusal> {
    if !input.config.node.migrate {
        return held(input);
    }
    let missing = &input.node.missing_tools;
    if !missing.is_empty() {
        return Err(Refusal::ToolMissing { tools: missing.join(", ") });
    }
    let claims = require("what else names the data directory", &input.node.claims)?;
    if !claims.is_empty() {
        return Err(PlaceRefusal::Claimed { at: input.data_dir(), found: claims.join(", ") }.into());
    }
    if let Some(found) = input.etcd.by_pacemaker {
        return Err(ClusterRefusal::ByPacemaker { found }.into());
    }
    check_local_side(input)?;
    if input.occasion == Occasion::Boot && input.etcd.running {
        return Err(ClusterRefusal::EtcdServes { name: input.etcd.name.clone() }.into());
    }
    if let Some(found) = require("which files etcd has open", &input.etcd.other_place)? {
        let name = input.etcd.name.clone();
        return Err(PlaceRefusal::OtherSource { name, at: input.data_dir(), found: found.clone() }.into());
    }
    check_used_last(input)?;
    lun::check_multipathd(input)?;
    // Asked before the first step, though etcd is stopped by a later one: a run that would end there is not begun.
    input.check_may_stop()?;
    if let Some(plan) = attach::plan(input)? {
        return Ok(plan);
    }
    let seen = match input.lun_view()? {
        LunView::Seen(seen) => seen,
        // `attach` has planned for these.
        LunView::NoSession | LunView::NotAttached => {
            return Ok(Plan::until(Vec::new(), Horizon::Lun));
        }
    };
    let wwid = lun::usable_wwid(input, seen)?;
    if let Some(plan) = barred::plan_if_newer(input, seen)? {
        return Ok(plan);
    }
    lun::check_capacity(input, seen, wwid, input.local.size())?;
    by_content(input, seen, wwid)
}

/// The entry has `migrate = false`. By hand that is a refusal. A boot moves nothing, and looks at the LUN as every boot does: if the
/// LUN is newer than what this node knows, the local data is barred. So the node's disk may go back to a time before its move,
/// when the entry had this key. Then an etcd starts that a run has stopped.
fn held(input: &PlanInput<'_>) -> Result<Plan, Refusal> {
    if input.occasion == Occasion::ByHand {
        check_unmarked(input)?;
        return Err(Refusal::MigrationOff { entry: input.config.node.chosen_by.clone() });
    }
    if let Some(plan) = barred::look(input)? {
        return Ok(plan);
    }
    if let LunView::Seen(seen) = input.lun_view()? {
        require("the LUN's WWID", &seen.wwid)?;
        if let Content::Xfs { stamp, .. } = require("what the LUN holds", &seen.content)? {
            require("the LUN's stamp", stamp)?;
        }
    }
    check_unmarked(input)?;
    let must_start = input.etcd.stopped_by_us && input.etcd.should_run();
    let start = must_start.then(|| input.start_etcd(Authority::Local));
    Ok(Plan::complete(start.into_iter().collect()))
}

/// Refuses a data directory that keeps etcd out, though no record says that its data is elsewhere.
fn check_unmarked(input: &PlanInput<'_>) -> Result<(), Refusal> {
    let at = input.data_dir();
    match input.local {
        // The only file of a barred one would be copied, and would keep etcd out on the LUN too.
        LocalDir::Present { immutable: Some(true), .. } | LocalDir::Present { barred: true, .. } => {
            Err(Refusal::FencedWithoutRecord { at, record: RECORD })
        }
        LocalDir::Present { .. } | LocalDir::Absent => Ok(()),
    }
}

/// A node is up again this soon after etcd's last write: the end of its other pods, the firmware of a large server, and a check of
/// disks take less. etcd writes every minute in a cluster that is used, and closes its database at its end.
const REBOOT: Duration = Duration::from_secs(60 * 60);

/// Refuses data that etcd may not have used last: it has used another disk, or another directory. What runs is looked at itself.
fn check_used_last(input: &PlanInput<'_>) -> Result<(), Refusal> {
    if input.etcd.running || input.local.is_empty() {
        return Ok(());
    }
    match require("when etcd's data was last written", &input.node.idle)? {
        Some(idle) if idle.0 > REBOOT => {
            Err(PlaceRefusal::Unused { at: input.data_dir(), idle: *idle }.into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses a data directory that could not be retired and fenced at the commit point.
fn check_local_side(input: &PlanInput<'_>) -> Result<(), Refusal> {
    check_unmarked(input)?;
    let at = input.data_dir();
    match input.local {
        LocalDir::Present { immutable: None, .. } => return Err(Refusal::NoImmutableFlag { at }),
        LocalDir::Present { with_state: false, .. } => {
            return Err(Refusal::OtherFilesystem { at, state: STATE });
        }
        LocalDir::Present { .. } | LocalDir::Absent => {}
    }
    input.check_database_free()
}

/// Reuse what matches, create where there is provably nothing, refuse everything else.
fn by_content(input: &PlanInput<'_>, lun: &Lun, wwid: &Wwid) -> Result<Plan, Refusal> {
    let announced = input.record.map(|record| record.uuid);
    match require("what the LUN holds", &lun.content)? {
        Content::Blank => onto_new_filesystem(input, wwid, Vec::new()),
        Content::Unfinished { uuid } if announced == Some(*uuid) => {
            let clear = Step::Protocol(ProtocolStep::ClearUnfinished { wwid: wwid.clone(), uuid: *uuid });
            onto_new_filesystem(input, wwid, vec![clear])
        }
        Content::Unfinished { uuid } => {
            Err(foreign_content(wwid, format!("an unfinished XFS with UUID {uuid}"), MOVING))
        }
        Content::Xfs { uuid, settled: false, stamp, .. } if announced == Some(*uuid) => {
            // Staging writes to the LUN. If the look without a mount shows another owner's stamp, that node may have it mounted. A
            // newer stamp was refused before.
            if let Some(Some(stamp)) = stamp.known() {
                check_owner(input, wwid, stamp)?;
            }
            Ok(Plan::stage(wwid, *uuid))
        }
        Content::Xfs { uuid, stamp, empty, .. } if announced == Some(*uuid) => {
            let stamp = require("the LUN's stamp", stamp)?.as_ref();
            onto_own_filesystem(input, wwid, *uuid, stamp, *empty)
        }
        Content::Xfs { uuid, label, stamp, .. } => {
            // It is not ours and stays untouched. A stamp only makes the message more precise.
            if let Some(Some(stamp)) = stamp.known() {
                return Err(stamped_by_other(input, wwid, stamp));
            }
            let cure = if label.as_ref() == Some(&input.config.lun.label) { MOVING } else { CLEAR };
            let label = label.as_ref().map_or("without a label".into(), |label| format!("labelled {label}"));
            Err(foreign_content(wwid, format!("an XFS {label} with UUID {uuid}"), cure))
        }
        Content::Foreign { found } => Err(foreign_content(wwid, found.clone(), CLEAR)),
    }
}

/// Another node formats its LUN before it stamps it.
const MOVING: &str =
    "Another node may be moving its data there right now: correct the masking at the target first";

/// The stamp has this node's name and another machine id. Its data may be the only copy of what this node's etcd acknowledged.
const REINSTALLED: &str = "Keep that data: this node was reinstalled, or two machines have one name. Correct the masking at the target, or replace this etcd member (guide.md, \"Replacing a node\")";

pub(super) fn stamped_by_other(input: &PlanInput<'_>, wwid: &Wwid, stamp: &Stamp) -> Refusal {
    let node = &input.node.identity;
    let cure = if stamp.machine_id == node.machine_id {
        format!(
            "Keep that data: this node was renamed, or two machines have one machine id. If this node was {0}, and no other is, run `etcd-lun claim --former-name {0}`; else correct the masking at the target",
            stamp.node
        )
    } else if node.may_be(&stamp.node) {
        REINSTALLED.into()
    } else {
        CLEAR.into()
    };
    let owner = format!("{} (machine id {})", stamp.node, stamp.machine_id);
    Refusal::StampedByOther { wwid: wwid.clone(), owner, generation: stamp.generation, cure }
}

fn check_owner(input: &PlanInput<'_>, wwid: &Wwid, stamp: &Stamp) -> Result<(), Refusal> {
    if stamp.machine_id == input.node.identity.machine_id {
        Ok(())
    } else {
        Err(stamped_by_other(input, wwid, stamp))
    }
}

fn foreign_content(wwid: &Wwid, found: String, cure: &'static str) -> Refusal {
    Refusal::ForeignContent { wwid: wwid.clone(), found, cure }
}

/// A new filesystem on a LUN that is blank, or is blank after the steps in `first`.
fn onto_new_filesystem(input: &PlanInput<'_>, wwid: &Wwid, first: Vec<Step>) -> Result<Plan, Refusal> {
    let uuid = require("a random number from the kernel", &input.node.fresh_uuid)?;
    let record = record_of_attempt(input, *uuid, wwid)?;
    let mut steps = first;
    steps.push(Step::Protocol(ProtocolStep::BeginRecord { record: record.clone() }));
    steps.push(Step::Protocol(ProtocolStep::Format(Format {
        wwid: wwid.clone(),
        uuid: record.uuid,
        label: input.config.lun.label.clone(),
    })));
    steps.push(Step::Protocol(ProtocolStep::Stage { wwid: wwid.clone(), uuid: record.uuid }));
    copy_and_commit(input, record, steps, true)
}

/// The filesystem of an earlier attempt of this node. Its data is replaced, because etcd may have run on the local disk since.
fn onto_own_filesystem(
    input: &PlanInput<'_>,
    wwid: &Wwid,
    uuid: FsUuid,
    stamp: Option<&Stamp>,
    empty: Option<bool>,
) -> Result<Plan, Refusal> {
    if let Some(stamp) = stamp {
        check_owner(input, wwid, stamp)?;
        match order_of(input, Some(uuid), stamp) {
            // The stamp of the last attempt, and a LUN that a rollback has left: this node holds all that they hold.
            Order::Same { unused: true } | Order::Released => {}
            Order::Same { .. } | Order::Older | Order::Newer | Order::OtherOwner | Order::OtherFilesystem => {
                return Err(
                    AuthorityRefusal::OlderUse { wwid: wwid.clone(), generation: stamp.generation }.into()
                );
            }
        }
        // A stamp says that the LUN once held all data. If the local disk holds none now, the LUN may hold the only copy.
        if input.local.is_empty() && empty != Some(true) {
            let generation = stamp.generation;
            return Err(Refusal::LocalDataGone { at: input.data_dir(), wwid: wwid.clone(), generation });
        }
    }
    let record = record_of_attempt(input, uuid, wwid)?;
    // The stamp is removed first, so that no state has the record of a new attempt beside the stamp of an old one.
    let mut steps = if stamp.is_some() { vec![Step::Protocol(ProtocolStep::Unstamp)] } else { Vec::new() };
    steps.push(Step::Protocol(ProtocolStep::BeginRecord { record: record.clone() }));
    copy_and_commit(input, record, steps, false)
}

fn record_of_attempt(input: &PlanInput<'_>, uuid: FsUuid, wwid: &Wwid) -> Result<Record, Refusal> {
    let generation = input.record.map_or(0, |record| record.generation).saturating_add(1);
    let data_dir = input.config.etcd.data_dir.clone();
    Ok(Record::begin(generation, uuid, wwid.clone(), data_dir, fresh_nonce(input)?))
}

fn fresh_nonce(input: &PlanInput<'_>) -> Result<Nonce, Refusal> {
    Ok(*require("a random number from the kernel", &input.node.fresh_nonce)?)
}

/// The LUN is staged: copy, prove, stamp, commit, retire, fence, mount, start.
fn copy_and_commit(
    input: &PlanInput<'_>,
    record: Record,
    mut steps: Vec<Step>,
    new_filesystem: bool,
) -> Result<Plan, Refusal> {
    let from = input.config.etcd.data_dir.clone();
    let size = input.local.size();
    if let Some(limit) = input.config.lun.require_fsync_p99 {
        steps.push(Step::Node(NodeStep::Measure { wwid: record.wwid.clone(), limit }));
    }
    let pre_copy = input.etcd.running && !input.local.is_empty();
    if pre_copy {
        steps.push(Step::Protocol(ProtocolStep::PreCopy(Copy {
            from: from.clone(),
            way: Way::ToLun,
            size,
            onto_empty: new_filesystem,
            provisional: true,
        })));
    }
    let stop = input.stop_etcd_to_move(Way::ToLun)?;
    let stopped = !stop.is_empty();
    steps.extend(stop);
    let identity = &input.node.identity;
    let (machine_id, node) = (identity.machine_id.clone(), identity.hostname.clone());
    let onto_empty = new_filesystem && !pre_copy;
    let copy = Copy { from: from.clone(), way: Way::ToLun, size, onto_empty, provisional: false };
    steps.extend(input.copy_and_prove(copy));
    // Each use is a number and a nonce, so both can have the nonce of this attempt.
    let nonce = fresh_nonce(input)?;
    let unused = LunUse { activations: NEVER_USED, nonce };
    let stamp = Stamp::new(record.generation, machine_id, node, unused);
    steps.push(Step::Protocol(ProtocolStep::Stamp { stamp: stamp.clone() }));
    steps.push(Step::Protocol(ProtocolStep::Commit { record: record.clone() }));
    if !input.local.is_empty() {
        let generation = record.generation;
        steps.push(Step::Protocol(ProtocolStep::Retire(Retire {
            from: from.clone(),
            generation,
            fingerprint: None,
        })));
    }
    steps.push(Step::Protocol(ProtocolStep::Fence { at: from }));
    let stamp = stamp.used(LunUse { activations: FIRST_USE, nonce });
    steps.push(Step::Protocol(ProtocolStep::Activate { stamp }));
    steps.push(input.mount_data(&record));
    steps.extend(resume::serve_from_lun(input, stopped)?);
    Ok(Plan::complete(steps))
}

//! Moves the data from the LUN back to the local disk, by hand only: the reverse of the migration.
//!
//! Copy → proof → unmount → **record says local (commit)** → the copy replaces the fence → start. The LUN is unmounted before
//! the commit point: whoever starts etcd between the two finds the fence, and neither copy. So the LUN's copy cannot take a
//! write after the commit point. From then on its stamp is of an older generation than the record. Once etcd runs, the stamp
//! also says that the LUN is released. It says so only after the commit point: a node whose record says LUN, and whose LUN is
//! released, has an old record, so its disk went back in time.

use super::{
    barred,
    input::{Occasion, PlanInput, require},
    lun::{self, SPARE_SPACE},
    migrate,
    outcome::{Horizon, Plan},
    outlook,
    recorded::order_of,
    refusal::{Refusal, RollbackRefusal},
    resume,
    step::{Copy, NodeStep, ProtocolStep, Step, Way},
};
use config::{Backing, Config};
use node::{
    Content, DataMount, LocalDir, LunView, Node, Order,
    authority::{Authority, Record, Stamp},
    layout::{RETIRED, RETURNING, STATE},
};
use terms::{Bytes, RecordedFingerprint};

/// Decides which steps bring etcd's data back to the local disk, to stay there.
pub fn rollback(config: &Config, node: &Node) -> Result<Plan, Refusal> {
    let input = PlanInput::new(config, node, Occasion::ByHand)?;
    match input.record {
        None => Err(RollbackRefusal::NothingToReturn { found: "there is no record" }.into()),
        Some(record) if record.authority == Authority::Lun => from_lun(&input, record),
        Some(record) if record.rolled_back => {
            let plan = finish(&input, record)?;
            if plan.is_empty() { release_and_log_out(&input, record) } else { Ok(plan) }
        }
        Some(_) => Err(RollbackRefusal::NothingToReturn {
            found: "the record says that the local disk is authoritative, and a migration was only begun",
        }
        .into()),
    }
}

/// Returns the plan of `apply` after a rollback.
///
/// At boot it finishes a rollback that was cut short, and moves nothing: the MachineConfig that started it may still be there,
/// but the person's decision to roll back is the newer one. First it looks at the LUN: the disk may be one of a moment before a
/// later migration. By hand it migrates.
pub(super) fn apply_after_rollback(input: &PlanInput<'_>, record: &Record) -> Result<Plan, Refusal> {
    let plan = finish(input, record)?;
    match input.occasion {
        Occasion::Boot if !input.etcd.running => Ok(barred::look(input)?.unwrap_or(plan)),
        Occasion::Boot => Ok(plan),
        Occasion::ByHand if plan.is_empty() => migrate::plan(input),
        Occasion::ByHand => Err(RollbackRefusal::RollbackUnfinished { generation: record.generation }.into()),
    }
}

/// After the commit point: the steps until etcd runs from the local disk.
pub(super) fn finish(input: &PlanInput<'_>, record: &Record) -> Result<Plan, Refusal> {
    let generation = record.generation;
    if let Some(mount) = require("what is mounted on the data directory", &input.node.mount)? {
        let (at, unit) = (input.data_dir(), input.mount_unit());
        return Err(RollbackRefusal::MountedOver {
            generation,
            at,
            source_device: mount.source.clone(),
            unit,
        }
        .into());
    }
    let gone = |found| {
        let (at, shelf) = (input.data_dir(), staging_dir(generation));
        Refusal::from(RollbackRefusal::ReturnedDataGone { generation, found, at, shelf })
    };
    let copy = require(STAGED_FACT, &input.node.rollback_staging)?.copy.as_ref();
    let barred = barred::barred_data(input)?;
    let mut steps = Vec::new();
    match copy {
        Some(_) if !input.local.is_empty() => return Err(gone("there is data in both places")),
        Some(copy) => {
            match record.fingerprint {
                Some(RecordedFingerprint::Older(_)) => {
                    return Err(RollbackRefusal::OlderFingerprintOfReturned {
                        generation,
                        shelf: staging_dir(generation),
                    }
                    .into());
                }
                Some(RecordedFingerprint::Ours(proven)) if copy.fingerprint == Some(proven) => {}
                Some(RecordedFingerprint::Ours(_)) | None => {
                    return Err(gone("the copy is not what was proven"));
                }
            }
            steps.extend(put_in_place(input, generation)?);
        }
        None if input.local.is_empty() && barred.is_some_and(|data| data.returns_as != Some(generation)) => {
            return barred::plan(input);
        }
        None if input.local.is_empty() && barred.is_some() => {
            steps.push(Step::Protocol(ProtocolStep::Unbar { generation }));
            steps.extend(put_in_place(input, generation)?);
        }
        None if input.local.is_fenced() => return Err(gone("there is data in neither place")),
        // The rest of a run that was cut short. In all other cases etcd is no longer ours to start.
        None if input.etcd.should_run() && input.etcd.stopped_by_us => {
            steps.extend(serve_from_local(input));
        }
        None => {}
    }
    Ok(Plan::complete(steps))
}

/// The steps that put the proven copy in the place of the fence, and start etcd.
fn put_in_place(input: &PlanInput<'_>, generation: u64) -> Result<Vec<Step>, Refusal> {
    input.check_database_free()?;
    let mut steps: Vec<_> = resume::stop_failing_etcd(input)?.into_iter().collect();
    let stopped = !steps.is_empty();
    steps.push(Step::Protocol(ProtocolStep::Return { at: input.config.etcd.data_dir.clone(), generation }));
    if stopped || input.etcd.needs_start() {
        steps.extend(serve_from_local(input));
    }
    Ok(steps)
}

/// Says on the LUN that its data was moved back, if the LUN is still there. A LUN that is not as the rollback has left it stays as
/// it is. Its filesystem was unmounted before the commit point, so a look without replaying the log shows its last stamp.
fn release(input: &PlanInput<'_>, record: &Record) -> Result<Vec<Step>, Refusal> {
    let LunView::Seen(seen) = input.lun_view()? else { return Ok(Vec::new()) };
    let Some(Content::Xfs { uuid, stamp, .. }) = seen.content.known() else { return Ok(Vec::new()) };
    let Some(Some(stamp)) = stamp.known() else { return Ok(Vec::new()) };
    if *uuid != record.uuid || stamp.released || order_of(input, Some(*uuid), stamp) != Order::Released {
        return Ok(Vec::new());
    }
    let Ok(wwid) = lun::usable_wwid(input, seen) else { return Ok(Vec::new()) };
    let stage = Step::Protocol(ProtocolStep::Stage { wwid: wwid.clone(), uuid: *uuid });
    Ok(vec![stage, Step::Protocol(ProtocolStep::Release { stamp: stamp.clone().release() })])
}

/// The last steps onto the local disk.
pub(super) fn serve_from_local(input: &PlanInput<'_>) -> impl Iterator<Item = Step> {
    [input.start_etcd(Authority::Local)].into_iter().chain(input.await_member())
}

/// Waits until the member serves, if it does not. Releases the LUN. Logs out sessions that nobody uses, so that none of them retries when
/// the target is removed.
fn release_and_log_out(input: &PlanInput<'_>, record: &Record) -> Result<Plan, Refusal> {
    let mut steps: Vec<_> = outlook::await_running(input).into_iter().collect();
    steps.extend(release(input, record)?);
    let Some(iscsi) = input.config.backing.iscsi() else { return Ok(Plan::complete(steps)) };
    let sessions = require("iSCSI sessions", &input.node.sessions)?;
    let free =
        sessions.iter().filter(|session| session.is_of(&iscsi.target.iqn) && session.in_use.is_empty());
    steps.extend(free.map(|session| Step::Node(NodeStep::LogOut { sid: session.sid })));
    Ok(Plan::complete(steps))
}

/// The LUN is authoritative.
fn from_lun(input: &PlanInput<'_>, record: &Record) -> Result<Plan, Refusal> {
    check_lun_reachable(input, record)?;
    let mount = require("what is mounted on the data directory", &input.node.mount)?;
    // First the state in which `apply` leaves a node, with the same proofs that this is the right LUN. etcd is not started in
    // it, because it would have to be stopped again. The same steps repair a run that was cut short with the LUN unmounted.
    let mut applied = match mount {
        Some(mount) => resume::mounted(input, mount)?,
        None => resume::unmounted(input, record)?,
    };
    applied.steps.retain(|step| {
        !matches!(step, Step::Protocol(ProtocolStep::StartEtcd(_)) | Step::Node(NodeStep::AwaitMember(_)))
    });
    let Some(mount) = mount.as_ref().filter(|_| applied.is_empty()) else {
        let horizon = applied.horizon.unwrap_or(Horizon::Mount);
        return Ok(Plan::until(applied.steps, horizon));
    };
    check_local_space(input, record, mount)?;
    input.check_database_free()?;
    let (record, stamp) = resume::verify_mounted(input, mount)?;
    copy_and_commit(input, record, stamp)
}

/// Refuses if the target or the disk is gone: a copy would block until it is back.
fn check_lun_reachable(input: &PlanInput<'_>, record: &Record) -> Result<(), Refusal> {
    let view = input.lun_view()?;
    let (found, cure) = match &input.config.backing {
        Backing::Device(device) => match view {
            LunView::Seen(_) => return Ok(()),
            LunView::NoSession | LunView::NotAttached => {
                (format!("{} leads to no disk", device.path), "See that the disk is attached to this machine")
            }
        },
        Backing::Iscsi(iscsi) => {
            let target = &iscsi.target.iqn;
            let sessions = require("iSCSI sessions", &input.node.sessions)?;
            let mut ours = sessions.iter().filter(|session| session.is_of(target));
            let found = match view {
                LunView::Seen(_) if ours.any(|session| session.is_logged_in()) => return Ok(()),
                LunView::Seen(_) => format!("the session to {target} has lost its connection"),
                LunView::NoSession => format!("there is no session to {target}"),
                LunView::NotAttached => format!("{target} shows no {}", iscsi.lun),
            };
            (found, "See that the target answers")
        }
    };
    Err(RollbackRefusal::OutOfReach { generation: record.generation, wwid: record.wwid.clone(), found, cure }
        .into())
}

/// Refuses unless the local disk has room for all that the LUN's filesystem counts as used, which is more than etcd's data.
fn check_local_space(input: &PlanInput<'_>, record: &Record, mount: &DataMount) -> Result<(), Refusal> {
    let missing = &input.node.missing_tools;
    if !missing.is_empty() {
        return Err(Refusal::ToolMissing { tools: missing.join(", ") });
    }
    if !matches!(input.local, LocalDir::Present { with_state: true, .. }) {
        return Err(Refusal::OtherFilesystem { at: input.data_dir(), state: STATE });
    }
    let staging = require(STAGED_FACT, &input.node.rollback_staging)?;
    if staging.copy.as_ref().is_some_and(|copy| !copy.ours) {
        return Err(
            RollbackRefusal::ShelfTaken { at: staging_dir(record.generation.saturating_add(1)) }.into()
        );
    }
    let Some((Bytes(free), Bytes(all))) = mount.free else {
        let why = "its filesystem reports no sizes".into();
        return Err(Refusal::Unknown { what: "how much the LUN holds", why });
    };
    let used = all.saturating_sub(free);
    // The new copy overwrites what an earlier attempt has copied.
    let staged = staging.copy.as_ref().map_or(0, |copy| copy.size.0);
    let wanted = Bytes(used.saturating_add(SPARE_SPACE).saturating_sub(staged));
    if staging.free < wanted {
        return Err(RollbackRefusal::NoLocalRoom {
            found: staging.free,
            wanted,
            state: STATE,
            retired: RETIRED,
        }
        .into());
    }
    Ok(())
}

/// The LUN is mounted: copy, prove, unmount, commit, replace the fence, start.
fn copy_and_commit(input: &PlanInput<'_>, record: &Record, stamp: &Stamp) -> Result<Plan, Refusal> {
    let at = input.config.etcd.data_dir.clone();
    let generation = record.generation.saturating_add(1);
    let (way, size) = (Way::ToLocal { generation }, None);
    let onto_empty = input.node.rollback_staging.known().is_some_and(|staging| staging.copy.is_none());
    let mut steps = Vec::new();
    if input.etcd.running {
        steps.push(Step::Protocol(ProtocolStep::PreCopy(Copy {
            from: at.clone(),
            way,
            size,
            onto_empty,
            provisional: true,
        })));
    }
    let stop = input.stop_etcd_to_move(way)?;
    let stopped = !stop.is_empty();
    steps.extend(stop);
    let onto_empty = onto_empty && !stopped;
    let copy = Copy { from: at.clone(), way, size, onto_empty, provisional: false };
    steps.extend(input.copy_and_prove(copy));
    steps.push(Step::Protocol(ProtocolStep::UnmountData { unit: input.mount_unit(), at: at.clone() }));
    steps.push(Step::Protocol(ProtocolStep::CommitLocal { record: record.clone().leave(generation, stamp) }));
    steps.push(Step::Protocol(ProtocolStep::Return { at, generation }));
    if stopped || input.etcd.needs_start() {
        steps.extend(serve_from_local(input));
    }
    Ok(Plan::until(steps, Horizon::Sessions))
}

/// The staged data of a rollback, as a refusal names it.
const STAGED_FACT: &str = "what a rollback has staged";

fn staging_dir(generation: u64) -> String {
    format!("{RETURNING}/{generation}")
}

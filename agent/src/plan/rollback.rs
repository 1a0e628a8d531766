//! From the LUN back to the local disk, on a person's word: the mirror image of the migration.
//!
//! Copy → proof → unmount → **record says local (commit)** → the copy takes the fence's place → start. The LUN is
//! unmounted before the commit point: whoever starts etcd between the two finds the fence, on neither copy. So the LUN's
//! copy can't take a write after the commit point, and its stamp is of an older generation than the record from there on.

use super::{
    Horizon, Occasion, Plan, Refusal, Sight, Step, Way, lun::ROOM, migrate, require, resume, step::Copy,
};
use crate::{
    config::{Backing, Config},
    node::{
        DataMount, LocalDir, LunView, Node,
        authority::{Authority, Record},
        layout::{RETIRED, RETURNING, STATE},
    },
    terms::{Bytes, RecordedFingerprint},
};

/// Decides what brings etcd's data back to the local disk, to stay there.
pub fn rollback(config: &Config, node: &Node) -> Result<Plan, Refusal> {
    let sight = Sight::of(config, node, Occasion::ByHand)?;
    match sight.record {
        None => Err(Refusal::NothingToReturn { found: "there is no record" }),
        Some(record) if record.authority == Authority::Lun => from_lun(&sight, record),
        Some(record) if record.rolled_back => {
            let plan = finish(&sight, record)?;
            if plan.is_empty() { log_out(&sight) } else { Ok(plan) }
        }
        Some(_) => Err(Refusal::NothingToReturn {
            found: "the record says that the local disk is the truth, and a migration was only begun",
        }),
    }
}

/// What `apply` does after a rollback. At boot it finishes one that was cut short, and moves nothing: the MachineConfig
/// that started it may still be there, and the word of the person who rolled back is the newer one. By hand it migrates.
pub(super) fn resisted(sight: &Sight<'_>, record: &Record) -> Result<Plan, Refusal> {
    let plan = finish(sight, record)?;
    match sight.occasion {
        Occasion::Boot => Ok(plan),
        Occasion::ByHand if plan.is_empty() => migrate::plan(sight),
        Occasion::ByHand => Err(Refusal::RollbackUnfinished { generation: record.generation }),
    }
}

/// After the commit point: the steps until etcd runs from the local disk.
fn finish(sight: &Sight<'_>, record: &Record) -> Result<Plan, Refusal> {
    let generation = record.generation;
    if let Some(mount) = require("what is mounted on the data directory", &sight.node.mount)? {
        let (at, unit) = (sight.data_dir(), sight.mount_unit());
        return Err(Refusal::MountedOver { generation, at, source_device: mount.source.clone(), unit });
    }
    let gone = |found| Refusal::ReturnedDataGone {
        generation,
        found,
        at: sight.data_dir(),
        shelf: shelf(generation),
    };
    let copy = require("what a rollback has staged", &sight.node.shelf)?.copy.as_ref();
    let mut steps = Vec::new();
    match copy {
        Some(_) if !sight.local.is_empty() => return Err(gone("there is data in both places")),
        Some(copy) => {
            match record.fingerprint {
                Some(RecordedFingerprint::Older(_)) => {
                    return Err(Refusal::OlderFingerprintOfReturned { generation, shelf: shelf(generation) });
                }
                Some(RecordedFingerprint::Ours(proven)) if copy.fingerprint == Some(proven) => {}
                Some(RecordedFingerprint::Ours(_)) | None => {
                    return Err(gone("the copy is not what was proven"));
                }
            }
            sight.database_is_free()?;
            let stop = resume::failing_etcd(sight);
            let stopped = stop.is_some();
            steps.extend(stop);
            steps.push(Step::Return { at: sight.config.etcd.data_dir.clone(), generation });
            if stopped || sight.etcd.waits_for_us() {
                steps.push(sight.start_etcd(Authority::Local));
            }
        }
        None if sight.local.is_fenced() => return Err(gone("there is data in neither place")),
        // The rest of a run that was cut short. Otherwise etcd is not our business any more.
        None if sight.etcd.is_wanted() && sight.etcd.stopped_by_us => {
            steps.push(sight.start_etcd(Authority::Local));
        }
        None => {}
    }
    Ok(Plan::whole(steps))
}

/// The target may go away now: nobody should be left to retry at it. Records of it stay, for nothing logs in by them.
fn log_out(sight: &Sight<'_>) -> Result<Plan, Refusal> {
    let Some(iscsi) = sight.config.backing.iscsi() else { return Ok(Plan::whole(Vec::new())) };
    let target = iscsi.target.iqn.as_str();
    let sessions = require("iSCSI sessions", &sight.node.sessions)?;
    let free = sessions.iter().filter(|session| session.target == target && session.in_use.is_empty());
    Ok(Plan::whole(free.map(|session| Step::LogOut { sid: session.sid }).collect()))
}

/// The LUN is the truth.
fn from_lun(sight: &Sight<'_>, record: &Record) -> Result<Plan, Refusal> {
    is_in_reach(sight, record)?;
    let mount = require("what is mounted on the data directory", &sight.node.mount)?;
    // First to where `apply` leaves a node, by the same proofs that the LUN is the right one, but for etcd, which would
    // have to be stopped again. That is also the way out of a run that was cut short with the LUN unmounted.
    let mut applied = match mount {
        Some(mount) => resume::mounted(sight, mount)?,
        None => resume::unmounted(sight, record)?,
    };
    applied.steps.retain(|step| !matches!(step, Step::StartEtcd(_)));
    let Some(mount) = mount.as_ref().filter(|_| applied.is_empty()) else {
        let horizon = applied.horizon.unwrap_or(Horizon::Mount);
        return Ok(Plan::until(applied.steps, horizon));
    };
    can_be_held(sight, record, mount)?;
    sight.database_is_free()?;
    Ok(copy_and_commit(sight, record))
}

/// A copy must not hang on a target that is gone.
fn is_in_reach(sight: &Sight<'_>, record: &Record) -> Result<(), Refusal> {
    let view = sight.view()?;
    let found = match &sight.config.backing {
        Backing::Device(device) => match view {
            LunView::Seen(_) => return Ok(()),
            LunView::NoSession | LunView::NotAttached => format!("{} leads to no disk", device.path),
        },
        Backing::Iscsi(iscsi) => {
            let target = iscsi.target.iqn.as_str();
            let sessions = require("iSCSI sessions", &sight.node.sessions)?;
            let mut ours = sessions.iter().filter(|session| session.target == target);
            match view {
                LunView::Seen(_) if ours.any(|session| session.is_logged_in()) => return Ok(()),
                LunView::Seen(_) => format!("the session to {target} has lost its connection"),
                LunView::NoSession => format!("there is no session to {target}"),
                LunView::NotAttached => format!("{target} shows no LUN {}", iscsi.lun),
            }
        }
    };
    let cure = match &sight.config.backing {
        Backing::Iscsi(_) => "See that the target answers",
        Backing::Device(_) => "See that the disk is attached to this machine",
    };
    Err(Refusal::OutOfReach { generation: record.generation, wwid: record.wwid.clone(), found, cure })
}

/// The local disk has a place and room for all that the LUN's filesystem counts as used, which is more than etcd's data.
fn can_be_held(sight: &Sight<'_>, record: &Record, mount: &DataMount) -> Result<(), Refusal> {
    let missing = &sight.node.missing_tools;
    if !missing.is_empty() {
        return Err(Refusal::ToolMissing { tools: missing.join(", ") });
    }
    if !matches!(sight.local, LocalDir::Present { with_state: true, .. }) {
        return Err(Refusal::OtherFilesystem { at: sight.data_dir(), state: STATE });
    }
    let on_shelf = require("what a rollback has staged", &sight.node.shelf)?;
    if on_shelf.copy.as_ref().is_some_and(|copy| !copy.ours) {
        return Err(Refusal::ShelfTaken { at: shelf(record.generation.saturating_add(1)) });
    }
    let Some((Bytes(free), Bytes(all))) = mount.free else {
        let why = "its filesystem gave no figures".into();
        return Err(Refusal::Unknown { what: "how much the LUN holds", why });
    };
    let used = all.saturating_sub(free);
    // What an earlier try has copied is written over, not beside.
    let staged = on_shelf.copy.as_ref().map_or(0, |copy| copy.size.0);
    let wanted = Bytes(used.saturating_add(ROOM).saturating_sub(staged));
    if on_shelf.free < wanted {
        return Err(Refusal::NoLocalRoom { found: on_shelf.free, wanted, state: STATE, retired: RETIRED });
    }
    Ok(())
}

/// The LUN is mounted: copy, prove, unmount, commit, open the fence, start.
fn copy_and_commit(sight: &Sight<'_>, record: &Record) -> Plan {
    let at = sight.config.etcd.data_dir.clone();
    let generation = record.generation.saturating_add(1);
    let (way, size) = (Way::ToLocal { generation }, None);
    let onto_empty = sight.node.shelf.known().is_some_and(|shelf| shelf.copy.is_none());
    let mut steps = Vec::new();
    if sight.etcd.running {
        steps.push(Step::PreCopy(Copy { from: at.clone(), way, size, onto_empty }));
    }
    let stop = sight.stop_etcd();
    let stopped = stop.is_some();
    steps.extend(stop);
    steps.push(Step::Copy(Copy { from: at.clone(), way, size, onto_empty: onto_empty && !stopped }));
    steps.push(Step::Prove { from: at.clone(), way });
    steps.push(Step::UnmountData { unit: sight.mount_unit(), at: at.clone() });
    let next = Record::begin(generation, record.uuid, record.wwid.clone(), at.clone());
    steps.push(Step::CommitLocal { record: next });
    steps.push(Step::Return { at, generation });
    if stopped || sight.etcd.waits_for_us() {
        steps.push(sight.start_etcd(Authority::Local));
    }
    match &sight.config.backing {
        Backing::Iscsi(_) => Plan::until(steps, Horizon::Sessions),
        Backing::Device(_) => Plan::whole(steps),
    }
}

fn shelf(generation: u64) -> String {
    format!("{RETURNING}/{generation}")
}

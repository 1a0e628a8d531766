//! The LUN is the truth: make the local side harmless, count the use, mount, start etcd.

use super::{Horizon, Occasion, Plan, Refusal, Sight, Step, lun, mount_unit, reach, require, step::Retire};
use crate::{
    config::{Backing, Runtime},
    node::{
        Content, DataMount, LocalDir, Lun, LunView,
        authority::{Authority, Record, Stamp},
    },
    terms::RecordedFingerprint,
};

const WAIT_OR_RESTORE: &str = "See at the target what happened to the LUN; if its data is lost, replace this etcd member (remove it from the cluster, clear the LUN, remove the record)";
const NO_SNAPSHOTS: &str = "A restored snapshot is an out-of-date member: replace this etcd member (remove it from the cluster, clear the LUN, remove the record)";

/// Something is mounted on the data directory.
pub(super) fn mounted(sight: &Sight<'_>, mount: &DataMount) -> Result<Plan, Refusal> {
    if mount.io_error {
        return repair(sight, mount);
    }
    let (record, _) = truth(sight, mount)?;
    let mut steps = make_local_harmless(sight, record)?;
    steps.extend(reach::timeouts(sight)?);
    if sight.etcd.waits_for_us() {
        steps.push(sight.start_etcd(Authority::Lun));
    }
    Ok(Plan::whole(steps))
}

fn foreign(sight: &Sight<'_>, mount: &DataMount) -> Refusal {
    Refusal::ForeignMount {
        at: sight.data_dir(),
        source_device: mount.source.clone(),
        fs_type: mount.fs_type.clone(),
    }
}

/// What is mounted has shut down: etcd can't do anything on it, and only a mount anew, which replays the log, brings it
/// back. All that etcd has acknowledged was on the LUN before. Which filesystem it was can't be asked any more; what is
/// mounted next is proven like at any boot.
fn repair(sight: &Sight<'_>, mount: &DataMount) -> Result<Plan, Refusal> {
    if sight.record.is_none_or(|record| record.authority != Authority::Lun)
        || mount.layers != 1
        || mount.fs_type != "xfs"
    {
        return Err(foreign(sight, mount));
    }
    // In the background nobody stops an etcd, and at boot there is no mount.
    if sight.occasion == Occasion::Boot {
        return Err(Refusal::ShutDown { at: sight.data_dir() });
    }
    if !sight.local.is_fenced() {
        return Err(Refusal::Unfenced { at: sight.data_dir(), unit: sight.mount_unit() });
    }
    let mut steps: Vec<_> = sight.stop_etcd().into_iter().collect();
    steps.push(Step::UnmountShutDown { unit: sight.mount_unit(), at: sight.config.etcd.data_dir.clone() });
    Ok(Plan::until(steps, Horizon::Lun))
}

/// The record and the stamp, when what is mounted is what they say.
pub(super) fn truth<'a>(sight: &Sight<'a>, mount: &DataMount) -> Result<(&'a Record, &'a Stamp), Refusal> {
    let foreign = || foreign(sight, mount);
    let record = sight.record.filter(|record| record.authority == Authority::Lun).ok_or_else(foreign)?;
    if mount.io_error {
        return Err(Refusal::ShutDown { at: sight.data_dir() });
    }
    let seen = match (sight.view()?, &sight.config.backing) {
        (LunView::Seen(seen), _) if seen.devno == mount.devno && mount.layers == 1 => seen,
        (LunView::NotAttached, Backing::Device(device)) => {
            return Err(Refusal::DiskGone {
                at: sight.data_dir(),
                source_device: mount.source.clone(),
                path: device.path.to_string(),
                wwid: record.wwid.clone(),
            });
        }
        (LunView::Seen(_) | LunView::NoSession | LunView::NotAttached, _) => return Err(foreign()),
    };
    let wwid = require("the LUN's WWID", &seen.wwid)?;
    if *wwid != record.wwid {
        return Err(lun::wrong(sight, wwid, "the record names", &record.wwid));
    }
    // Of a mounted LUN only the stamp is asked: it is read through the mount, so it is of this
    // very filesystem, whatever a probe of the device would say beside it.
    let stamp = require("the LUN's stamp", &sight.node.mounted_stamp)?;
    Ok((record, check(sight, record, stamp.as_ref())?))
}

/// Both with one use more.
pub(super) fn counted(record: &Record, stamp: &Stamp) -> (Stamp, Record) {
    // Above what either has counted, for what was cut short between the two is on the LUN, and in a snapshot of it.
    let activations = record.activations.max(stamp.activations).saturating_add(1);
    (stamp.clone().activated(activations), record.clone().activated(activations))
}

/// Nothing is mounted there.
pub(super) fn unmounted(sight: &Sight<'_>, record: &Record) -> Result<Plan, Refusal> {
    // First what needs no LUN: whatever is wrong with the target, the LUN or the units, etcd must
    // not find old data. So this is a plan of its own, before anything else may refuse.
    let harmless = make_local_harmless(sight, record)?;
    if !harmless.is_empty() {
        return Ok(Plan::until(harmless, Horizon::Lun));
    }
    mount_unit(sight)?;
    if let Some(plan) = reach::plan(sight)? {
        return Ok(plan);
    }
    match sight.view()? {
        LunView::Seen(seen) => by_content(sight, record, seen),
        // `reach` has planned for these.
        LunView::NoSession | LunView::NotAttached => Ok(Plan::until(Vec::new(), Horizon::Lun)),
    }
}

/// The local directory must end up without data, and immutable.
fn make_local_harmless(sight: &Sight<'_>, record: &Record) -> Result<Vec<Step>, Refusal> {
    let from = sight.config.etcd.data_dir.clone();
    let mut steps = Vec::new();
    if let LocalDir::Present { entries, fingerprint, .. } = sight.local
        && !entries.is_empty()
    {
        let (generation, at) = (record.generation, sight.data_dir());
        let copied = match record.fingerprint {
            _ if !sight.etcd.lock_holders.is_empty() => return Err(Refusal::TwoHistories { generation, at }),
            Some(RecordedFingerprint::Older(_)) => {
                return Err(Refusal::OlderFingerprint { generation, at });
            }
            Some(RecordedFingerprint::Ours(copied)) if Some(copied) == *fingerprint => copied,
            Some(RecordedFingerprint::Ours(_)) | None => {
                return Err(Refusal::TwoHistories { generation, at });
            }
        };
        steps.push(Step::Retire(Retire { from: from.clone(), generation, fingerprint: Some(copied) }));
    }
    if !sight.local.is_fenced() {
        steps.push(Step::Fence { at: from });
    }
    Ok(steps)
}

fn by_content(sight: &Sight<'_>, record: &Record, seen: &Lun) -> Result<Plan, Refusal> {
    let wwid = lun::usable(sight, seen)?;
    let not_the_truth = |found: &str| Refusal::NotTheTruth {
        generation: record.generation,
        wwid: wwid.clone(),
        found: found.to_owned(),
        cure: WAIT_OR_RESTORE,
    };
    let stamp = match require("what the LUN holds", &seen.content)? {
        Content::Blank => return Err(not_the_truth("it is blank")),
        Content::Unfinished { .. } => return Err(not_the_truth("it holds an unfinished filesystem")),
        Content::Foreign { found } => return Err(not_the_truth(&format!("it holds {found}"))),
        Content::Xfs { uuid, .. } if *uuid != record.uuid => {
            return Err(not_the_truth(&format!("it holds another XFS, UUID {uuid}")));
        }
        Content::Xfs { uuid, settled: false, stamp, .. } => {
            // To stage it is to write to it. A look may miss what is still in the log, but an owner that it finds was there,
            // and may have the LUN mounted at this moment.
            if let Some(Some(stamp)) = stamp.known() {
                check_owner(sight, record, stamp)?;
            }
            let stage = Step::Stage { wwid: wwid.clone(), uuid: *uuid };
            return Ok(Plan::until(vec![stage], Horizon::Stamp));
        }
        Content::Xfs { stamp, .. } => require("the LUN's stamp", stamp)?.as_ref(),
    };
    let stamp = check(sight, record, stamp)?;
    lun::label_is_unique(sight, seen)?;
    let (stamp, counted) = counted(record, stamp);
    let mut steps = vec![Step::Activate { stamp, record: counted }];
    let stop = failing_etcd(sight);
    if stop.is_none() && !sight.etcd.lock_holders.is_empty() {
        return Err(Refusal::DatabaseHeld {
            holders: sight.etcd.lock_holders.join(", "),
            unit: sight.etcd.name.clone(),
        });
    }
    let stopped = stop.is_some();
    steps.extend(stop);
    steps.push(sight.mount_data(record));
    steps.extend(reach::timeouts(sight)?);
    if sight.etcd.waits_for_us() || stopped {
        steps.push(sight.start_etcd(Authority::Lun));
    }
    Ok(Plan::whole(steps))
}

/// Taking down an etcd that is up without the LUN: it can only be failing against the fence.
///
/// A static pod must be, by whomever: its containers see the directory beneath the mount for as long as they live. A
/// unit needs it only for a person to see one clean start: whatever process is next finds the mount.
pub(super) fn failing_etcd(sight: &Sight<'_>) -> Option<Step> {
    match (&sight.config.etcd.runtime, sight.occasion) {
        (Runtime::Systemd { .. }, Occasion::Boot) => None,
        (Runtime::Systemd { .. }, Occasion::ByHand) | (Runtime::StaticPod { .. }, _) => sight.stop_etcd(),
    }
}

fn wrong(record: &Record, found: String, cure: &'static str) -> Refusal {
    Refusal::NotTheTruth { generation: record.generation, wwid: record.wwid.clone(), found, cure }
}

fn check_owner(sight: &Sight<'_>, record: &Record, stamp: &Stamp) -> Result<(), Refusal> {
    if stamp.machine_id == sight.node.identity.machine_id {
        return Ok(());
    }
    let found = format!("it is stamped for {} (machine id {})", stamp.node, stamp.machine_id);
    Err(wrong(record, found, WAIT_OR_RESTORE))
}

/// The stamp, when it is that of the record: generation, owner, and not from the past.
fn check<'a>(sight: &Sight<'_>, record: &Record, stamp: Option<&'a Stamp>) -> Result<&'a Stamp, Refusal> {
    let wrong = |found, cure| wrong(record, found, cure);
    let stamp = stamp.ok_or_else(|| wrong("it has no stamp".into(), WAIT_OR_RESTORE))?;
    check_owner(sight, record, stamp)?;
    if stamp.generation != record.generation {
        return Err(wrong(format!("its stamp is of generation {}", stamp.generation), WAIT_OR_RESTORE));
    }
    if stamp.activations < record.activations {
        let found = format!(
            "it has gone back in time: its stamp counts {} uses, the record {}",
            stamp.activations, record.activations
        );
        return Err(wrong(found, NO_SNAPSHOTS));
    }
    Ok(stamp)
}

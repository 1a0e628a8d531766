//! The LUN is authoritative: retire and fence the local data, advance the use counter, mount, start etcd.

use super::{
    attach, barred, growth,
    input::{Occasion, PlanInput, require},
    lun,
    outcome::{Horizon, Plan},
    outlook, portals,
    recorded::{check_filesystem, check_stamp, check_unsettled, next_use},
    refusal::{AuthorityRefusal, Refusal, ShutDownRefusal},
    step::{ProtocolStep, Retire, Step},
};
use config::{Backing, Config, Runtime};
use node::{
    ActiveState, DataMount, EtcdState, Fact, InPlace, LocalDir, Lun, LunView, Node,
    authority::{Authority, Record, Stamp},
    in_place,
};
use terms::{Bytes, RecordedFingerprint};

/// What to do about a device that holds what this node has not written, as long as etcd uses it.
const IN_USE: &str = "another computer writes to it, or it was restored or mapped anew beneath the mount. Each write of etcd makes the damage larger: stop etcd on this node now if the other members are a quorum, and replace this member. If there is no quorum without it, first run `etcdctl snapshot save` to another disk, because only the running etcd has the newest data. See at the target which computers have the LUN";

/// What to do after the disk of another volume was taken away.
const REMOVED: &str = "the target has mapped another volume beneath the mount. The kernel has removed its disks, so that nothing more is written to it, and etcd ends. Correct the mapping at the target, then run `etcd-lun apply`, and see that the member catches up. The other volume was written to: restore it from a backup";

/// Something is mounted on the data directory.
pub(super) fn mounted(input: &PlanInput<'_>, mount: &DataMount) -> Result<Plan, Refusal> {
    // By hand a filesystem that has shut down is unmounted first: then nobody uses the session any more. The service first makes sure
    // that the LUN is there.
    let is_boot = input.occasion == Occasion::Boot;
    let looks_first = if mount.io_error { is_boot } else { has_lost_its_lun(input.config, input.node) };
    if looks_first && let Some(plan) = attach::plan(input)? {
        return Ok(plan);
    }
    if mount.io_error {
        return unmount_shut_down(input, mount);
    }
    let (record, _) = verify_mounted(input, mount)?;
    growth::refuse_shrunk_mount(input, mount)?;
    let mut steps = retire_and_fence(input, record)?;
    // etcd does not start on a full LUN, so nothing comes before the room that it has got.
    if steps.is_empty() && mount.free.is_some_and(|(free, _)| free < Bytes(lun::SPARE_SPACE)) {
        let room = growth::grow(input, mount)?;
        if !room.is_empty() {
            return Ok(Plan::complete(room));
        }
    }
    steps.extend(serve_from_lun(input, false)?);
    if !input.etcd.needs_start() {
        steps.extend(outlook::await_running(input));
    }
    // Only where nothing else is to be done: etcd serves, whatever becomes of these steps.
    if steps.is_empty() {
        steps = growth::grow(input, mount)?;
        let mut plan = portals::follow(input)?;
        plan.steps.splice(0..0, steps);
        return Ok(plan);
    }
    Ok(Plan::complete(steps))
}

/// True if the LUN is mounted for etcd and the kernel has lost it: no session of ours shows it any more. So it is after a
/// log-out by another program, and after the target has taken the LUN away. A map that has kept its writes goes on as soon as
/// a session is there again.
pub fn has_lost_its_lun(config: &Config, node: &Node) -> bool {
    mounted_from_target(config, node).is_some()
        && matches!(node.lun.known(), Some(LunView::NoSession | LunView::NotAttached))
}

/// What is wrong with the LUN that is mounted for etcd, and that etcd-lun-lost.service can act on.
#[derive(Debug)]
pub enum Trouble {
    /// The kernel has lost it, its filesystem has shut down, or the service has unmounted one that had, and has not come further.
    Lost,
    /// This disk is another volume, for this reason.
    OtherVolume(String, Refusal),
    /// iscsid does not run, and there is a session.
    NoIscsid,
    /// iscsid runs, and makes no session again although the portal answers.
    IdleIscsid,
}

/// Finds out what is wrong. `unfinished` is true from such an unmount to the next mount. What is wrong with iscsid is asked last:
/// another volume does not wait for the answer.
pub fn trouble<E>(
    config: &Config,
    node: &Node,
    unfinished: bool,
    with_iscsid: impl FnOnce() -> Result<Option<Trouble>, E>,
) -> Result<Option<Trouble>, E> {
    let mounted = mounted_from_target(config, node);
    let half_way = unfinished && matches!(node.mount, Fact::Known(None)) && lun_of_record(node).is_some();
    let shut = mounted.is_some_and(|(_, mount)| mount.io_error);
    if shut || half_way || has_lost_its_lun(config, node) {
        return Ok(Some(Trouble::Lost));
    }
    if let Some((disk, refusal)) = another_volume(config, node) {
        return Ok(Some(Trouble::OtherVolume(disk.to_owned(), refusal)));
    }
    if mounted.is_some() { with_iscsid() } else { Ok(None) }
}

/// Returns the disk that is mounted for etcd, and why it must go, if it holds another volume: the target has mapped that anew, and
/// each write damages it.
///
/// Only the filesystem's UUID decides. An array may give the right volume another WWID, and after an outage an older stamp is still
/// in place: whoever took the disk away then would stop every member on that array.
///
/// Of a map this is what the path shows that the kernel reads it by. Paths that differ are a person's.
pub fn another_volume<'a>(config: &Config, node: &'a Node) -> Option<(&'a str, Refusal)> {
    let (record, mount) = mounted_from_target(config, node)?;
    let LunView::Seen(seen) = node.lun.known()? else { return None };
    if seen.devno != mount.devno {
        return None;
    }
    let stamp = node.mounted_stamp.known()?.as_ref()?;
    match in_place(record, mount, stamp, &seen.content) {
        Fact::Known(InPlace::OtherVolume(found)) => {
            let refusal =
                AuthorityRefusal::ChangedBeneath { wwid: record.wwid.clone(), found, cure: REMOVED };
            Some((&seen.device, refusal.into()))
        }
        Fact::Known(InPlace::Current | InPlace::Behind | InPlace::Foreign(_)) | Fact::Unknown(_) => None,
    }
}

/// The record, if it says LUN, and the mount, if it can be that of a LUN of the target.
fn mounted_from_target<'a>(config: &Config, node: &'a Node) -> Option<(&'a Record, &'a DataMount)> {
    config.backing.iscsi()?;
    let (record, mount) = (lun_of_record(node)?, node.mount.known()?.as_ref()?);
    (mount.layers == 1 && mount.fs_type == "xfs").then_some((record, mount))
}

/// The record, if it says LUN.
fn lun_of_record(node: &Node) -> Option<&Record> {
    let record = node.record.known()?.as_ref()?;
    (record.authority == Authority::Lun && !record.rolled_back).then_some(record)
}

fn foreign_mount(input: &PlanInput<'_>, mount: &DataMount) -> Refusal {
    Refusal::ForeignMount {
        at: input.data_dir(),
        source_device: mount.source.clone(),
        fs_type: mount.fs_type.clone(),
    }
}

/// The mounted filesystem has shut down. etcd cannot use it until it is mounted again, which replays its log. No acknowledged
/// write is lost: the LUN had all of them before.
///
/// A filesystem that has shut down cannot be asked which one it is. What is mounted next is verified as at every boot.
fn unmount_shut_down(input: &PlanInput<'_>, mount: &DataMount) -> Result<Plan, Refusal> {
    if input.record.is_none_or(|record| record.authority != Authority::Lun)
        || mount.layers != 1
        || mount.fs_type != "xfs"
    {
        return Err(foreign_mount(input, mount));
    }
    // After another volume was taken away, a scan finds it again.
    if input.occasion == Occasion::Boot
        && let (Some(record), Some(LunView::Seen(seen))) = (input.record, input.node.lun.known())
        && seen.devno != mount.devno
    {
        lun::usable_wwid(input, seen)?;
        check_filesystem(record, seen)?;
    }
    if !input.local.is_fenced() {
        return Err(ShutDownRefusal::Unfenced { at: input.data_dir(), unit: input.mount_unit() }.into());
    }
    // A member that cannot write its log acknowledges nothing, so the others lose nothing by its stop.
    let mut steps: Vec<_> = input.stop_etcd_without_question().into_iter().collect();
    steps.push(Step::Protocol(ProtocolStep::UnmountShutDown {
        unit: input.mount_unit(),
        at: input.config.etcd.data_dir.clone(),
    }));
    Ok(Plan::until(steps, Horizon::Lun))
}

/// The record, and the stamp of the mounted filesystem. Refuses unless that filesystem is the one that the record names.
pub(super) fn verify_mounted<'a>(
    input: &PlanInput<'a>,
    mount: &DataMount,
) -> Result<(&'a Record, &'a Stamp), Refusal> {
    let foreign = || foreign_mount(input, mount);
    let record = input.record.filter(|record| record.authority == Authority::Lun).ok_or_else(foreign)?;
    if mount.io_error {
        return Err(ShutDownRefusal::ShutDown { at: input.data_dir() }.into());
    }
    let seen = match (input.lun_view()?, &input.config.backing) {
        (LunView::Seen(seen), _) if seen.devno == mount.devno && mount.layers == 1 => seen,
        (LunView::NotAttached, Backing::Device(device)) => {
            return Err(Refusal::DiskGone {
                at: input.data_dir(),
                source_device: mount.source.clone(),
                path: device.path.to_string(),
                wwid: record.wwid.clone(),
            });
        }
        (LunView::Seen(_) | LunView::NoSession | LunView::NotAttached, _) => {
            return Err(foreign());
        }
    };
    let wwid = require("the LUN's WWID", &seen.wwid)?;
    if *wwid != record.wwid {
        return Err(lun::wrong_lun(input, seen, wwid, lun::FROM_RECORD, &record.wwid));
    }
    let stamp = check_stamp(input, record, &input.node.mounted_stamp)?.0;
    // The mount answers from memory. A device that cannot be read now keeps nobody from what the mount allows.
    if let Fact::Known(InPlace::OtherVolume(found) | InPlace::Foreign(found)) =
        in_place(record, mount, stamp, &seen.content)
    {
        return Err(AuthorityRefusal::ChangedBeneath { wwid: wwid.clone(), found, cure: IN_USE }.into());
    }
    Ok((record, stamp))
}

/// Nothing is mounted on the data directory.
pub(super) fn unmounted(input: &PlanInput<'_>, record: &Record) -> Result<Plan, Refusal> {
    // First what needs no LUN. Whatever is wrong with the target, the LUN or the units, etcd must not find old data. So this is
    // a plan of its own, made before anything else can refuse.
    match retire_and_fence(input, record) {
        Ok(steps) if steps.is_empty() => {}
        Ok(steps) => return Ok(Plan::until(steps, Horizon::Lun)),
        Err(two_histories) => return take_back(input, record, two_histories),
    }
    if let Some(plan) = attach::plan(input)? {
        return Ok(plan);
    }
    match input.lun_view()? {
        LunView::Seen(seen) => by_content(input, record, seen),
        // `attach` has planned for these.
        LunView::NoSession | LunView::NotAttached => Ok(Plan::until(Vec::new(), Horizon::Lun)),
    }
}

/// The local directory holds other data than what was copied. If the LUN never served, that is what etcd has written since: the
/// commit is taken back, and the next plan migrates again. Else there are two histories.
fn take_back(input: &PlanInput<'_>, record: &Record, two_histories: Refusal) -> Result<Plan, Refusal> {
    if record.has_served() {
        return Err(two_histories);
    }
    if let Some(plan) = attach::plan(input)? {
        return Ok(plan);
    }
    let LunView::Seen(seen) = input.lun_view()? else { return Err(two_histories) };
    // There is no fence yet.
    if let Some(plan) = barred::plan_if_newer(input, seen)? {
        return Ok(plan);
    }
    let wwid = lun::usable_wwid(input, seen)?;
    let (settled, stamp) = check_filesystem(record, seen)?;
    if !settled {
        check_unsettled(input, record, stamp)?;
        return Ok(Plan::stage(wwid, record.uuid));
    }
    match check_stamp(input, record, stamp)? {
        (_, true) => {
            let step = Step::Protocol(ProtocolStep::TakeBack { record: record.clone().take_back() });
            Ok(Plan::until(vec![step], Horizon::Lun))
        }
        (_, false) => Err(two_histories),
    }
}

/// The steps after which the local directory holds no data and is immutable.
pub(super) fn retire_and_fence(input: &PlanInput<'_>, record: &Record) -> Result<Vec<Step>, Refusal> {
    let from = input.config.etcd.data_dir.clone();
    let mut steps = Vec::new();
    if let LocalDir::Present { entries, fingerprint, .. } = input.local
        && !entries.is_empty()
    {
        let (generation, at) = (record.generation, input.data_dir());
        let copied = match record.fingerprint {
            _ if !input.etcd.lock_holders.is_empty() => return Err(Refusal::TwoHistories { generation, at }),
            Some(RecordedFingerprint::Older(_)) => {
                return Err(Refusal::OlderFingerprint { generation, at });
            }
            Some(RecordedFingerprint::Ours(copied)) if Some(copied) == *fingerprint => copied,
            Some(RecordedFingerprint::Ours(_)) | None => {
                return Err(Refusal::TwoHistories { generation, at });
            }
        };
        steps.push(Step::Protocol(ProtocolStep::Retire(Retire {
            from: from.clone(),
            generation,
            fingerprint: Some(copied),
        })));
    }
    if !input.local.is_fenced() {
        steps.push(Step::Protocol(ProtocolStep::Fence { at: from }));
    }
    Ok(steps)
}

fn by_content(input: &PlanInput<'_>, record: &Record, seen: &Lun) -> Result<Plan, Refusal> {
    let wwid = lun::usable_wwid(input, seen)?;
    let (settled, stamp) = check_filesystem(record, seen)?;
    growth::refuse_shrunk(input, seen)?;
    if !settled {
        // Staging writes to the LUN, and another computer may have it mounted now.
        check_unsettled(input, record, stamp)?;
        return Ok(Plan::stage(wwid, record.uuid));
    }
    let (stamp, _) = check_stamp(input, record, stamp)?;
    let next = next_use(input, Some(record), stamp)?;
    let mut steps = vec![Step::Protocol(ProtocolStep::Activate { stamp: stamp.clone().used(next) })];
    let stop = stop_failing_etcd(input)?;
    if stop.is_none() && !input.etcd.lock_holders.is_empty() {
        return Err(input.database_held());
    }
    // A unit that has failed against the fence is started again by systemd, if its start limit allows that. A start of ours
    // resets that limit.
    let fails = input.etcd.state == EtcdState::Unit(ActiveState::Activating);
    let stopped = stop.is_some() || fails;
    steps.extend(stop);
    steps.push(input.mount_data(record));
    steps.extend(serve_from_lun(input, stopped)?);
    Ok(Plan::complete(steps))
}

/// The last steps onto the LUN: starts etcd if it is `stopped` by a step before, or does not run, and sets the time-outs of the
/// sessions. The time-outs come after the start, so that a session that is lost right then leaves no etcd down.
pub(super) fn serve_from_lun(input: &PlanInput<'_>, stopped: bool) -> Result<Vec<Step>, Refusal> {
    let (start, wait) = if stopped || input.etcd.needs_start() {
        (Some(input.start_etcd(Authority::Lun)), input.await_member())
    } else {
        (None, None)
    };
    let mut steps = Vec::from_iter(start);
    steps.extend(attach::session_timeouts(input)?);
    steps.extend(wait);
    Ok(steps)
}

/// Stops an etcd that is up without the LUN. It can only be failing against the fence.
///
/// A static pod must be stopped, by hand or at boot: its containers see the directory beneath the mount for as long as they
/// live. A unit's next process finds the mount by itself. So a unit is stopped only by hand, where a person wants to see one
/// clean start.
pub(super) fn stop_failing_etcd(input: &PlanInput<'_>) -> Result<Option<Step>, Refusal> {
    match (&input.config.etcd.runtime, input.occasion) {
        (Runtime::Systemd { .. }, Occasion::Boot) => Ok(None),
        (Runtime::Systemd { .. }, Occasion::ByHand) | (Runtime::StaticPod { .. }, _) => input.stop_etcd(),
    }
}

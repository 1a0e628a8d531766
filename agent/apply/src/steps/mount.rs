//! Asking PID 1 to mount the LUN for etcd, verified before and after, and asking PID 1 to unmount it.

use crate::{
    exposure, guard,
    machine::{self, Effect, Free, Machine, Place, Source},
};
use anyhow::{Context as _, ensure};
use plan::step::MountData;
use terms::{AbsPath, require};

/// Verifies the LUN in a mount of this run's own, keeps that while PID 1 mounts the same device for etcd, and verifies again.
pub fn mount(machine: &mut dyn Machine, step: &MountData) -> anyhow::Result<String> {
    guard::nothing_is_mounted(machine, &step.at)?;
    // Whoever opened the directory since this run has retired its data has nothing there that etcd could run on.
    if !machine.has_retired() {
        guard::no_users_beneath(machine, &step.at)?;
    }
    guard::fenced(machine.is_fenced(&step.at)?, &step.at, "nothing is mounted over it")?;
    if !machine.is_staged() {
        machine.perform(&Effect::Stage { wwid: step.wwid.clone(), uuid: step.uuid })?;
    }
    is_authoritative(machine, step, Place::Staging).context("nothing is mounted for etcd")?;
    let mounted = machine.perform(&Effect::Expose { mount: step.clone() })?;
    if let Err(error) = is_authoritative(machine, step, Place::Mounted) {
        let taken_back = machine.perform(&Effect::TakeBack { mount: step.clone() }).map(drop);
        return Err(exposure::rejected(error, taken_back, &step.at));
    }
    machine.perform(&Effect::LeaveStaging)?;
    Ok(mounted)
}

/// Checks that the record says LUN, and that the stamp of a mounted filesystem is of the record's moment.
fn is_authoritative(machine: &dyn Machine, step: &MountData, on: Place) -> anyhow::Result<()> {
    let (stamp, record) = (machine::stamp(machine, on)?, machine::record(machine)?);
    guard::says_lun(&record)?;
    guard::names(&record, &step.uuid)?;
    guard::same_moment(machine, &record, &stamp)
}

/// Unmounts the LUN after its data is proven to be on the local disk, there and in every other mount namespace, and waits
/// until no process has it mounted or open. Whoever starts etcd after that finds the fence.
pub fn unmount(machine: &mut dyn Machine, unit: &str, at: &AbsPath) -> anyhow::Result<String> {
    ensure!(machine.proof().is_some(), "the copy was not proven in this run");
    guard::fenced_beneath(machine.is_fenced(at)?, at, "the LUN stays mounted")?;
    machine.data_is_on_lun(at)?;
    guard::etcd_is_at_rest(machine, at)?;
    // After the look for users, so that what one of them wrote before it ended is found.
    machine.still_holds(&Source::Mounted(at.clone())).context("the LUN stays mounted")?;
    machine.perform(&Effect::Unmount { unit: unit.into(), data_dir: at.clone(), until: Free::Device })?;
    Ok(format!("the LUN is unmounted, and {at} fenced"))
}

/// Unmounts a filesystem that has shut down. Nothing is lost: what etcd acknowledged is on the LUN, and later writes
/// failed.
pub fn unmount_shut_down(machine: &mut dyn Machine, unit: &str, at: &AbsPath) -> anyhow::Result<String> {
    let record = machine::record(machine)?;
    guard::says_lun(&record)?;
    guard::fenced_beneath(machine.is_fenced(at)?, at, "the filesystem stays mounted")?;
    require!(
        machine.is_shut_down(at)?,
        MountChanged,
        "the filesystem at {at} has not shut down: it stays mounted"
    );
    guard::etcd_is_at_rest(machine, at)?;
    machine.perform(&Effect::Unmount { unit: unit.into(), data_dir: at.clone(), until: Free::Filesystem })?;
    Ok(format!("{at} is unmounted, and fenced"))
}

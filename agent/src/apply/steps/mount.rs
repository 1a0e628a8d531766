//! Having PID 1 mount the LUN for etcd, verified before and after, and having PID 1 unmount it.

use super::{prove, stage};
use crate::{
    apply::{context::Run, exposure, guard, machine, place, views},
    host::{block, mountinfo, tree, xfs},
    node::authority::Authority,
    plan::step::MountData,
    terms::AbsPath,
};
use anyhow::{Context as _, bail, ensure};
use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

/// The time for processes that are ending and still have the filesystem mounted in their mount namespace.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);

/// Verifies the LUN in a mount of this run's own, keeps that while PID 1 mounts the same device for etcd, and verifies again.
pub fn mount(run: &mut Run<'_>, step: &MountData) -> anyhow::Result<String> {
    guard::nothing_is_mounted(run, &step.at)?;
    // Whoever opened the directory since this run has retired its data has nothing there that etcd could run on.
    if !run.retired {
        guard::no_users_beneath(run, &step.at)?;
    }
    ensure!(place::is_fenced(run.host, &step.at)?, "{} is not fenced: nothing is mounted over it", step.at);
    if run.staging.is_none() {
        stage::stage(run, &step.wwid, &step.uuid)?;
    }
    let staging = run.staging()?;
    let mut lun = guard::staged_lun(run, staging, &step.wwid)?;
    is_authoritative(run, step, &staging.root()?).context("nothing is mounted for etcd")?;
    if !staging.can_be_shared() {
        // Both mounts would be of one filesystem in memory, with the options of this one. So this one goes first.
        run.take_staging()?.unmount().context("unmounting the LUN")?;
        lun = guard::lun_of_ours(run, &step.wwid, &step.uuid)?;
    }
    let unit = exposure::ByName(run.host, &step.unit);
    exposure::expose(run.host, &unit, step, &lun.device, || {
        exposure::is_as_asked(run.host, step, &lun.devno)?;
        is_authoritative(run, step, &tree::open(&run.host.root.locate(step.at.as_path()))?)
    })?;
    if let Some(staging) = run.staging.take() {
        staging.leave().context("unmounting the LUN for this program")?;
    }
    Ok(format!("{} is mounted on {}", lun.device, step.at))
}

/// Checks that the record says LUN, and that the stamp of a mounted filesystem is of the record's moment.
fn is_authoritative(run: &Run<'_>, step: &MountData, root: &OwnedFd) -> anyhow::Result<()> {
    let (stamp, record) = (place::stamp_of(root)?, machine::record(run)?);
    ensure!(record.authority == Authority::Lun, "the record says that the local copy is authoritative");
    ensure!(record.uuid == step.uuid, "the record names filesystem {} now, not {}", record.uuid, step.uuid);
    guard::same_moment(run, &record, &stamp)
}

/// Unmounts the LUN after its data is proven to be on the local disk, there and in every other mount namespace, and waits
/// until no process has it mounted or open. Whoever starts etcd after that finds the fence.
pub fn unmount(run: &Run<'_>, unit: &str, at: &AbsPath) -> anyhow::Result<String> {
    ensure!(run.proof.is_some(), "the copy was not proven in this run: the LUN stays mounted");
    ensure!(place::is_fenced(run.host, at)?, "{at} is not fenced beneath the LUN, which stays mounted");
    let lun = guard::data_is_on_lun(run, at)?;
    guard::etcd_is_at_rest(run, at)?;
    // After the look for users, so that what one of them wrote before it ended is found.
    prove::still_holds(run, &tree::open(&run.host.root.locate(at.as_path()))?)
        .context("the LUN stays mounted")?;
    let mount = place::mounted_on(run.host, at)?.with_context(|| format!("{at} is not mounted any more"))?;
    let device = mount.device;
    exposure::unmount(run.host, unit)?;
    guard::nothing_is_mounted(run, at)?;
    let deadline = Instant::now() + RELEASE_LIMIT;
    while !block::nobody_holds(run.host, &lun.device)? {
        let left = views::unmount_elsewhere(run.host, device)?;
        if Instant::now() >= deadline {
            match left.first() {
                Some(left) => bail!(
                    "{at} is unmounted, and {} is still mounted in the mount namespace of {left}: end that process, then run this again",
                    lun.device
                ),
                None => bail!(
                    "{at} is unmounted, and somebody still has {} mounted or open: see `lsns -t mnt`",
                    lun.device
                ),
            }
        }
        run.host.pause(Duration::from_millis(200))?;
    }
    Ok(format!("{} is unmounted, and {at} fenced", lun.device))
}

/// Unmounts a filesystem that has shut down. Nothing is lost: what etcd acknowledged is on the LUN, and later writes
/// failed.
pub fn unmount_shut_down(run: &Run<'_>, unit: &str, at: &AbsPath) -> anyhow::Result<String> {
    let record = machine::record(run)?;
    ensure!(record.authority == Authority::Lun, "the record says that the local copy is authoritative");
    ensure!(
        place::is_fenced(run.host, at)?,
        "{at} is not fenced beneath the mount: the filesystem stays mounted"
    );
    let mount = place::mounted_on(run.host, at)?.with_context(|| format!("{at} is not mounted any more"))?;
    ensure!(
        xfs::is_shut_down(&run.host.root.locate(at.as_path())),
        "the filesystem at {at} has not shut down"
    );
    guard::etcd_is_at_rest(run, at)?;
    exposure::unmount(run.host, unit)?;
    guard::nothing_is_mounted(run, at)?;
    // While the filesystem is mounted anywhere, mounting it again would attach the same instance, which has shut down.
    let deadline = Instant::now() + RELEASE_LIMIT;
    loop {
        let left = mountinfo::holders_in_any_namespace(run.host, mount.device.0, mount.device.1)?;
        match left.first() {
            None => return Ok(format!("{at} is unmounted, and fenced")),
            Some(holder) if Instant::now() >= deadline => bail!(
                "{at} is unmounted, and {} (pid {}) still has its filesystem mounted at {}: end it, then apply again",
                holder.comm,
                holder.pid,
                holder.mount_point
            ),
            Some(_) => run.host.pause(Duration::from_millis(200))?,
        }
    }
}

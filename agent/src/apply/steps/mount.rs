//! Having PID 1 mount the LUN for etcd and checking what it mounted, and having PID 1 unmount it.

use crate::{
    apply::{context::Run, guard, place, record, views},
    host::{block, mountinfo, staging::Staging, systemd, tree, xfs},
    node::authority::Authority,
    observe,
    plan::step::MountData,
    terms::AbsPath,
};
use anyhow::{Context as _, bail, ensure};
use std::time::{Duration, Instant};

/// systemd waits for the device (90 s), then for mount(8), which may have to replay a large log.
const MOUNT_LIMIT: Duration = Duration::from_secs(300);

/// The unit's own limit, 90 s, applies three times: to umount(8), after SIGTERM, after SIGKILL (systemd.mount(5)).
const UNMOUNT_LIMIT: Duration = Duration::from_secs(300);
/// The time for processes that are ending and still have the filesystem mounted in their mount namespace.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);

pub fn mount(run: &mut Run<'_>, step: &MountData) -> anyhow::Result<String> {
    // A mount of the same filesystem finds in the page cache what this run has written.
    if !run.staging.as_ref().is_some_and(Staging::can_be_shared) {
        run.drop_staging();
    }
    // Whoever opened the directory since this run has retired its data has nothing there that etcd could run on.
    if !run.retired {
        guard::no_users_beneath(run, &step.at)?;
    }
    ensure!(place::is_fenced(run.host, &step.at)?, "{} is not fenced: nothing is mounted over it", step.at);
    let lun = match &run.staging {
        Some(staging) => guard::staged_lun(run, staging, &step.wwid)?,
        None => guard::lun_of_ours(run, &step.wwid, &step.uuid)?,
    };
    let leads_to = observe::label_leads_to(run.host, &step.label)?;
    ensure!(
        leads_to.as_deref() == Some(lun.device.as_str()),
        "/dev/disk/by-label/{} leads to {}, the LUN is {}",
        step.label,
        leads_to.as_deref().unwrap_or("nothing"),
        lun.device
    );
    systemd::start(run.host, &step.unit, MOUNT_LIMIT)?;
    verify(run, step, &lun.devno)?;
    if let Some(staging) = run.staging.take() {
        staging.leave().context("unmounting the LUN for this program")?;
    }
    Ok(format!("{} is mounted on {}", lun.device, step.at))
}

/// Unmounts the LUN after its data is proven to be on the local disk, there and in every other mount namespace, and waits
/// until no process has it mounted or open. Whoever starts etcd after that finds the fence.
pub fn unmount(run: &Run<'_>, unit: &str, at: &AbsPath) -> anyhow::Result<String> {
    ensure!(run.proof.is_some(), "the copy was not proven in this run: the LUN stays mounted");
    ensure!(place::is_fenced(run.host, at)?, "{at} is not fenced beneath the LUN, which stays mounted");
    let lun = guard::data_is_on_lun(run, at)?;
    guard::etcd_is_at_rest(run, at)?;
    let mount = place::mounted_on(run.host, at)?.with_context(|| format!("{at} is not mounted any more"))?;
    let device = mount.device;
    systemd::stop(run.host, unit, UNMOUNT_LIMIT)?;
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
    let record = record::read(run.host)?;
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
    systemd::stop(run.host, unit, UNMOUNT_LIMIT)?;
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

/// Checks what PID 1 mounted: it must be the LUN, with the options of the config, and its stamp must match the record.
fn verify(run: &Run<'_>, step: &MountData, devno: &str) -> anyhow::Result<()> {
    let mounts = mountinfo::of_pid1(run.host)?;
    let here: Vec<_> = mounts.iter().filter(|mount| mount.mount_point == step.at.as_str()).collect();
    let [mount] = here.as_slice() else {
        bail!("after the start of {} there are {} mounts on {}", step.unit, here.len(), step.at);
    };
    let found = format!("{}:{}", mount.device.0, mount.device.1);
    ensure!(
        found == devno,
        "{} has mounted device {found}, not {devno}; stop it and see `systemctl cat {0}`",
        step.unit
    );
    ensure!(mount.fs_type == "xfs", "{} has mounted {}, not xfs", step.unit, mount.fs_type);
    let options: Vec<_> = mount.options.iter().chain(&mount.super_options).collect();
    ensure!(!options.iter().any(|option| *option == "ro"), "{} has mounted read-only", step.unit);
    for option in step.options.iter().filter(|option| *option != "_netdev") {
        ensure!(options.contains(&option), "{} has mounted without {option}", step.unit);
    }
    let root = tree::open(&run.host.root.locate(step.at.as_path()))?;
    let stamp = place::stamp_of(&root)?;
    let record = record::read(run.host)?;
    guard::same_moment(run, &record, &stamp)
}

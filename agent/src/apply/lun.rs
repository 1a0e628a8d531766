//! Steps on the LUN: attach or await, clear, format, stage, stamp, count.

use super::{confine, copy::not_staged, guard, local, run::Run};
use crate::{
    config::Device,
    host::{
        Host, block, inode, iscsi,
        staging::{Access, Staging},
        udev::Monitor,
        xfs,
    },
    node::{
        authority::{Record, Stamp},
        layout::{RECORD, STAGING},
    },
    observe,
    terms::{AbsPath, DiskLink, FsLabel, FsUuid, Iqn, LunNumber, Span, Wwid},
};
use anyhow::{Context as _, anyhow, bail};
use std::time::{Duration, Instant};

/// mkfs.xfs zeroes its log and discards the device: minutes on a slow thin LUN.
const FORMAT_LIMIT: Duration = Duration::from_secs(900);
/// After a scan, for udev to have finished with the new disk. udev's own limit for an event is
/// 180 s (systemd-udevd.service(8)).
const UDEV_LIMIT: Duration = Duration::from_secs(180);

/// Scans for the LUN on every session to the target, and waits until udev has finished with it.
pub(super) fn attach(host: &Host, target: &Iqn, lun: LunNumber, limit: Span) -> anyhow::Result<String> {
    let monitor = Monitor::open(host).context("listening to udev")?;
    let known = scan(host, target, lun, limit)?;
    let limit = UDEV_LIMIT.min(limit.0.max(Duration::from_secs(10)));
    let settled = monitor.wait_until(host, Instant::now() + limit, || {
        let mut disks = Vec::new();
        for session in &known {
            match observe::disk_of(host, session, lun)? {
                Some(name) if observe::is_settled(host, &name)? => disks.push(name),
                _ => return Ok(None),
            }
        }
        Ok(Some(disks))
    })?;
    match settled {
        Some(disks) => Ok(format!("LUN {lun} is {}", disks.join(", "))),
        None => bail!(
            "LUN {lun} is there, and udev has not finished with its disk within {} s; see `lsscsi` and `journalctl -u systemd-udevd`",
            limit.as_secs()
        ),
    }
}

/// The sessions on which the kernel knows the LUN after a scan. A session may lose its connection meanwhile, which says
/// nothing of the LUN; iscsid brings it back, and it is asked again.
fn scan(host: &Host, target: &Iqn, lun: LunNumber, limit: Span) -> anyhow::Result<Vec<iscsi::Session>> {
    let deadline = Instant::now() + limit.0;
    loop {
        let sessions = iscsi::sessions_to(host, target)?;
        let mut known = Vec::new();
        for session in sessions.iter().filter(|session| session.is_logged_in()) {
            iscsi::scan(host, session, lun)
                .with_context(|| format!("scanning for LUN {lun} on session {}", session.sid))?;
            // A scan ends after the target has answered: what isn't known now won't come by waiting.
            if let Some(target_id) = session.target_id
                && block::is_known(host, session.host_no, target_id, lun)?
            {
                known.push(session.clone());
            }
        }
        if !known.is_empty() {
            return Ok(known);
        }
        let has_answered = |session: &iscsi::Session| session.is_logged_in();
        if sessions.iter().chain(&iscsi::sessions_to(host, target)?).all(has_answered) {
            bail!(
                "{target} shows this initiator no LUN {lun}: map it to {} at the target, or correct `node.lun`",
                initiator(&sessions)
            );
        }
        if Instant::now() >= deadline {
            bail!(
                "the connection was lost before {target} was asked for LUN {lun}, and has not come back within {limit} \
                 (`boot.attach_timeout`)"
            );
        }
        host.pause(Duration::from_millis(200)).context("waiting for the session")?;
    }
}

/// Waits until the device's link leads to a disk that udev has finished with.
pub(super) fn await_disk(run: &Run<'_>, path: &DiskLink, limit: Span) -> anyhow::Result<String> {
    let monitor = Monitor::open(run.host).context("listening to udev")?;
    let device = Device { path: path.clone() };
    let settled = monitor.wait_until(run.host, Instant::now() + limit.0, || {
        let disks = observe::disks_of_device(run.host, &device)?;
        for disk in &disks {
            if !observe::is_settled(run.host, disk)? {
                return Ok(None);
            }
        }
        Ok((!disks.is_empty()).then_some(disks))
    })?;
    match settled {
        Some(disks) => Ok(format!("{path} is {}", disks.join(", "))),
        None if observe::disks_of_device(run.host, &device)?.is_empty() => bail!(
            "{path} is not there, and has not come within {limit} (`boot.attach_timeout`): attach the disk to this machine, or correct `device.path` \
             (see `ls -l {}`)",
            path.path().parent()
        ),
        None => bail!(
            "{path} is there, and udev has not finished with its disk within {limit}; see `multipath -ll` and `journalctl -u systemd-udevd`"
        ),
    }
}

fn initiator(sessions: &[iscsi::Session]) -> String {
    sessions.iter().find_map(|session| session.initiator.clone()).unwrap_or_else(|| "this initiator".into())
}

pub(super) fn clear_unfinished(run: &Run<'_>, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<String> {
    guard::not_the_truth(run)?;
    let lun = guard::lun(run, wwid)?;
    block::clear_unfinished(run.host, &lun.device, uuid)?;
    Ok(format!("{} is clear of {uuid}", lun.device))
}

pub(super) fn format(run: &Run<'_>, wwid: &Wwid, uuid: &FsUuid, label: &FsLabel) -> anyhow::Result<String> {
    guard::not_the_truth(run)?;
    let lun = guard::blank_lun(run, wwid)?;
    let monitor = Monitor::open(run.host).context("listening to udev")?;
    xfs::make_filesystem(run.host, &block::node(&lun.device)?, uuid, label, FORMAT_LIMIT)?;
    // The label's link comes from udev's next look. It looks when whoever wrote closes the device, but for that it watches
    // the device only between two looks: where multipath has just brought a path, the close falls into one.
    block::announce_change(run.host, &lun.device)
        .with_context(|| format!("announcing the new filesystem on {}", lun.device))?;
    let label_seen = || observe::carries_label(run.host, &lun.device, label).map(|seen| seen.then_some(()));
    if monitor.wait_until(run.host, Instant::now() + UDEV_LIMIT, label_seen)?.is_none() {
        bail!("udev has not seen the label {label} on {} in time", lun.device);
    }
    Ok(format!("{} is XFS {uuid}", lun.device))
}

/// Mounts the LUN for this process only.
pub(super) fn stage(run: &mut Run<'_>, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<String> {
    run.drop_staging();
    let lun = guard::lun_of_ours(run, wwid, uuid)?;
    mount(run, &lun.device, Access::ReadWrite)?;
    if let Some(staging) = &run.staging {
        confine::label_root(run.host, &staging.root()?, &run.config.etcd.data_dir)?;
    }
    Ok(format!("{} is mounted for this program", lun.device))
}

/// Mounts the staged LUN again after an unmount, all of its identity checked anew.
pub(super) fn remount(run: &mut Run<'_>, access: Access) -> anyhow::Result<()> {
    let record = observe::record(run.host)
        .require()
        .cloned()
        .map_err(|why| anyhow!("the record can't be read: {why}"))?;
    let record = record.ok_or_else(|| anyhow!("the record is gone"))?;
    let lun = guard::lun_of_ours(run, &record.wwid, &record.uuid)?;
    mount(run, &lun.device, access)
}

fn mount(run: &mut Run<'_>, device: &str, access: Access) -> anyhow::Result<()> {
    let at: AbsPath = STAGING.parse()?;
    run.staging = Some(Staging::mount(run.host, block::node(device)?.as_path(), &at, access)?);
    Ok(())
}

pub(super) fn unstamp(run: &Run<'_>) -> anyhow::Result<String> {
    guard::not_the_truth(run)?;
    let staging = run.staging.as_ref().ok_or_else(not_staged)?;
    inode::remove_attribute(staging.root()?, Stamp::ATTRIBUTE)?;
    staging.sync().context("syncing the LUN")?;
    Ok("the LUN has no stamp".into())
}

/// Stamps the LUN, syncs it and lets it go: what follows concerns only the record.
pub(super) fn stamp(run: &mut Run<'_>, stamp: &Stamp) -> anyhow::Result<String> {
    if run.proof.is_none() {
        bail!("the copy was not proven in this run: it is not stamped");
    }
    guard::not_the_truth(run)?;
    write_stamp(run, stamp)?;
    Ok(format!("stamped with generation {}", stamp.generation))
}

fn write_stamp(run: &mut Run<'_>, stamp: &Stamp) -> anyhow::Result<()> {
    let staging = run.staging.take().ok_or_else(not_staged)?;
    inode::set_attribute(staging.root()?, Stamp::ATTRIBUTE, stamp.to_text()?.as_bytes())?;
    staging.sync().context("syncing the LUN")?;
    staging.unmount().context("unmounting the LUN")?;
    Ok(())
}

/// First the stamp, then the record: cut short between them, the LUN is one ahead, never behind.
pub(super) fn activate(run: &mut Run<'_>, stamp: &Stamp, record: &Record) -> anyhow::Result<String> {
    write_stamp(run, stamp)?;
    local::write_record(run.host, record)?;
    Ok(format!("use {} is counted on the LUN and in {}", stamp.activations, RECORD))
}

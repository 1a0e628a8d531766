//! Waiting for the LUN: at a target, or a local or cloud disk.

use crate::{
    apply::context::Run,
    config::Device,
    host::{Host, block, iscsi, udev::Monitor},
    observe,
    plan::step::AttachLun,
    terms::{DiskLink, Span},
};
use anyhow::{Context as _, bail};
use std::time::{Duration, Instant};

/// The time for udev to process the new disk after a scan. udev's own limit for an event is 180 s
/// (systemd-udevd.service(8)).
const UDEV_LIMIT: Duration = Duration::from_secs(180);

/// Scans for the LUN on every session to the target, and waits until udev has processed its disks.
pub fn attach(host: &Host, step: &AttachLun) -> anyhow::Result<String> {
    let AttachLun { lun, limit, .. } = step;
    let monitor = Monitor::open(host).context("listening to udev")?;
    let known = scan(host, step)?;
    let limit = UDEV_LIMIT.min(limit.0.max(Duration::from_secs(10)));
    let settled = monitor.wait_until(host, Instant::now() + limit, || {
        let mut disks = Vec::new();
        for session in &known {
            match observe::disk_of(host, session, *lun)? {
                Some(name) if observe::is_settled(host, &name)? => disks.push(name),
                _ => return Ok(None),
            }
        }
        Ok(Some(disks))
    })?;
    match settled {
        Some(disks) => Ok(format!("LUN {lun} is {}", disks.join(", "))),
        None => bail!(
            "LUN {lun} is attached, but udev has not processed its disk within {} s; see `lsscsi` and `journalctl -u systemd-udevd`",
            limit.as_secs()
        ),
    }
}

/// The sessions on which the kernel knows the LUN after a scan. A session that loses its connection during the scan
/// gives no answer. Then iscsid reconnects it, and the scan is repeated.
fn scan(host: &Host, step: &AttachLun) -> anyhow::Result<Vec<iscsi::Session>> {
    let AttachLun { target, lun, limit } = step;
    let deadline = Instant::now() + limit.0;
    loop {
        let sessions = iscsi::sessions_to(host, target)?;
        let mut known = Vec::new();
        for session in sessions.iter().filter(|session| session.is_logged_in()) {
            iscsi::scan(host, session, *lun)
                .with_context(|| format!("scanning for LUN {lun} on session {}", session.sid))?;
            // A scan ends after the target has answered, so waiting would not bring a LUN that isn't known now.
            if let Some(target_id) = session.target_id
                && block::is_known(host, session.host_no, target_id, *lun)?
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

fn initiator(sessions: &[iscsi::Session]) -> String {
    sessions.iter().find_map(|session| session.initiator.clone()).unwrap_or_else(|| "this initiator".into())
}

/// Waits until the link of the config leads to a disk that udev has processed.
pub fn await_disk(run: &Run<'_>, path: &DiskLink, limit: Span) -> anyhow::Result<String> {
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
            "{path} is attached, but udev has not processed its disk within {limit}; see `multipath -ll` and `journalctl -u systemd-udevd`"
        ),
    }
}

//! Waiting for the LUN: at a target, or a local or cloud disk.

use crate::{
    apply::{
        context::Run,
        sysfs,
        watcher::{Waiting, Watcher},
    },
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
/// The time for multipathd to make a map of several paths. It has the paths by udev's events, like us, so its map may come
/// after the paths are settled. Without the wait we would look at the LUN while the map appears.
const MAP_LIMIT: Duration = Duration::from_secs(15);

/// Scans for the LUN on every session to the target until the target shows it, and waits until udev has processed its
/// disks.
pub fn attach(host: &Host, step: &AttachLun, watcher: &mut dyn Watcher) -> anyhow::Result<String> {
    let AttachLun { lun, limit, .. } = step;
    let monitor = Monitor::open(host).context("listening to udev")?;
    let known = scan(host, step, watcher)?;
    let limit = UDEV_LIMIT.min(limit.0.max(Duration::from_secs(10)));
    let settled_disks = || {
        let mut disks = Vec::new();
        for session in &known {
            match observe::disk_of(host, session, *lun)? {
                Some(name) if observe::is_settled(host, &name)? => disks.push(name),
                _ => return Ok(None),
            }
        }
        Ok(Some(disks))
    };
    if known.len() > 1 {
        // Without a map the plan refuses several paths, and says so better.
        let mapped = || {
            let disks = settled_disks()?.unwrap_or_default();
            let Some(disk) = disks.first() else { return Ok(None) };
            Ok(observe::has_map(host, disk)?.then_some(()))
        };
        monitor.wait_until(host, Instant::now() + limit.min(MAP_LIMIT), mapped)?;
    }
    let settled = monitor.wait_until(host, Instant::now() + limit, settled_disks)?;
    match settled {
        Some(disks) => Ok(format!("LUN {lun} is {}", disks.join(", "))),
        None => bail!(
            "LUN {lun} is attached, but udev has not processed its disk within {} s; see `lsscsi` and `journalctl -u systemd-udevd`",
            limit.as_secs()
        ),
    }
}

/// The pause before a target is asked again for a LUN that it has not shown.
const NEXT_SCAN: Duration = Duration::from_secs(2);
/// The pause before a session is looked at again that has lost its connection. The kernel announces no change of its
/// state.
const RECONNECT: Duration = Duration::from_millis(200);

/// The sessions on which the kernel knows the LUN after a scan: at least one, or all. A session that loses its connection
/// during the scan gives no answer. Then iscsid reconnects it, and the scan is repeated. It is also repeated if the target
/// shows no such LUN, because the LUN may be mapped a moment later.
fn scan(host: &Host, step: &AttachLun, watcher: &mut dyn Watcher) -> anyhow::Result<Vec<iscsi::Session>> {
    let AttachLun { target, initiator, lun, everywhere, limit } = step;
    let deadline = Instant::now() + limit.0;
    let mut waiting = Waiting::default();
    loop {
        let sessions = iscsi::sessions_of(host, target, initiator)?;
        let (mut known, mut lacks) = (Vec::new(), None);
        for session in sessions.iter().filter(|session| session.is_logged_in()) {
            sysfs::scan(host, session, *lun)
                .with_context(|| format!("scanning for LUN {lun} on session {}", session.sid))?;
            // A scan ends after the target has answered.
            if let Some(target_id) = session.target_id
                && block::is_known(host, session.host_no, target_id, *lun)?
            {
                known.push(session.clone());
            } else {
                lacks = session.portal.as_ref();
            }
        }
        if !known.is_empty() && (lacks.is_none() || !everywhere) {
            return Ok(known);
        }
        let has_answered = |session: &iscsi::Session| session.is_logged_in();
        let answered = sessions.iter().chain(&iscsi::sessions_of(host, target, initiator)?).all(has_answered);
        let left = deadline.saturating_duration_since(Instant::now());
        let (why, pause) = if answered {
            let at = lacks.map_or("any portal".into(), ToString::to_string);
            if left.is_zero() {
                bail!(
                    "{target} shows this initiator no LUN {lun} at {at}, for {limit} (`boot.attach_timeout`): map it to {initiator} \
                     there, or correct `node.lun` or `target.portals`"
                );
            }
            (format!("{target} shows this initiator no LUN {lun} at {at}, map it to {initiator}"), NEXT_SCAN)
        } else {
            if left.is_zero() {
                bail!(
                    "the connection was lost before {target} was asked for LUN {lun}, and has not come back within {limit} \
                     (`boot.attach_timeout`)"
                );
            }
            (format!("the connection was lost before {target} was asked for LUN {lun}"), RECONNECT)
        };
        waiting.note(watcher, &why, left);
        host.pause(pause.min(left)).context("waiting for the LUN")?;
    }
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

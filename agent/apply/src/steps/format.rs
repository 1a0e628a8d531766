//! Making the filesystem on a blank LUN, and clearing one that an interrupted mkfs left.

use crate::{
    context::Run,
    guard,
    machine::{Effect, Machine},
};
use anyhow::Context as _;
use hands::Request;
use host::udev::Monitor;
use plan::step::Format;
use std::time::{Duration, Instant};
use terms::{FsUuid, Wwid, fail};

/// The time for udev to see the new filesystem's label. udev's own limit for an event is 180 s
/// (systemd-udevd.service(8)).
const LABEL_LIMIT: Duration = Duration::from_secs(180);

/// Clears what an interrupted mkfs has left of this filesystem. Only a record that says local may name it.
pub fn clear_unfinished(machine: &mut dyn Machine, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<String> {
    guard::local_is_authoritative(machine)?;
    machine.perform(&Effect::ClearUnfinished { wwid: wwid.clone(), uuid: *uuid })
}

/// Makes the filesystem that the record names.
pub fn format(machine: &mut dyn Machine, step: &Format) -> anyhow::Result<String> {
    guard::local_is_authoritative(machine)?;
    machine.perform(&Effect::Format { format: step.clone() })
}

/// [`Effect::ClearUnfinished`] on the node.
pub fn clear_unfinished_on_node(run: &Run<'_>, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<String> {
    let lun = guard::lun(run, wwid)?;
    run.door.perform(&Request::ClearUnfinished { disk: lun.device.clone(), uuid: *uuid })?;
    Ok(format!("{} no longer holds the unfinished filesystem {uuid}", lun.device))
}

/// [`Effect::Format`] on the node.
pub fn format_on_node(run: &Run<'_>, step: &Format) -> anyhow::Result<String> {
    let Format { wwid, uuid, label } = step;
    let lun = guard::blank_lun(run, wwid)?;
    let monitor = Monitor::open(run.host).context("listening to udev")?;
    let disk = lun.device.clone();
    run.door.perform(&Request::Format { disk: disk.clone(), uuid: *uuid, label: label.clone() })?;
    // udev makes the label's link when it processes the device again. Usually the end of mkfs triggers that, because
    // udev watches for a close after writing. It doesn't watch while it processes an event, such as that of a path that
    // multipath has just added: then the close is missed.
    run.door
        .perform(&Request::Announce { disk })
        .with_context(|| format!("announcing the new filesystem on {}", lun.device))?;
    let label_seen = || locate::carries_label(run.host, &lun.device, label).map(|seen| seen.then_some(()));
    if monitor.wait_until(run.host, Instant::now() + LABEL_LIMIT, label_seen)?.is_none() {
        fail!(DiskNotProcessed, "udev has not seen the label {label} on {} in time", lun.device);
    }
    Ok(format!("{} is XFS {uuid}", lun.device))
}

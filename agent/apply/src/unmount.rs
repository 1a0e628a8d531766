//! Asking PID 1 to unmount the data directory, and waiting until nobody else has the filesystem or its device.
//!
//! A pod has a mount of the LUN in its own mount namespace that was started while the LUN was mounted and sees the node's `/`
//! without propagation, as a debug pod and many agents do. An unmount on the node does not reach it, and the next pod of a
//! DaemonSet has it again. So it is unmounted there, where no process uses it.

use super::{anew, exposure};
use anyhow::{Context as _, ensure};
use hands::{Door, Requester, looks::mounted_on};
use host::{
    Host, block,
    mountinfo::{self, Everywhere, Holder, Mount},
};
use std::time::{Duration, Instant};
use terms::{AbsPath, fail};

/// The time for processes that are ending and still have the filesystem mounted in their mount namespace.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);

/// Unmounts it here and in every other mount namespace, and waits until nobody has the device mounted or open.
pub fn until_device_is_free(door: &Door<'_>, unit: &str, at: &AbsPath) -> anyhow::Result<()> {
    let (host, mount) = (door.host, unmounted(door, unit, at)?);
    let device = block::led_to(host, &mount.source)?
        .with_context(|| format!("{at} is unmounted, and {} has gone", mount.source))?;
    let deadline = Instant::now() + RELEASE_LIMIT;
    while !block::nobody_holds(host, &device)? {
        let left = unmount_elsewhere(host, mount.device)?;
        if Instant::now() >= deadline {
            match left.first() {
                Some(left) => fail!(
                    MountHeld,
                    "{at} is unmounted, and {device} is still mounted in the mount namespace of {left}: end that process, then run this again"
                ),
                None => fail!(
                    MountHeld,
                    "{at} is unmounted, and somebody still has {device} mounted or open: see `lsns -t mnt`"
                ),
            }
        }
        host.pause(Duration::from_millis(200))?;
    }
    Ok(())
}

/// Unmounts it here and in every other mount namespace, and waits until the filesystem is mounted nowhere else. While it is,
/// mounting it again would attach the same instance.
pub fn until_filesystem_is_gone(door: &Door<'_>, unit: &str, at: &AbsPath) -> anyhow::Result<()> {
    if door.requester == Requester::Service {
        anew::begin(door.host)?;
    }
    let (host, mount) = (door.host, unmounted(door, unit, at)?);
    let deadline = Instant::now() + RELEASE_LIMIT;
    loop {
        // The service cannot join a namespace. It waits until whoever has one ends.
        if door.requester == Requester::Person {
            unmount_elsewhere(host, mount.device)?;
        }
        let left = Everywhere::new(host).holders(mount.device.0, mount.device.1)?;
        match left.first() {
            None => return Ok(()),
            Some(holder) if Instant::now() >= deadline => fail!(
                MountHeld,
                "{at} is unmounted, and {} (pid {}) still has its filesystem mounted at {}: end it, then apply again",
                holder.comm,
                holder.pid,
                holder.mount_point
            ),
            Some(_) => host.pause(Duration::from_millis(200))?,
        }
    }
}

/// The mount that was there until now.
fn unmounted(door: &Door<'_>, unit: &str, at: &AbsPath) -> anyhow::Result<Mount> {
    let mount = mounted_on(door.host, at)?.with_context(|| format!("{at} is not mounted any more"))?;
    exposure::unmount(door, unit)?;
    let left = mounted_on(door.host, at)?;
    ensure!(left.is_none(), "{} is mounted on {at} now", mount.source);
    Ok(mount)
}

/// Unmounts a filesystem in the mount namespaces that keep it after PID 1 has unmounted it: not in PID 1's own, where a
/// person may have mounted it a second time, and not in this process's. The kernel refuses that where a process uses it (`EBUSY`). Returns what is left: which process, where, and why.
///
/// The data was proven to be on the local disk, so nobody needs the LUN. The caller has checked that nobody has anything
/// open on it.
fn unmount_elsewhere(host: &Host, device: (u32, u32)) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for holder in mountinfo::private_holders(host, device)? {
        if let Err(why) = unmount_at(host, &holder, device) {
            left.push(format!("{} (pid {}): {why}", holder.comm, holder.pid));
        }
    }
    Ok(left)
}

/// Unmounts a filesystem in the mount namespace of one process, unless some process uses it there (`EBUSY`). Says where, for a
/// person; the journal has it too.
pub fn unmount_at(host: &Host, holder: &Holder, device: (u32, u32)) -> std::io::Result<Vec<String>> {
    let mut said = Vec::new();
    for place in mountinfo::unmount_in_namespace_of(host, holder.pid, device)? {
        let line = format!(
            "unmounted the LUN at {place} in the mount namespace of {} (pid {})",
            holder.comm, holder.pid
        );
        tracing::info!("{line}");
        said.push(line);
    }
    Ok(said)
}

//! Asking PID 1 to unmount the data directory, and waiting until nobody else has the filesystem or its device.

use super::{exposure, place, views};
use anyhow::{Context as _, bail, ensure};
use host::{
    Host, block,
    mountinfo::{self, Mount},
};
use std::time::{Duration, Instant};
use terms::AbsPath;

/// The time for processes that are ending and still have the filesystem mounted in their mount namespace.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);

/// Unmounts it here and in every other mount namespace, and waits until nobody has the device mounted or open.
pub fn until_device_is_free(host: &Host, unit: &str, at: &AbsPath) -> anyhow::Result<()> {
    let mount = unmounted(host, unit, at)?;
    let device = block::led_to(host, &mount.source)?
        .with_context(|| format!("{at} is unmounted, and {} has gone", mount.source))?;
    let deadline = Instant::now() + RELEASE_LIMIT;
    while !block::nobody_holds(host, &device)? {
        let left = views::unmount_elsewhere(host, mount.device)?;
        if Instant::now() >= deadline {
            match left.first() {
                Some(left) => bail!(
                    "{at} is unmounted, and {device} is still mounted in the mount namespace of {left}: end that process, then run this again"
                ),
                None => bail!(
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
pub fn until_filesystem_is_gone(host: &Host, unit: &str, at: &AbsPath) -> anyhow::Result<()> {
    let mount = unmounted(host, unit, at)?;
    let deadline = Instant::now() + RELEASE_LIMIT;
    loop {
        views::unmount_elsewhere(host, mount.device)?;
        let left = mountinfo::holders_in_any_namespace(host, mount.device.0, mount.device.1)?;
        match left.first() {
            None => return Ok(()),
            Some(holder) if Instant::now() >= deadline => bail!(
                "{at} is unmounted, and {} (pid {}) still has its filesystem mounted at {}: end it, then apply again",
                holder.comm,
                holder.pid,
                holder.mount_point
            ),
            Some(_) => host.pause(Duration::from_millis(200))?,
        }
    }
}

/// What was mounted there until now.
fn unmounted(host: &Host, unit: &str, at: &AbsPath) -> anyhow::Result<Mount> {
    let mount = place::mounted_on(host, at)?.with_context(|| format!("{at} is not mounted any more"))?;
    exposure::unmount(host, unit)?;
    let left = place::mounted_on(host, at)?;
    ensure!(left.is_none(), "{} is mounted on {at} now", mount.source);
    Ok(mount)
}

//! Asking PID 1 to mount the LUN on the data directory, so that nothing is there that was not verified.
//!
//! The mount unit mounts what the link [`VERIFIED`] leads to, and does nothing without it. Other units may require that unit,
//! as etcd's does with `WorkingDirectory=`, and may be started at any moment. So the link exists only while a run has the
//! verified filesystem mounted for itself, and asks PID 1 to mount the same device. XFS refuses a second filesystem of the same
//! UUID meanwhile. If anything fails, the mount goes before the run goes on.

use hands::{Door, Request, looks::mounted_on};
use host::{Host, mountinfo, staging, systemd};
use plan::step::MountData;
use std::time::Duration;
use terms::{AbsPath, fail, named, not_in_effect, require};
use unit::VERIFIED;

/// The unit's own limit, 90 s, applies three times: to umount(8), after SIGTERM, after SIGKILL (systemd.mount(5)).
const UNMOUNT_LIMIT: Duration = Duration::from_secs(300);

/// Asks PID 1 to mount the device on the data directory, then lets the caller verify the mount. `device` is its kernel name, such
/// as `sdb`. Nothing may be mounted there before. After an error nothing is mounted there, or the error says that something is.
pub fn expose(
    door: &Door<'_>,
    step: &MountData,
    device: &str,
    verify: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let started = door.perform(&Request::Expose { disk: device.into() });
    let Err(error) = started.and_then(|()| verify()) else { return Ok(()) };
    Err(rejected(error, take_back(door, step), &step.at))
}

/// Why a mount was not accepted, and whether it was taken back.
pub fn rejected(error: anyhow::Error, taken_back: anyhow::Result<()>, at: &AbsPath) -> anyhow::Error {
    match taken_back {
        Ok(()) => error.context(format!("the mount on {at} was not accepted, and was undone")),
        Err(second) => error.context(format!("{second:#}")),
    }
}

/// Removes the link, so that PID 1 mounts nothing by itself. Succeeds if there is none.
pub fn withdraw(door: &Door<'_>) -> anyhow::Result<()> {
    match door.host.root.read_link(VERIFIED)? {
        Some(_) => door.perform(&Request::Withdraw),
        None => Ok(()),
    }
}

/// Asks PID 1 to unmount the data directory. No start of the mount unit can come after it.
pub fn unmount(door: &Door<'_>, unit: &str) -> anyhow::Result<()> {
    withdraw(door)?;
    Ok(systemd::stop(door.host, unit, UNMOUNT_LIMIT)?)
}

/// A restart of the unit unmounts, and without the link mounts nothing. An etcd that requires the mount is stopped with it.
pub fn take_back(door: &Door<'_>, step: &MountData) -> anyhow::Result<()> {
    let host = door.host;
    // An interruption may be the reason to be here, and must not keep the mount.
    host.interrupt.ignore();
    let restarted = door.perform(&Request::TakeBack);
    let gone = restarted.and_then(|()| match mounted_on(host, &step.at)? {
        Some(mount) => fail!(MountNotAccepted, "{} is mounted on {}", mount.source, step.at),
        None => Ok(()),
    });
    gone.map_err(|error| {
        error.context(named!(
            MountNotAccepted,
            "{} may still be mounted, and was not verified: run `systemctl stop {}`",
            step.at,
            step.unit
        ))
    })
}

/// Checks what PID 1 has mounted: once, the verified device, as XFS, writable, with the options of the config. `devno` is the
/// device's number, such as `8:16`.
pub fn is_as_asked(host: &Host, step: &MountData, devno: &str) -> anyhow::Result<()> {
    let mounts = mountinfo::of_pid1(host)?;
    let here: Vec<_> = mounts.iter().filter(|mount| mount.mount_point == step.at.as_str()).collect();
    let [mount] = here.as_slice() else {
        fail!(
            MountNotAccepted,
            "after the start of {} there are {} mounts on {}: see `systemctl status {0}`",
            step.unit,
            here.len(),
            step.at
        );
    };
    let found = format!("{}:{}", mount.device.0, mount.device.1);
    require!(
        found == devno,
        MountNotAccepted,
        "{} has mounted device {found}, not {devno}: see `systemctl cat {0}`",
        step.unit
    );
    require!(
        mount.fs_type == "xfs",
        MountNotAccepted,
        "{} has mounted {}, not xfs: see `systemctl cat {0}`",
        step.unit,
        mount.fs_type
    );
    let options: Vec<_> = mount.options.iter().chain(&mount.super_options).cloned().collect();
    require!(
        !options.iter().any(|option| option == "ro"),
        MountNotAccepted,
        "{} has mounted read-only: see `systemctl cat {0}`",
        step.unit
    );
    let missing = not_in_effect(staging::options_here(host, &step.options)?, &options);
    require!(
        missing.is_empty(),
        MountNotAccepted,
        "{} has mounted without {}: see `systemctl cat {0}`",
        step.unit,
        missing.join(",")
    );
    Ok(())
}

#[cfg(test)]
mod tests;

//! Mounting the LUN on the data directory for all, so that nothing is there that was not verified.
//!
//! The run has the verified filesystem mounted for itself meanwhile. So it stays in memory, and what is mounted beside it is the same
//! one: XFS refuses a second filesystem of the same UUID. If anything fails, the mount goes before the run goes on.

use hands::{
    Door, Explained, Request, Requester,
    looks::{mounted_on, nothing_on},
    name_of,
};
use host::{Host, kmsg::Mark, mountinfo, staging, systemd};
use plan::step::MountData;
use std::time::Duration;
use terms::{AbsPath, ErrorName, fail, named, not_in_effect, require};

/// systemd's limit for a unit, 90 s, applies three times: to umount(8), after SIGTERM, after SIGKILL (systemd.mount(5)).
const UNMOUNT_LIMIT: Duration = Duration::from_secs(300);

/// Mounts the device on the data directory, then lets the caller verify the mount. `device` is its kernel name, such as `sdb`.
/// Nothing may be mounted there before. After an error nothing is mounted there, or the error says that something is.
pub fn expose(
    door: &Door<'_>,
    step: &MountData,
    device: &str,
    verify: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let log = Mark::now(door.host);
    let mounted = door.perform(&Request::Expose { disk: device.into() }).map_err(|error| {
        if name_of(&error) != ErrorName::MountFailed {
            return error;
        }
        // XFS gives its reason in the kernel's log only.
        Explained::new(error, staging::reason(log, device)).into()
    });
    let Err(error) = mounted.and_then(|()| verify()) else { return Ok(()) };
    Err(rejected(error, take_back(door, step), &step.at))
}

/// Why a mount was not accepted, and whether it was taken back.
pub fn rejected(error: anyhow::Error, taken_back: anyhow::Result<()>, at: &AbsPath) -> anyhow::Error {
    match taken_back {
        Ok(()) => error.context(format!("the mount on {at} was not accepted, and was undone")),
        Err(second) => error.context(format!("{second:#}")),
    }
}

/// Asks PID 1 to unmount the data directory. systemd has made a unit of the mount. The service asks its hands.
pub fn unmount(door: &Door<'_>, unit: &str) -> anyhow::Result<()> {
    match door.requester {
        Requester::Person => Ok(systemd::stop(door.host, unit, UNMOUNT_LIMIT)?),
        Requester::Service => door.perform(&Request::TakeBack),
    }
}

/// Unmounts what was not accepted.
pub fn take_back(door: &Door<'_>, step: &MountData) -> anyhow::Result<()> {
    let host = door.host;
    // An interruption may be the reason to be here, and must not keep the mount.
    host.interrupt.ignore();
    let there = || anyhow::Ok(mounted_on(host, &step.at)?.map(|mount| mount.source));
    let gone = || {
        if there()?.is_some() {
            door.perform(&Request::TakeBack)?;
        }
        nothing_on(&step.at, there()?.as_deref())
    };
    gone().map_err(|error| {
        error.context(named!(
            MountNotAccepted,
            "{0} may still be mounted, and was not verified: run `umount {0}`",
            step.at
        ))
    })
}

/// Checks what is mounted: once, the verified device, as XFS, writable, with the options of the config. `devno` is the device's
/// number, such as `8:16`.
pub fn is_as_asked(host: &Host, step: &MountData, devno: &str) -> anyhow::Result<()> {
    let (mounts, at) = (mountinfo::of_pid1(host)?, &step.at);
    let here: Vec<_> = mounts.iter().filter(|mount| mount.mount_point == at.as_str()).collect();
    let [mount] = here.as_slice() else {
        fail!(MountNotAccepted, "there are {} mounts on {at}: see `findmnt {at}`", here.len());
    };
    let found = format!("{}:{}", mount.device.0, mount.device.1);
    require!(found == devno, MountNotAccepted, "device {found} is mounted on {at}, not {devno}");
    require!(mount.fs_type == "xfs", MountNotAccepted, "{} is mounted on {at}, not xfs", mount.fs_type);
    let options: Vec<_> = mount.options.iter().chain(&mount.super_options).cloned().collect();
    require!(
        !options.iter().any(|option| option == "ro"),
        MountNotAccepted,
        "{at} is mounted read-only: see the kernel's messages about the device, `journalctl -k`"
    );
    let missing = not_in_effect(staging::options_here(host, &step.options)?, &options);
    require!(missing.is_empty(), MountNotAccepted, "{at} is mounted without {}", missing.join(","));
    Ok(())
}

#[cfg(test)]
mod tests;

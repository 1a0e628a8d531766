//! Mounting the LUN for this process only.

use crate::{context::Run, guard, machine};
use anyhow::Context as _;
use hands::Requester;
use node::layout::{STAGING, STAGING_BY_HAND};
use terms::{FsUuid, Wwid};

/// Mounts the LUN for this process only. The filesystem is the one that the plan names: `claim` stages one that no record names.
pub fn stage(run: &mut Run<'_>, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<()> {
    run.drop_staging();
    let lun = guard::lun_holds(run, wwid, uuid)?;
    mount(run, &lun.device)
}

/// Writes everything to the staged LUN, unmounts it, and mounts it again after all checks of its identity. Names and
/// metadata then come from the device.
pub fn remount(run: &mut Run<'_>) -> anyhow::Result<()> {
    let staging = run.take_staging()?;
    staging.sync().context("syncing the LUN")?;
    staging.unmount().context("unmounting the LUN, to read it from the device")?;
    stage_again(run)
}

/// Mounts the LUN of the record after all checks of its identity, and keeps what this run knows of the copy.
pub fn stage_again(run: &mut Run<'_>) -> anyhow::Result<()> {
    let record = machine::record(run)?;
    let lun = guard::lun_of_ours(run, &record.wwid, &record.uuid)?;
    guard::may_be_mounted(run, &record, &lun)?;
    mount(run, &lun.device)
}

fn mount(run: &mut Run<'_>, device: &str) -> anyhow::Result<()> {
    let at = match run.door.requester {
        Requester::Service => STAGING,
        Requester::Person => STAGING_BY_HAND,
    };
    run.staging = Some(run.door.stage(device, &at.parse()?, &run.config.lun.staging_options())?);
    Ok(())
}

//! Mounting the LUN for this process only.

use crate::{
    apply::{context::Run, guard, record, selinux},
    host::{
        block,
        staging::{Access, Staging},
    },
    node::layout::STAGING,
    terms::{AbsPath, FsUuid, Wwid},
};

/// Mounts the LUN for this process only.
pub fn stage(run: &mut Run<'_>, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<String> {
    run.drop_staging();
    let lun = guard::lun_of_ours(run, wwid, uuid)?;
    mount(run, &lun.device, Access::ReadWrite)?;
    selinux::label_root(run.host, &run.staging()?.root()?, &run.config.etcd.data_dir)?;
    Ok(format!("{} is mounted for this program", lun.device))
}

/// Mounts the staged LUN again after an unmount, after all checks of its identity.
pub fn remount(run: &mut Run<'_>, access: Access) -> anyhow::Result<()> {
    let record = record::read(run.host)?;
    let lun = guard::lun_of_ours(run, &record.wwid, &record.uuid)?;
    mount(run, &lun.device, access)
}

fn mount(run: &mut Run<'_>, device: &str, access: Access) -> anyhow::Result<()> {
    let at: AbsPath = STAGING.parse()?;
    run.staging = Some(Staging::mount(run.host, block::node(device)?.as_path(), &at, access)?);
    Ok(())
}

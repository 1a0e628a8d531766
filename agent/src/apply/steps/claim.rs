//! Taking a LUN that is newer than the record, or that names an earlier machine id.

use super::stamp;
use crate::{
    apply::{
        context::Run,
        guard,
        machine::{self, Effect, Machine, Place},
        place,
    },
    host::{block, dir, inode, staging, tree},
    node::{
        authority::Stamp,
        layout::{BARRED, BARRED_DATA, BARRED_MARK, RETIRED, RETIRED_MARK},
    },
    plan::step::{Claim, WatchLun},
    terms::AbsPath,
};
use anyhow::{Context as _, bail, ensure};

/// Looks at the LUN twice. Each look is a mount of its own that writes nothing, so it comes from the device.
pub fn watch(run: &mut Run<'_>, step: &WatchLun) -> anyhow::Result<String> {
    let look = |run: &Run<'_>| -> anyhow::Result<Option<Stamp>> {
        let lun = guard::lun_holds(run, &step.wwid, &step.uuid)?;
        let root = staging::inspect(run.host, block::node(&lun.device)?.as_path())
            .context("looking at the LUN without writing to it")?;
        place::stamp_if_any(&root)
    };
    ensure!(look(run)? == step.stamp, "the LUN's stamp has changed since it was read: somebody uses the LUN");
    if let Some(why) = &step.not_asked {
        run.watcher.noted(&format!(
            "the other members do not say whether this node's member serves on another computer ({why}): see that it does not"
        ));
    }
    run.watcher.noted(&format!("waiting {} to see whether another computer uses the LUN", step.span));
    run.host.pause(step.span.0)?;
    let Some(found) = look(run)? else {
        ensure!(step.stamp.is_none(), "the LUN has no stamp any more: somebody uses the LUN");
        return Ok("nobody has used the LUN meanwhile".into());
    };
    ensure!(
        step.stamp.as_ref() == Some(&found),
        "another computer uses the LUN: its use counter has moved to {} meanwhile. Stop etcd there first",
        found.activations
    );
    Ok("nobody has used the LUN meanwhile".into())
}

/// Makes this node the owner of the staged LUN. The local data, if a bar has put it aside, becomes retired data.
pub fn claim(machine: &mut dyn Machine, step: &Claim) -> anyhow::Result<String> {
    let Claim { from, stamp, record } = step;
    let at = &record.data_dir;
    ensure!(machine.is_fenced(at)?, "{at} is not fenced: the LUN is not taken");
    let now = machine::stamp(machine, Place::Staging)?;
    ensure!(now == *from, "the LUN's stamp has changed since it was read: the LUN is not taken");
    machine.perform(&Effect::RetireBarred { generation: record.generation })?;
    let next = stamp::next_use(stamp)?;
    let done = stamp::begin_use(machine, &record.clone().announcing(from, next), stamp, next)?;
    machine.perform(&Effect::Unstage)?;
    Ok(done)
}

/// Moves barred data to the retired data, so that it is listed there and deleted one day.
pub fn retire_barred(run: &Run<'_>, generation: u64) -> anyhow::Result<()> {
    let host = run.host;
    let barred: AbsPath = BARRED.parse()?;
    let retired: AbsPath = RETIRED.parse()?;
    if !host.root.list_opt(BARRED)?.unwrap_or_default().iter().any(|name| name == BARRED_DATA) {
        return Ok(());
    }
    host.root.make_dir_durably(retired.as_path(), 0o700).context("making the directory of retired data")?;
    let aside = tree::open(&host.root.locate(barred.as_path()))?;
    let shelf = tree::open(&host.root.locate(retired.as_path()))?;
    let name = generation.to_string();
    let data = dir::open(&aside, BARRED_DATA)?;
    if dir::names(&shelf)?.contains(&name) {
        bail!("{RETIRED}/{name} exists already: move it away, then run this again");
    }
    inode::set_attribute(&data, RETIRED_MARK, name.as_bytes())?;
    inode::remove_attribute(&data, BARRED_MARK)?;
    dir::rename(&aside, BARRED_DATA, &shelf, &name)
        .with_context(|| format!("moving {BARRED}/{BARRED_DATA} to {RETIRED}/{name}"))?;
    Ok(())
}

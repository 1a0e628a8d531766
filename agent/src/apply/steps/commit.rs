//! The record of an attempt, and both commit points.

use super::{prove, stage};
use crate::{
    apply::{context::Run, guard, place, record},
    host::tree,
    node::authority::Record,
};
use anyhow::{Context as _, ensure};

/// Writes the record that announces an attempt.
pub fn begin(run: &Run<'_>, record: &Record) -> anyhow::Result<String> {
    record::write(run.host, record)
}

/// The commit point of a migration.
pub fn commit(run: &Run<'_>, record: &Record) -> anyhow::Result<String> {
    guard::local_is_authoritative(run)?;
    // First: whoever could write after the look at the entries' times would be found here.
    guard::etcd_is_at_rest(run, &record.data_dir)?;
    let data = tree::open(&run.host.root.locate(record.data_dir.as_path()))?;
    let proof = prove::still_holds(run, &data).context("nothing is committed")?;
    record::write(run.host, &record.clone().commit(Some(proof)))
}

/// The commit point of a rollback. The LUN is unmounted and the data directory fenced, so etcd can run on neither copy.
///
/// The LUN is mounted once more for this program and compared with its copy: somebody may have started etcd, which wrote and
/// ended, between the last look for users and the unmount.
pub fn commit_local(run: &mut Run<'_>, record: &Record) -> anyhow::Result<String> {
    let now = record::read(run.host)?;
    ensure!(now.returning() == Some(record.generation), "the record has changed: nothing is committed");
    let at = &record.data_dir;
    guard::nothing_is_mounted(run, at)?;
    ensure!(place::is_fenced(run.host, at)?, "{at} is not fenced: nothing is committed");
    stage::again(run).context("mounting the LUN for this program, to compare it with its copy")?;
    let lun = run.staging()?.root()?;
    let proof = prove::still_holds(run, &lun).context("nothing is committed")?;
    drop(lun);
    run.take_staging()?.unmount().context("unmounting the LUN")?;
    record::write(run.host, &record.clone().roll_back(proof))
}

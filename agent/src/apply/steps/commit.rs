//! The record of an attempt, and both commit points.

use super::prove;
use crate::{
    apply::{context::Run, guard, place, record},
    node::authority::Record,
};
use anyhow::{Context as _, bail, ensure};

/// Writes the record that announces an attempt.
pub fn begin(run: &Run<'_>, record: &Record) -> anyhow::Result<String> {
    record::write(run.host, record)
}

/// The commit point of a migration.
pub fn commit(run: &Run<'_>, record: &Record) -> anyhow::Result<String> {
    guard::local_is_authoritative(run)?;
    // First: whoever could write after the look at the entries' times would be found here.
    guard::etcd_is_at_rest(run, &record.data_dir)?;
    let proof = prove::still_holds(run, &record.data_dir).context("nothing is committed")?;
    record::write(run.host, &record.clone().commit(Some(proof)))
}

/// Takes the commit back: the LUN was never used, and the local directory holds data. The next plan migrates again.
pub fn take_back(run: &Run<'_>, record: &Record) -> anyhow::Result<String> {
    let now = record::read(run.host)?;
    ensure!(now.clone().take_back() == *record, "the record has changed: the commit stays");
    let stamp = place::stamp_of(&run.staging()?.root()?)?;
    guard::same_moment(run, &now, &stamp)?;
    ensure!(stamp.is_unused(), "the LUN was used: the commit stays");
    record::write(run.host, record)
}

/// The commit point of a rollback. The LUN is unmounted and the data directory fenced, so etcd can run on neither copy.
pub fn commit_local(run: &Run<'_>, record: &Record) -> anyhow::Result<String> {
    let Some(proof) = run.proof else { bail!("the copy was not proven in this run: nothing is committed") };
    let now = record::read(run.host)?;
    ensure!(now.returning() == Some(record.generation), "the record has changed: nothing is committed");
    let at = &record.data_dir;
    guard::nothing_is_mounted(run, at)?;
    ensure!(place::is_fenced(run.host, at)?, "{at} is not fenced: nothing is committed");
    record::write(run.host, &record.clone().roll_back(proof))
}

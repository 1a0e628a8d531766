//! The record of an attempt, and both commit points.

use crate::{
    guard,
    machine::{self, Effect, Machine, Place, Source},
};
use anyhow::Context as _;
use node::{authority::Record, layout::RECORD};
use terms::require;

/// Writes the record, and says what it says.
pub fn write(machine: &mut dyn Machine, record: Record) -> anyhow::Result<String> {
    let said = format!("{RECORD} says {}, generation {}", record.authority, record.generation);
    machine.perform(&Effect::WriteRecord { record })?;
    Ok(said)
}

/// Writes the record that announces an attempt. It replaces no record that says LUN.
pub fn begin(machine: &mut dyn Machine, record: &Record) -> anyhow::Result<String> {
    guard::lun_is_not_authoritative(machine, "no attempt begins")?;
    write(machine, record.clone())
}

/// The commit point of a migration.
pub fn commit(machine: &mut dyn Machine, record: &Record) -> anyhow::Result<String> {
    guard::local_is_authoritative(machine)?;
    guard::staged_is_ours(machine).context("nothing is committed")?;
    let stamp = machine::stamp(machine, Place::Staging)?;
    let committed = record.clone().commit(machine.proof());
    guard::same_moment(machine, &committed, &stamp).context("nothing is committed")?;
    // First: whoever could write after the look at the entries' times would be found here.
    guard::etcd_is_at_rest(machine, &record.data_dir)?;
    machine.still_holds(&Source::Dir(record.data_dir.clone())).context("nothing is committed")?;
    write(machine, committed)
}

/// Takes the commit back: the LUN was never used, and the local directory holds data. The next plan migrates again.
pub fn take_back(machine: &mut dyn Machine, record: &Record) -> anyhow::Result<String> {
    let now = machine::record(machine)?;
    guard::record_is(now.clone().take_back() == *record, "the commit stays")?;
    let stamp = machine::stamp(machine, Place::Staging)?;
    guard::same_moment(machine, &now, &stamp)?;
    require!(stamp.is_unused(), LunUsedElsewhere, "the LUN was used: the commit stays");
    write(machine, record.clone())
}

/// The commit point of a rollback. The LUN is unmounted and the data directory fenced, so etcd can run on neither copy.
///
/// The LUN is mounted once more for this program and compared with its copy: somebody may have started etcd, which wrote and
/// ended, between the last look for users and the unmount. The stamp must still be the record's: the array may have put another
/// volume behind the LUN. Its use is the one that is read now, because a `mark` may have counted one since the plan.
pub fn commit_local(machine: &mut dyn Machine, record: &Record) -> anyhow::Result<String> {
    let now = machine::record(machine)?;
    guard::record_is(now.returning() == Some(record.generation), "nothing is committed")?;
    let at = &record.data_dir;
    guard::nothing_is_mounted(machine, at)?;
    guard::fenced(machine.is_fenced(at)?, at, "nothing is committed")?;
    machine
        .perform(&Effect::StageAgain)
        .context("mounting the LUN for this program, to compare it with its copy")?;
    let stamp = machine::stamp(machine, Place::Staging)?;
    guard::same_moment(machine, &now, &stamp).context("nothing is committed")?;
    let proof = machine.still_holds(&Source::Staging).context("nothing is committed")?;
    machine.perform(&Effect::Unstage)?;
    write(machine, now.leave(record.generation, &stamp).roll_back(proof))
}

//! The steps that decide which copy is the truth: those of record and stamp. They run on any [`Machine`].

use super::{
    machine::Machine,
    steps::{claim, commit, stamp},
};
use crate::plan::Step;
use anyhow::bail;

/// Does a step of the protocol. The returned text says what changed. Any other step is an error.
#[expect(clippy::wildcard_enum_match_arm, reason = "`dispatch` lists all steps")]
pub fn step(machine: &mut dyn Machine, step: &Step) -> anyhow::Result<String> {
    match step {
        Step::BeginRecord { record } => commit::begin(machine, record),
        Step::Unstamp => stamp::unstamp(machine),
        Step::Stamp { stamp } => stamp::stamp(machine, stamp),
        Step::Commit { record } => commit::commit(machine, record),
        Step::CommitLocal { record } => commit::commit_local(machine, record),
        Step::TakeBack { record } => commit::take_back(machine, record),
        Step::Activate { stamp } => stamp::activate(machine, stamp),
        Step::Claim(step) => claim::claim(machine, step),
        Step::Release { stamp } => stamp::release(machine, stamp),
        Step::Mark(step) => {
            stamp::announce(machine, step)?;
            stamp::mark_lun(machine, step)?;
            stamp::mark_record(machine, step)
        }
        step => bail!("`{step}` is no step of the protocol"),
    }
}

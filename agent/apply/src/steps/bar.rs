//! Barring: putting local data aside that is out of date, so that a person can return to it and etcd cannot start on it.

use super::{commit, fence, retire};
use crate::{
    guard,
    machine::{Aside, Effect, Machine, Source},
};
use anyhow::Context as _;
use node::{authority::Record, layout::RETURNING};
use terms::{AbsPath, require};

/// Exchanges the data directory for one that holds only the file `member`, and fences it. At no moment is there a directory in
/// which etcd could begin without data.
pub fn bar(machine: &mut dyn Machine, at: &AbsPath) -> anyhow::Result<String> {
    let aside = Aside::Barred;
    guard::lun_has_not_served(machine, &format!("{at} is not barred"))?;
    guard::nothing_is_mounted(machine, at)?;
    guard::etcd_is_at_rest(machine, at)?;
    retire::put_aside(machine, at, aside, |machine| rests(machine, aside))
        .with_context(|| format!("the LUN is newer than this node's record, and {at} is not barred"))?;
    fence::fence(machine, at)?;
    tracing::warn!("the local data was barred, because the LUN is newer");
    Ok(format!("the data of {at} lies in {}, and etcd cannot start", aside.path()))
}

/// Whoever opened the data since the look for users would go on writing to it.
fn rests(machine: &dyn Machine, aside: Aside) -> anyhow::Result<()> {
    let users = machine.users(&aside.path().parse()?)?;
    require!(
        users.is_empty(),
        FilesOpen,
        "{} opened the data while it was moved out of the way: end it first",
        users.join(", ")
    );
    Ok(())
}

/// The commit point of a return to barred data. Nothing is mounted and the data directory is fenced, so etcd can run on neither
/// copy. First the data says which generation it becomes: then a record of this generation can only mean this decision.
pub fn keep(machine: &mut dyn Machine, record: &Record) -> anyhow::Result<String> {
    let at = &record.data_dir;
    guard::nothing_is_mounted(machine, at)?;
    guard::fenced(machine.is_fenced(at)?, at, "nothing is committed")?;
    if let Some(now) = machine.record()? {
        let planned = !now.has_served() && now.generation < record.generation;
        guard::record_is(planned, "nothing is committed")?;
    }
    let data = Source::Dir(Aside::Barred.path().parse()?);
    let found = machine.fingerprint(&data, SEED)?;
    machine.perform(&Effect::ChooseBarred { generation: record.generation })?;
    commit::write(machine, record.clone().roll_back(found))
}

/// The seed of the fingerprint, which says only that the data has not changed until it is in its place.
const SEED: u64 = 0;

/// Moves barred data to where a rollback stages its copy. The record names it as authoritative.
pub fn unbar(machine: &mut dyn Machine, generation: u64) -> anyhow::Result<String> {
    guard::rolled_back_to(machine, generation)?;
    machine.perform(&Effect::Unbar { generation })?;
    Ok(format!("the data lies in {RETURNING}/{generation}"))
}

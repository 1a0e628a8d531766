//! Barring: putting local data aside that is out of date, so that a person can return to it and etcd cannot start on it.

use super::{commit, fence, retire};
use crate::{
    apply::{
        context::Run,
        guard,
        machine::{Aside, Machine},
        place,
    },
    host::{dir, inode, tree},
    node::{
        Fact,
        authority::{Authority, Record},
        layout::{BARRED, BARRED_DATA, BARRED_MARK, RETURNING, RETURNING_MARK},
    },
    observe,
    terms::AbsPath,
};
use anyhow::{Context as _, ensure};

/// Exchanges the data directory for one that holds only the file `member`, and fences it. At no moment is there a directory in
/// which etcd could begin without data.
pub fn bar(machine: &mut dyn Machine, at: &AbsPath) -> anyhow::Result<String> {
    let aside = Aside::Barred;
    guard::lun_is_not_authoritative(machine).with_context(|| format!("{at} is not barred"))?;
    guard::nothing_is_mounted(machine, at)?;
    guard::etcd_is_at_rest(machine, at)?;
    retire::put_aside(machine, at, aside, |machine| rests(machine, aside))
        .with_context(|| format!("{at} is not barred"))?;
    fence::fence(machine, at)?;
    tracing::warn!("the local data was barred, because the LUN is newer");
    Ok(format!("the data of {at} lies in {}, and etcd cannot start", aside.path()))
}

/// Whoever opened the data since the look for users would go on writing to it.
fn rests(machine: &dyn Machine, aside: Aside) -> anyhow::Result<()> {
    let users = machine.users(&aside.path().parse()?)?;
    ensure!(users.is_empty(), "{} opened the data while it was barred", users.join(", "));
    Ok(())
}

/// The commit point of a return to barred data. Nothing is mounted and the data directory is fenced, so etcd can run on neither
/// copy. First the data says which generation it becomes: then a record of this generation can only mean this decision.
pub fn keep(run: &mut Run<'_>, record: &Record) -> anyhow::Result<String> {
    let at = &record.data_dir;
    guard::nothing_is_mounted(run, at)?;
    ensure!(place::is_fenced(run.host, at)?, "{at} is not fenced: nothing is committed");
    if let Fact::Known(Some(now)) = observe::record(run.host) {
        ensure!(
            now.authority == Authority::Local && now.generation < record.generation,
            "the record has changed: nothing is committed"
        );
    }
    let data = dir::open(tree::open(&run.host.root.locate(BARRED))?, BARRED_DATA)
        .with_context(|| format!("opening {BARRED}/{BARRED_DATA}"))?;
    let found = tree::fingerprint(&data, SEED, &run.host.interrupt, &mut |_| {})?.fingerprint;
    inode::set_attribute(&data, BARRED_MARK, record.generation.to_string().as_bytes())?;
    commit::write(run, record.clone().roll_back(found))
}

/// The seed of the fingerprint, which says only that the data has not changed until it is in its place.
const SEED: u64 = 0;

/// Moves barred data to where a rollback stages its copy. The record names it as authoritative.
pub fn unbar(run: &Run<'_>, generation: u64) -> anyhow::Result<String> {
    let host = run.host;
    let record = guard::rolled_back(run)?;
    ensure!(record.generation == generation, "the record is of generation {} now", record.generation);
    host.root.make_dir_durably(RETURNING, 0o700).context("making the directory of a rollback's copy")?;
    let aside = tree::open(&host.root.locate(BARRED))?;
    let shelf = tree::open(&host.root.locate(RETURNING))?;
    let name = generation.to_string();
    let data = dir::open(&aside, BARRED_DATA).with_context(|| format!("opening {BARRED}/{BARRED_DATA}"))?;
    inode::set_attribute(&data, RETURNING_MARK, name.as_bytes())?;
    dir::rename(&aside, BARRED_DATA, &shelf, &name)
        .with_context(|| format!("moving {BARRED}/{BARRED_DATA} to {RETURNING}/{name}"))?;
    inode::remove_attribute(&data, BARRED_MARK)?;
    Ok(format!("the data lies in {RETURNING}/{name}"))
}

//! The local copy of a rollback: staging it, and exchanging it for the fence.

use super::fence;
use crate::{
    guard,
    machine::{Effect, Machine, Source},
};
use anyhow::Context as _;
use hands::{Door, Request, Shelf};
use host::{Host, dir, inode, tree};
use node::layout::{BAR, RETURNING, RETURNING_MARK};
use std::os::fd::OwnedFd;
use terms::{AbsPath, RecordedFingerprint, fail, require};

/// Opens the directory at `path` for a rollback's copy. If an earlier try has not made it, this makes it with the
/// owner, mode and label of `like`.
pub fn shelve(host: &Host, path: &AbsPath, like: &OwnedFd) -> anyhow::Result<OwnedFd> {
    host.root.make_dir_durably(RETURNING, 0o700).context("making the directory of a rollback's copy")?;
    let shelf = tree::open(&host.root.locate(RETURNING))?;
    if dir::names(&shelf)?.iter().any(|name| name == path.name()) {
        let found = dir::open(&shelf, path.name()).with_context(|| format!("opening {path}"))?;
        if inode::attribute(&found, RETURNING_MARK)?.is_some() {
            return Ok(found);
        }
    }
    let made =
        inode::make_empty_dir_like(&shelf, path.name(), like).with_context(|| format!("making {path}"))?;
    inode::set_attribute(&made, RETURNING_MARK, path.name().as_bytes())?;
    Ok(made)
}

/// Puts the proven copy into the place of the fence.
pub fn put_in_place(machine: &mut dyn Machine, at: &AbsPath, generation: u64) -> anyhow::Result<String> {
    let record = guard::rolled_back_to(machine, generation)?;
    guard::nothing_is_mounted(machine, at)?;
    guard::no_users_beneath(machine, at)?;
    let copy: AbsPath = format!("{RETURNING}/{generation}").parse()?;
    let Some(RecordedFingerprint::Ours(proven)) = record.fingerprint else {
        fail!(RecordChanged, "the record has no fingerprint of {copy} that this version can compare")
    };
    if machine.proof() != Some(proven) {
        let found = machine.fingerprint(&Source::Dir(copy.clone()), proven.seed)?;
        require!(
            found == proven,
            DataChanged,
            "{copy} has changed: its fingerprint is {found} now, which is not that of the proven copy"
        );
    }
    machine.perform(&Effect::Return { data_dir: at.clone(), generation })?;
    Ok(format!("{at} holds generation {generation}, and is writable"))
}

/// Exchanges a rollback's copy for the fence. The data directory is at no moment absent, or empty and writable: the
/// immutable flag is cleared first, and the file [`BAR`] removed last.
pub fn return_on_node(door: &Door<'_>, at: &AbsPath, generation: u64) -> anyhow::Result<()> {
    let name = generation.to_string();
    door.perform(&Request::MakeDataDir)?;
    let shelf = tree::open(&door.host.root.locate(RETURNING))?;
    let copy = dir::open(&shelf, &name).with_context(|| format!("opening {RETURNING}/{name}"))?;
    let fence = inode::beneath(door.host, at)?.with_context(|| format!("{at} has gone"))?;
    let barred = fence::is_barred(&fence, at).context("the copy is not put in its place")?;
    inode::remove_attribute(&copy, RETURNING_MARK)?;
    let exchange = || door.perform(&Request::Exchange { with: Shelf::Returning(generation) });
    inode::without_immutable(&fence, exchange)?;
    let removed = if barred { dir::remove_file(&fence, BAR) } else { Ok(()) };
    removed
        .and_then(|()| dir::remove_dir(&shelf, &name))
        .with_context(|| format!("removing what was {at} until now and is {RETURNING}/{name}"))
}

#[cfg(test)]
mod tests;

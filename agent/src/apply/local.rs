//! Steps on the local side: the record, the commit points, retiring, the fence, and what takes its place.

use super::{etcd, guard, run::Run};
use crate::{
    host::{Host, dir, inode, tree},
    node::{
        authority::Record,
        layout::{BAR, RECORD, RETIRED, RETIRED_MARK, RETURNING, RETURNING_MARK, STATE},
    },
    terms::{AbsPath, Fingerprint},
};
use anyhow::{Context as _, bail, ensure};
use std::os::fd::OwnedFd;

/// Writes the record durably.
pub(super) fn write_record(host: &Host, record: &Record) -> anyhow::Result<String> {
    host.root.make_dir(STATE, 0o700).context("making the state directory")?;
    host.root.write_durably(&RECORD.parse()?, &record.to_text()?, 0o600).context("writing the record")?;
    Ok(format!("{RECORD} says {}, generation {}", record.authority, record.generation))
}

/// The commit point.
pub(super) fn commit(run: &Run<'_>, record: &Record) -> anyhow::Result<String> {
    let Some(proof) = run.proof else { bail!("the copy was not proven in this run: nothing is committed") };
    guard::not_the_truth(run)?;
    guard::etcd_is_at_rest(run, &record.data_dir)?;
    write_record(run.host, &record.clone().commit(Some(proof)))
}

/// The directory at `path` for a rollback's copy, with owner, mode and label of `like`: a new one, an empty one, or one
/// that an earlier try has made.
pub(super) fn shelve(host: &Host, path: &AbsPath, like: &OwnedFd) -> anyhow::Result<OwnedFd> {
    host.root.make_dir(RETURNING, 0o700).context("making the directory of a rollback's copy")?;
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

/// The commit point of a rollback. The LUN is unmounted and the fence is up: etcd can't run on either copy.
pub(super) fn commit_local(run: &Run<'_>, record: &Record) -> anyhow::Result<String> {
    let Some(proof) = run.proof else { bail!("the copy was not proven in this run: nothing is committed") };
    let now = guard::record(run.host)?.context("the record is gone")?;
    ensure!(now.returning() == Some(record.generation), "the record has changed: nothing is committed");
    let at = &record.data_dir;
    guard::nothing_is_mounted(run, at)?;
    ensure!(guard::is_fenced(run.host, at)?, "{at} is not fenced: nothing is committed");
    write_record(run.host, &record.clone().roll_back(proof))
}

/// Exchanges the proven copy for the fence: at no moment is the data directory absent, or empty and writable. The fence's
/// flag goes first, its bar last.
pub(super) fn put_in_place(run: &Run<'_>, at: &AbsPath, generation: u64) -> anyhow::Result<String> {
    let host = run.host;
    let record = guard::rolled_back(run)?;
    ensure!(record.generation == generation, "the record is of generation {} now", record.generation);
    guard::nothing_is_mounted(run, at)?;
    guard::no_users_beneath(run, at)?;
    let (parent, shelf) = dir::both_without_mounts(host, &at.parent(), &RETURNING.parse()?)?;
    let name = generation.to_string();
    let copy = dir::open(&shelf, &name).with_context(|| format!("opening {RETURNING}/{name}"))?;
    if run.proof.is_none() || run.proof != record.fingerprint {
        let found = tree::fingerprint(&copy, &host.interrupt, &mut |_| {})?.fingerprint;
        ensure!(
            record.fingerprint == Some(found),
            "{RETURNING}/{name} has changed: it is {found} now, which is not what was proven"
        );
    }
    dir::make(&parent, at.name(), 0o700).with_context(|| format!("making {at}"))?;
    let fence = dir::open(&parent, at.name())?;
    let barred = match dir::names(&fence)?.as_slice() {
        [] => false,
        [only] if only == BAR && dir::is_empty_file(&fence, BAR)? => true,
        names => bail!("{at} holds {}: nothing takes its place", names.join(", ")),
    };
    inode::remove_attribute(&copy, RETURNING_MARK)?;
    inode::exchange_for_immutable(&shelf, &name, &parent, at.name())?;
    let removed = if barred { dir::remove_file(&fence, BAR) } else { Ok(()) };
    removed
        .and_then(|()| dir::remove_dir(&shelf, &name))
        .with_context(|| format!("removing what was {at} until now and is {RETURNING}/{name}"))?;
    Ok(format!("{at} holds generation {generation}, and is writable"))
}

/// Moves the data to `retired/<generation>` by one atomic exchange.
///
/// What takes its place is a directory with a file [`BAR`] in it, so that etcd, started in the
/// moment before the fence is up, finds no place to write: with an empty directory it would
/// bootstrap a new cluster there.
pub(super) fn retire(
    run: &Run<'_>,
    from: &AbsPath,
    generation: u64,
    expected: Option<Fingerprint>,
) -> anyhow::Result<String> {
    let host = run.host;
    guard::no_users_beneath(run, from)?;
    let retired: AbsPath = RETIRED.parse()?;
    host.root.make_dir(retired.as_path(), 0o700).context("making the directory of retired data")?;
    let (parent, shelf) = dir::both_without_mounts(host, &from.parent(), &retired)?;
    let data = dir::open(&parent, from.name()).with_context(|| format!("opening {from}"))?;
    let copied = match expected {
        Some(copied) => {
            let found = tree::fingerprint(&data, &host.interrupt, &mut |_| {})?.fingerprint;
            ensure!(found == copied, "{from} has changed: it is {found} now, and {copied} was copied");
            copied
        }
        // Proven a moment ago, by this very run.
        None => {
            guard::etcd_is_at_rest(run, from)?;
            run.proof.context("the data was not proven in this run: it is not retired")?
        }
    };
    let name = generation.to_string();
    let bar = match dir::names(&shelf)?.contains(&name) {
        true => dir::open(&shelf, &name)?,
        false => inode::make_empty_dir_like(&shelf, &name, &data)?,
    };
    match dir::names(&bar)?.as_slice() {
        [] => dir::make_file(&bar, BAR)?,
        [only] if only == BAR && dir::is_empty_file(&bar, BAR)? => {} // left by a run that was cut short
        _ => bail!("{retired}/{name} exists already and holds something: move it away"),
    }
    inode::exchange(&shelf, &name, &parent, from.name())?;
    // Whoever opened the data since it was looked at would go on writing there, beside the truth.
    let users = etcd::users(host, &retired.join(&name))?;
    if !users.is_empty() {
        inode::exchange(&shelf, &name, &parent, from.name()).with_context(|| {
            format!("{} uses {from}, which lies in {retired}/{name} now", users.join(", "))
        })?;
        bail!(
            "{} opened {from} while it was moved out of the way: it is back in its place",
            users.join(", ")
        );
    }
    inode::set_attribute(dir::open(&shelf, &name)?, RETIRED_MARK, name.as_bytes())
        .with_context(|| format!("marking {retired}/{name} as ours"))?;
    tracing::info!(GENERATION = generation, "local data {copied} retired");
    Ok(format!("the data lies in {retired}/{name}"))
}

/// Leaves the directory beneath the mount point immutable, with nothing in it but [`BAR`].
///
/// The bar stays: without it there would be a moment, and after a power cut a boot, in which the directory is empty and
/// not immutable yet, and etcd would bootstrap a new cluster there. It is made only where nothing has that name, so an
/// etcd that was quicker is found, not fenced.
pub(super) fn fence(host: &Host, at: &AbsPath) -> anyhow::Result<String> {
    let parent = dir::without_mounts(host, &at.parent())?;
    dir::make(&parent, at.name(), 0o700).with_context(|| format!("making {at}"))?;
    let place = dir::open(&parent, at.name()).with_context(|| format!("opening {at}"))?;
    match dir::names(&place)?.as_slice() {
        [] => dir::make_file(&place, BAR).with_context(|| format!("barring {at}"))?,
        [only] if only == BAR && dir::is_empty_file(&place, BAR)? => {}
        names => bail!("{at} holds {}: only an empty directory is fenced", names.join(", ")),
    }
    inode::set_immutable(&place, true).with_context(|| format!("making {at} immutable"))?;
    let kept = inode::is_immutable(&place)? == Some(true);
    ensure!(kept, "the filesystem of {at} took the immutable flag and has not kept it");
    Ok(format!("{at} is immutable, without data"))
}

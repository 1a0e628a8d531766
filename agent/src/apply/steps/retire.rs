//! Retiring: moving the local data out of the data directory.

use super::prove;
use crate::{
    apply::{context::Run, guard, users},
    host::{
        dir, inode,
        tree::{self, State},
    },
    node::layout::{BAR, RETIRED, RETIRED_MARK},
    plan::step::Retire,
    terms::AbsPath,
};
use anyhow::{Context as _, bail, ensure};
use std::os::fd::OwnedFd;

/// Moves the data to `retired/<generation>` by one atomic exchange.
///
/// A directory with the file [`BAR`] takes the data's place. Without that file etcd, if it is started before the
/// directory is fenced, would find an empty directory and bootstrap a new cluster there.
///
/// After the move, and after a look for whoever opened the data meanwhile, the data is compared once more. If anybody uses it
/// or has written to it, it goes back to its place: the LUN's copy lacks what was written.
pub fn retire(run: &mut Run<'_>, step: &Retire) -> anyhow::Result<String> {
    let Retire { from, generation, fingerprint } = step;
    let host = run.host;
    let retired: AbsPath = RETIRED.parse()?;
    host.root.make_dir_durably(retired.as_path(), 0o700).context("making the directory of retired data")?;
    let (parent, shelf) = dir::both_without_mounts(host, &from.parent(), &retired)?;
    let data = dir::open(&parent, from.name()).with_context(|| format!("opening {from}"))?;
    let mut before = None;
    let copied = match *fingerprint {
        Some(copied) => {
            guard::no_users_beneath(run, from)?;
            before = Some(tree::state(&data, &host.interrupt)?.beneath());
            let found = tree::fingerprint(&data, copied.seed, &host.interrupt, &mut |_| {})?.fingerprint;
            ensure!(
                found == copied,
                "{from} has changed: its fingerprint is {found} now, and that of the copy is {copied}"
            );
            copied
        }
        // This run has proven the data a moment ago. Who has files open there is looked for after the exchange.
        None => {
            guard::etcd_is_stopped(run)?;
            prove::still_holds(run, &data).context("the data is not retired")?
        }
    };
    let name = generation.to_string();
    let bar = match dir::names(&shelf)?.contains(&name) {
        true => dir::open(&shelf, &name)?,
        false => inode::make_empty_dir_like(&shelf, &name, &data)?,
    };
    match dir::names(&bar)?.as_slice() {
        [] => dir::make_file(&bar, BAR)?,
        [only] if only == BAR && dir::is_empty_file(&bar, BAR)? => {} // left by an interrupted run
        _ => bail!("{retired}/{name} exists already and holds something: move it away"),
    }
    inode::exchange(&shelf, &name, &parent, from.name())?;
    if let Err(error) = rests(run, &retired.join(&name), &data, before.as_ref()) {
        inode::exchange(&shelf, &name, &parent, from.name())
            .with_context(|| format!("{error:#}; the data of {from} lies in {retired}/{name} now"))?;
        return Err(error.context(format!("the data is back in {from}")));
    }
    run.retired = true;
    inode::set_attribute(&data, RETIRED_MARK, name.as_bytes())
        .with_context(|| format!("marking {retired}/{name} as ours"))?;
    tracing::info!(GENERATION = *generation, "local data {copied} retired");
    Ok(format!("the data lies in {retired}/{name}"))
}

/// The data that was moved to `at` is used by nobody and is still what was copied. `before` is its state at the comparison, if
/// this run has not made the copy itself.
fn rests(run: &Run<'_>, at: &AbsPath, data: &OwnedFd, before: Option<&State>) -> anyhow::Result<()> {
    // A process that opened the data since the check would continue to write to it, though the LUN's copy is
    // authoritative.
    let users = users::of_data(run.host, at)?;
    ensure!(users.is_empty(), "{} opened the data while it was moved out of the way", users.join(", "));
    match before {
        Some(before) => {
            let now = tree::state(data, &run.host.interrupt)?.beneath();
            match before.difference(&now) {
                Some(change) => bail!("the data has changed while it was moved out of the way: {change}"),
                None => Ok(()),
            }
        }
        None => prove::still_holds(run, data).map(drop),
    }
}

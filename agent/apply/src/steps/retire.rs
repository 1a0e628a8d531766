//! Retiring: moving the local data out of the data directory.

use crate::{
    guard,
    machine::{Aside, Effect, Machine, Source},
};
use anyhow::Context as _;
use plan::step::Retire;
use terms::{AbsPath, named, require};

/// Moves the data to `retired/<generation>` by one atomic exchange.
///
/// After the move, and after a look for whoever opened the data meanwhile, the data is compared once more. If anybody uses it
/// or has written to it, it goes back to its place: the LUN's copy lacks what was written.
pub fn retire(machine: &mut dyn Machine, step: &Retire) -> anyhow::Result<String> {
    let Retire { from, generation, fingerprint } = step;
    let aside = Aside::Retired { generation: *generation };
    let data = Source::Dir(from.clone());
    let copied = match *fingerprint {
        Some(copied) => {
            guard::no_users_beneath(machine, from)?;
            let found = machine.fingerprint(&data, copied.seed)?;
            require!(
                found == copied,
                DataChanged,
                "{from} has changed: its fingerprint is {found} now, and that of the copy is {copied}"
            );
            copied
        }
        // This run has proven the data a moment ago. Who has files open there is looked for after the exchange.
        None => {
            guard::etcd_is_stopped(machine)?;
            machine.still_holds(&data).context("the data is not retired")?
        }
    };
    put_aside(machine, from, aside, |machine| rests(machine, aside, fingerprint.is_some()))?;
    tracing::info!(GENERATION = *generation, "local data {copied} retired");
    Ok(format!("the data lies in {}", aside.path()))
}

/// Puts the data aside and marks it as ours, if it `rests` there. Else it goes back to its place.
pub fn put_aside(
    machine: &mut dyn Machine,
    data: &AbsPath,
    aside: Aside,
    rests: impl FnOnce(&dyn Machine) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    machine.perform(&Effect::PutAside { data: data.clone(), aside })?;
    if let Err(error) = rests(machine) {
        machine.perform(&Effect::PutBack { data: data.clone(), aside }).with_context(|| {
            named!(DataLiesElsewhere, "{error:#}; the data of {data} lies in {} now", aside.path())
        })?;
        return Err(error.context(format!("the data is back in {data}")));
    }
    machine.perform(&Effect::MarkAside { data: data.clone(), aside })?;
    Ok(())
}

/// The data that was put aside is used by nobody and is still what was copied: what this step has read, or what this run has
/// proven.
fn rests(machine: &dyn Machine, aside: Aside, was_read: bool) -> anyhow::Result<()> {
    // A process that opened the data since the check would continue to write to it, though the LUN's copy is
    // authoritative.
    let path = aside.path().parse()?;
    let users = machine.users(&path)?;
    require!(
        users.is_empty(),
        FilesOpen,
        "{} opened the data while it was moved out of the way: end it first",
        users.join(", ")
    );
    let data = Source::Dir(path);
    match was_read {
        true => machine
            .unchanged(&data)
            .with_context(|| named!(DataChanged, "the data has changed while it was moved out of the way")),
        false => machine.still_holds(&data).map(drop),
    }
}

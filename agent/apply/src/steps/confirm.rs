//! Whether a proof still holds that was made while containers of etcd's pod could write.

use super::{copy, prove};
use crate::{
    context::Run,
    evidence::Evidence,
    guard,
    machine::{Confirmed, Machine},
};
use anyhow::Context as _;
use host::tree;
use plan::{Way, step::Copy};

/// Takes the provisional proof for the proof if nobody has written to the source since it began. Otherwise copies and
/// proves again: now nobody uses the source any more.
///
/// A look at every process takes long on a node with many of them. A migration's commit takes the proof only after one, and
/// after a second look at the entries.
pub fn confirm(machine: &mut dyn Machine, step: &Copy) -> anyhow::Result<String> {
    let from = &step.from;
    if step.way != Way::ToLun {
        // First: whoever could write after the look at the entries would be found here.
        guard::etcd_is_at_rest(machine, from)?;
    }
    match machine.confirm(step)? {
        Confirmed::Holds(proven) => {
            return Ok(format!("nobody has written to {from} since it was compared: {proven}"));
        }
        Confirmed::Changed(change) => {
            machine.note(&format!("{from} has changed since it was compared ({change}): it is copied again"));
        }
        Confirmed::Nothing => {}
    }
    let copied = copy::copy(machine, &Copy { provisional: false, ..step.clone() })?;
    let proven = prove::prove(machine, from, step.way, false)?;
    Ok(format!("{copied}; {proven}"))
}

/// [`Machine::confirm`] of the node.
pub fn confirm_on_node(run: &mut Run<'_>, step: &Copy) -> anyhow::Result<Confirmed> {
    let from = &step.from;
    let Some(proof) = run.evidence.take_provisional() else { return Ok(Confirmed::Nothing) };
    let source = tree::open(&run.host.root.locate(from.as_path()))?;
    let now = tree::state(&source, &run.host.interrupt)
        .with_context(|| format!("looking for changes in {from}"))?;
    Ok(match proof.confirmed(&now) {
        Ok(proof) => {
            run.evidence = Evidence::Proven(proof);
            Confirmed::Holds(proof.fingerprint())
        }
        Err(change) => Confirmed::Changed(change),
    })
}

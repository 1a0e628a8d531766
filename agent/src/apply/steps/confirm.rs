//! Whether a proof still holds that was made while containers of etcd's pod could write.

use super::{copy, prove};
use crate::{
    apply::{
        context::{Proof, Run},
        guard,
        watcher::Watcher,
    },
    host::tree,
    plan::{Way, step::Copy},
};
use anyhow::Context as _;

/// Takes the provisional proof for the proof if nobody has written to the source since it began. Otherwise copies and
/// proves again: now nobody uses the source any more.
///
/// A look at every process takes long on a node with many of them. A migration's commit takes the proof only after one, and
/// after a second look at the entries.
pub fn confirm(run: &mut Run<'_>, step: &Copy, watcher: &mut dyn Watcher) -> anyhow::Result<String> {
    let from = &step.from;
    if step.way != Way::ToLun {
        // First: whoever could write after the look at the entries would be found here.
        guard::etcd_is_at_rest(run, from)?;
    }
    if let Some(proof) = run.provisional.take() {
        let source = tree::open(&run.host.root.locate(from.as_path()))?;
        let now = tree::state(&source, &run.host.interrupt)
            .with_context(|| format!("looking for changes in {from}"))?;
        let Some(change) = proof.source.difference(&now) else {
            run.proof = Some(Proof { fingerprint: proof.fingerprint, way: step.way });
            return Ok(format!("nobody has written to {from} since it was compared: {}", proof.fingerprint));
        };
        watcher.noted(&format!("{from} has changed since it was compared ({change}): it is copied again"));
    }
    guard::etcd_is_at_rest(run, from)?;
    let copied = copy::copy(run, from, step.way, false, watcher)?;
    let proven = prove::prove(run, from, step.way, false)?;
    Ok(format!("{copied}; {proven}"))
}

//! The proof that a copy is complete.

use super::{
    copy::{self, Destination},
    stage,
};
use crate::{
    context::Run,
    evidence::Evidence,
    guard,
    machine::{Effect, Machine},
    users,
};
use anyhow::Context as _;
use host::{
    process::Asked,
    tree::{self, Audit, Summary, TreeError},
};
use node::layout::RETURNING;
use plan::Way;
use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};
use terms::{AbsPath, Bytes, Fingerprint, named, require};

/// A container that does not end when it is asked takes its grace period of 30 s, and there is time to read the copy once more. It
/// was read before etcd was stopped, so this second reading may not keep the member away for longer.
const AUDIT_LIMIT: Duration = Duration::from_secs(20);

/// Compares names and metadata of both trees. Their content was compared block by block when it was copied, and every
/// block of the copy was read from the device.
///
/// The step that follows looks for processes that use the source, because a look at every process takes long on a node with
/// many of them: the commit of a migration looks, and so does the unmount of a rollback.
pub fn prove(machine: &mut dyn Machine, from: &AbsPath, way: Way, afresh: bool) -> anyhow::Result<String> {
    copy::may_be_overwritten(machine, from, way)?;
    let said = machine.perform(&Effect::Prove { from: from.clone(), way, afresh })?;
    if way != Way::ToLun
        && let Err(error) = guard::etcd_is_at_rest(machine, from)
    {
        machine.perform(&Effect::ForgetProof)?;
        return Err(error);
    }
    Ok(said)
}

/// Proves a copy while containers of etcd's pod may still write. Then it counts after `confirm`, and it is no error if
/// the source has changed.
pub fn prove_provisionally(machine: &mut dyn Machine, from: &AbsPath, way: Way) -> anyhow::Result<String> {
    copy::may_be_overwritten(machine, from, way)?;
    machine.perform(&Effect::ProveProvisionally { from: from.clone(), way })
}

/// [`Effect::Prove`] on the node.
pub fn prove_on_node(run: &mut Run<'_>, from: &AbsPath, way: Way, afresh: bool) -> anyhow::Result<String> {
    let copied = run.evidence.take_copied()?;
    if afresh && way == Way::ToLun {
        stage::remount(run)?;
    }
    let summary = settle(run, from, way)?;
    run.evidence = Evidence::Proven(copied.proven(&summary, way));
    Ok(described(&summary))
}

/// Checks that nobody has written to either side of the proven copy since it was proven: by the names and times of all
/// entries. The caller first looks for processes that have files open there, so that this finds what they wrote before they
/// ended. `source` is the directory that was copied, wherever it lies now.
pub fn still_holds(run: &Run<'_>, source: &OwnedFd) -> anyhow::Result<Fingerprint> {
    let proof = run.evidence.proof().context("the copy was not proven in this run")?;
    // The copy may be authoritative by now, so this is not opened as the destination of a copy.
    let copy = match proof.way() {
        Way::ToLun => run.staging()?.root()?,
        Way::ToLocal { generation } => {
            let path = format!("{RETURNING}/{generation}");
            tree::open(&run.host.root.locate(&path)).with_context(|| format!("opening {path}"))?
        }
    };
    let now = tree::settle(source, &copy, run.ledger()?, &run.host.interrupt)
        .with_context(|| named!(DataChanged, "the data or its copy has changed since they were compared"))?;
    require!(
        now.fingerprint == proof.fingerprint(),
        DataChanged,
        "the data or its copy has changed since they were compared"
    );
    Ok(proof.fingerprint())
}

/// [`Effect::ProveProvisionally`] on the node. There is time to read the copy from the device once more.
pub fn prove_provisionally_on_node(run: &mut Run<'_>, from: &AbsPath, way: Way) -> anyhow::Result<String> {
    let copied = run.evidence.take_copied_meanwhile()?;
    let not_yet =
        |why: &str| format!("not proven yet, because somebody writes to {from} or may do so: {why}");
    let begun = match copied.begun() {
        Ok(begun) => begun,
        Err(why) => return Ok(not_yet(&why)),
    };
    let summary = match settle(run, from, way) {
        Ok(summary) => summary,
        Err(error) => match error.downcast_ref::<TreeError>() {
            Some(change) if change.is_a_change() => return Ok(not_yet(&change.to_string())),
            _ => return Err(error),
        },
    };
    let read = audit(run, &Destination::open(run, from, way)?, AUDIT_LIMIT, &|| pod_ends(run))?;
    run.evidence = Evidence::Provisional(begun.proven(&summary, way));
    Ok(format!("{}; {read}", described(&summary)))
}

fn settle(run: &Run<'_>, from: &AbsPath, way: Way) -> anyhow::Result<Summary> {
    let to = Destination::open(run, from, way)?;
    if way != Way::ToLun {
        users::nobody_in(run.host, &to.path)?;
    }
    let source = tree::open(&run.host.root.locate(from.as_path()))?;
    tree::settle(&source, &to.root, run.ledger()?, &run.host.interrupt)
        .with_context(|| format!("the copy on {way} differs from {from}"))
}

/// Returns true if containers of etcd's pod have not ended yet, as far as this run knows: without a list of those that
/// it has asked, as at a boot, none has.
fn pod_ends(run: &Run<'_>) -> bool {
    run.ending.is_empty() || !run.ending.iter().all(Asked::has_ended)
}

/// Reads the copy from the device once more, for this time at most and while `go_on` says so. It must hold what the passes have
/// seen. Says how much was read.
pub fn audit(
    run: &Run<'_>,
    to: &Destination,
    limit: Duration,
    go_on: &dyn Fn() -> bool,
) -> anyhow::Result<String> {
    let until = Instant::now() + limit;
    let go_on = || Instant::now() < until && go_on();
    let done = tree::audit(&to.root, run.ledger()?, &go_on, &run.host.interrupt)
        .context("reading the copy from the device once more")?;
    Ok(audited(done))
}

fn audited(Audit { read, of }: Audit) -> String {
    match (read, read < of) {
        (_, false) => format!("all {} were read from the device once more", Bytes(of)),
        (0, true) => "nobody was waited for, so it was not read from the device once more; each block was read back when it was written".into(),
        (_, true) => format!(
            "{} of {} were read from the device once more, then the time for it was over; each block was read back when it was written",
            Bytes(read),
            Bytes(of)
        ),
    }
}

fn described(summary: &Summary) -> String {
    let Summary { files, directories, bytes, fingerprint } = summary;
    format!("both are the same: {files} files, {directories} directories, {bytes}, {fingerprint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read that ends at its limit says how much was not read.
    #[test]
    fn how_much_of_the_copy_was_read_once_more() {
        let said = |read| audited(Audit { read, of: 3 << 20 });
        assert_eq!(said(3 << 20), "all 3MiB were read from the device once more");
        assert!(said(0).starts_with("nobody was waited for"), "{}", said(0));
        let part = said(1 << 20);
        assert!(part.starts_with("1MiB of 3MiB were read from the device once more"), "{part}");
        assert!(part.contains("the time for it was over"), "{part}");
    }
}

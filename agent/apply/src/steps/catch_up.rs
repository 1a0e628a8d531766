//! Bringing the copy up to date while etcd runs, so that little is left when it is stopped.

use super::{
    copy::{self, Destination},
    prove, stage,
};
use crate::{
    context::Run,
    machine::{Effect, Machine},
};
use anyhow::Context as _;
use host::{
    background::Background,
    tree::{self, Moved, Source},
};
use plan::{Refusal, Way, step::CatchUp};
use std::time::{Duration, Instant};
use terms::Bytes;

/// More rounds than this don't come closer.
const ROUNDS: usize = 10;
/// No further round begins after this time.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// A round that writes no more than this is the last: a LUN takes it in a fraction of a second.
const LITTLE: u64 = 4 << 20;
/// A check of the whole copy that takes longer than this is followed by one more round.
const SHORT: Duration = Duration::from_secs(2);

/// Goes over the source in rounds, until one writes little, or no less than the one before. Then reads the whole copy from
/// the device once more, and refuses if the last round tells that etcd would be away for too long.
pub fn catch_up(machine: &mut dyn Machine, step: &CatchUp) -> anyhow::Result<String> {
    copy::may_be_overwritten(machine, &step.from, step.way)?;
    machine.perform(&Effect::CatchUp { catch_up: step.clone() })
}

/// [`Effect::CatchUp`] on the node. It takes minutes, so each round looks again at what it may overwrite.
pub fn catch_up_on_node(run: &mut Run<'_>, step: &CatchUp) -> anyhow::Result<String> {
    let CatchUp { from, way, limit } = step;
    if *way == Way::ToLun {
        // From now on names and metadata that rsync has written come from the device.
        stage::remount(run)?;
    }
    run.ledger = None;
    let background = Background::enter(run.host);
    let begun = Instant::now();
    let (mut last, mut took) = round(run, step, None)?;
    let mut rounds = 1;
    while last.written > LITTLE && rounds < ROUNDS && begun.elapsed() < LIMIT {
        let before = last.written;
        (last, took) = round(run, step, Some(last.read))?;
        rounds += 1;
        if last.written >= before {
            break;
        }
    }
    let audit = Instant::now();
    let to = Destination::open(run, from, *way)?;
    tree::warm(&to.root, &run.host.interrupt).context("reading the copy into memory")?;
    let audited = prove::audit(run, &to, LIMIT, &|| true)?;
    if audit.elapsed() > SHORT || rounds == 1 {
        (last, took) = round(run, step, Some(last.read))?;
        rounds += 1;
    }
    let found = format!(
        "the last of {rounds} rounds took {:.1} s, read {} and wrote {}",
        took.as_secs_f64(),
        Bytes(last.read),
        Bytes(last.written)
    );
    // How many threads a pass will have depends on the processors that this thread may use.
    drop(background);
    let at_rest = last.at_rest(took);
    if at_rest > limit.0 {
        return Err(Refusal::SwitchTooLong { found, limit: *limit }.into());
    }
    Ok(format!(
        "{found}: copying what is left takes about {:.0} s of the time that etcd is away; {audited}",
        at_rest.as_secs_f64().ceil()
    ))
}

/// One round over a source of this size, as far as it is known.
fn round(run: &mut Run<'_>, step: &CatchUp, size: Option<u64>) -> anyhow::Result<(Moved, Duration)> {
    let begun = Instant::now();
    copy::may_be_overwritten(run, &step.from, step.way)?;
    let to = Destination::open(run, &step.from, step.way)?;
    let source = tree::open(&run.host.root.locate(step.from.as_path()))?;
    let moved = copy::bring_up_to_date(run, &source, &to, Source::Served, size)?;
    tracing::debug!("a round: {}, {} entries changed meanwhile", copy::described(moved), moved.left);
    Ok((moved, begun.elapsed()))
}

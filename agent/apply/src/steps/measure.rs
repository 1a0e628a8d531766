//! Measuring the staged LUN with writes like those of etcd.

use crate::context::Run;
use anyhow::Context as _;
use bench::{Summary, milliseconds};
use host::scratch::{self, Place, Scratch};
use plan::Refusal;
use terms::{Span, Wwid};

/// Refuses a LUN on which 99 of 100 `fdatasync` calls don't end within the limit. etcd still runs from the local disk.
/// The file that is written has no name, and is gone afterwards.
pub fn measure(run: &Run<'_>, wwid: &Wwid, limit: Span) -> anyhow::Result<String> {
    let at = run.staging()?.place();
    let place = Place::open(run.host, at.as_path()).context("opening the staged LUN")?;
    let mut scratches =
        [Scratch::make(&place, bench::SEGMENT, bench::BLOCK).context("making a scratch file")?];
    let writes = usize::try_from(bench::MAX_WRITES)?;
    let taken = scratch::measure(&mut scratches, writes, bench::TIME_LIMIT, &run.host.interrupt, &mut |_| {});
    let taken: Vec<_> = taken.context("measuring the LUN")?.into_iter().flatten().collect();
    let syncs: Vec<_> = taken.iter().map(|took| took.sync).collect();
    let all = taken.iter().map(|took| took.write + took.sync).sum();
    let summary = Summary::of(&syncs, all).context("measuring the LUN: nothing was written")?;
    let times = summary.fdatasync_ns;
    let found = format!(
        "fdatasync after each of {} writes of {} bytes: 50 of 100 within {}, 99 within {}, the slowest {}",
        summary.writes,
        bench::BLOCK,
        milliseconds(times.p50),
        milliseconds(times.p99),
        milliseconds(times.max)
    );
    if u128::from(times.p99) > limit.0.as_nanos() {
        return Err(Refusal::TooSlow {
            wwid: wwid.clone(),
            found,
            limit,
            storage: run.config.backing.storage(),
        }
        .into());
    }
    Ok(found)
}

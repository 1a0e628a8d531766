//! Paths of portals that the config does not name.

use crate::{context::Run, guard};
use host::{Host, block, multipath};
use plan::step::{AddPath, RemovePath};
use std::time::{Duration, Instant};
use terms::fail;

/// How long the kernel may take to gain or let go of a path. multipathd gives the map a new table at once, or when its queue is
/// empty.
const LIMIT: Duration = Duration::from_secs(30);

/// Tells multipathd to take a path out of its map, and waits until the map does not hold it any more.
pub fn remove_path(run: &Run<'_>, step: &RemovePath) -> anyhow::Result<String> {
    let RemovePath { map, path, .. } = step;
    let other = guard::another_path_works(run, step)?;
    multipath::remove_path(run.host, path)?;
    await_path(run.host, map, path, false)?;
    Ok(format!("{map} does not use {path} any more; {other} works"))
}

/// Tells multipathd to take a path into its map, and waits until the map holds it.
pub fn add_path(run: &Run<'_>, step: &AddPath) -> anyhow::Result<String> {
    let AddPath { map, path, .. } = step;
    guard::path_is_free(run.host, step)?;
    multipath::add_path(run.host, path)?;
    await_path(run.host, map, path, true)?;
    Ok(format!("{map} has {path}"))
}

fn await_path(host: &Host, map: &str, path: &str, held: bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + LIMIT;
    while block::disk(host, path)?.is_some_and(|disk| !disk.holders.is_empty()) != held {
        if Instant::now() >= deadline {
            fail!(PathStays, "multipathd has left {path} as it was in {map}: see `multipath -ll`");
        }
        host.pause(Duration::from_millis(100))?;
    }
    Ok(())
}

//! Paths and records of portals that the config does not name.

use crate::{
    apply::{context::Run, guard},
    host::{Host, block, iscsi, multipath},
    plan::step::RemovePath,
    terms::{Iqn, Portal},
};
use anyhow::bail;
use std::time::{Duration, Instant};

/// How long the kernel may take to let go of a path. multipathd gives the map a new table at once, or when its queue is empty.
const LIMIT: Duration = Duration::from_secs(30);

/// Has multipathd take a path out of its map, and waits until the map does not hold it any more.
pub fn remove_path(run: &Run<'_>, step: &RemovePath) -> anyhow::Result<String> {
    let RemovePath { map, path, .. } = step;
    let other = guard::another_path_works(run, step)?;
    multipath::remove_path(run.host, path)?;
    let deadline = Instant::now() + LIMIT;
    while block::disk(run.host, path)?.is_some_and(|disk| !disk.holders.is_empty()) {
        if Instant::now() >= deadline {
            bail!("{map} still uses {path} after `multipathd del path {path}`: see `multipath -ll`");
        }
        run.host.pause(Duration::from_millis(100))?;
    }
    Ok(format!("{map} does not use {path} any more; {other} works"))
}

pub fn delete_record(host: &Host, target: &Iqn, portal: &Portal) -> anyhow::Result<String> {
    guard::record_is_free(host, target, portal)?;
    iscsi::delete_record(host, target, portal)?;
    Ok(format!("the record of {portal} is gone"))
}

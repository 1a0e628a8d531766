//! A LUN that has grown at the target: the multipath map, and the filesystem in use.

use crate::{context::Run, guard};
use anyhow::Context as _;
use host::{Host, block, multipath, staging, tree, xfs};
use plan::step::Grow;
use std::time::Duration;
use terms::{Bytes, require};

/// `xfs_growfs` writes the headers of the new allocation groups and the superblocks, a few blocks each.
const LIMIT: Duration = Duration::from_secs(120);

pub fn resize_map(host: &Host, map: &str, to: Bytes) -> anyhow::Result<String> {
    multipath::resize(host, map)?;
    let now = block::disk(host, map)?.context("the map has gone")?.size;
    require!(
        now >= to,
        NotGrown,
        "{map} has {now} after `multipathd resize map`, and its paths have {to}: see `multipath -ll`"
    );
    Ok(format!("{map} has {now}"))
}

/// Grows the filesystem. Nothing is lost if it is cut short: XFS changes its size in one transaction of its log.
pub fn grow(run: &Run<'_>, step: &Grow) -> anyhow::Result<String> {
    let Grow { at, wwid, to, .. } = step;
    let lun = guard::data_is_on_lun(run, at)?;
    require!(lun.wwid.known() == Some(wwid), MountChanged, "the LUN on {at} is {} now, not {wwid}", lun.wwid);
    require!(
        !lun.silent,
        NotGrown,
        "LUN {wwid} does not answer now: see that its target is reachable, then run `etcd-lun apply`"
    );
    require!(lun.least_size() >= *to, NotGrown, "LUN {wwid} has {} now, not {to}", lun.least_size());
    let root = tree::open(&run.host.root.locate(at.as_path()))?;
    let before = staging::space(&root)?.size;
    let said = xfs::grow(run.host, at, LIMIT)?;
    let now = staging::space(&root)?.size;
    require!(now > before, NotGrown, "xfs_growfs left the filesystem on {at} at {before}: {said}");
    Ok(format!("the filesystem on {at} has {now}, was {before}"))
}

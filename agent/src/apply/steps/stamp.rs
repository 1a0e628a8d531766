//! The stamp: removing it, writing it, and advancing the use counter.

use crate::{
    apply::{context::Run, guard, place, record},
    host::{dir, inode, tree},
    node::{
        authority::{Record, Stamp},
        layout::RECORD,
    },
    plan::step::Mark,
};
use anyhow::{Context as _, bail, ensure};

pub fn unstamp(run: &Run<'_>) -> anyhow::Result<String> {
    guard::local_is_authoritative(run)?;
    let staging = run.staging()?;
    inode::remove_attribute(staging.root()?, Stamp::ATTRIBUTE)?;
    staging.sync().context("syncing the LUN")?;
    Ok("the LUN has no stamp".into())
}

/// Stamps the LUN and syncs it. It stays mounted for this program until PID 1 has mounted it, so that what is in the page
/// cache stays there.
pub fn stamp(run: &Run<'_>, stamp: &Stamp) -> anyhow::Result<String> {
    if run.proof.is_none() {
        bail!("the copy was not proven in this run: it is not stamped");
    }
    guard::local_is_authoritative(run)?;
    set_stamp(run, stamp)?;
    Ok(format!("stamped with generation {}", stamp.generation))
}

fn set_stamp(run: &Run<'_>, stamp: &Stamp) -> anyhow::Result<()> {
    let staging = run.staging()?;
    inode::set_attribute(staging.root()?, Stamp::ATTRIBUTE, stamp.to_text()?.as_bytes())?;
    staging.sync().context("syncing the LUN")
}

/// Advances the use counter before a mount: first on the stamp, then in the record. After an interruption between both
/// the LUN is one use ahead, never behind.
pub fn activate(run: &mut Run<'_>, stamp: &Stamp, record: &Record) -> anyhow::Result<String> {
    set_stamp(run, stamp)?;
    run.take_staging()?.unmount().context("unmounting the LUN")?;
    record::write(run.host, record)?;
    Ok(format!("use {} is counted on the LUN and in {}", stamp.activations, RECORD))
}

/// Advances the use counter of a LUN in use, on the stamp only, and syncs it to the device. [`mark_record`] comes after
/// it. After an interruption between both the LUN is one use ahead.
pub fn mark_lun(run: &Run<'_>, step: &Mark) -> anyhow::Result<()> {
    let Mark { at, stamp, record } = step;
    guard::data_is_on_lun(run, at)?;
    let root = tree::open(&run.host.root.locate(at.as_path()))?;
    let now = place::stamp_of(&root)?;
    let recorded = record::read(run.host)?;
    ensure!(
        now.clone().activated(stamp.activations) == *stamp
            && recorded.clone().activated(record.activations) == *record
            && (recorded.activations..stamp.activations).contains(&now.activations),
        "the LUN's stamp or the record has changed: nothing is counted"
    );
    inode::set_attribute(&root, Stamp::ATTRIBUTE, stamp.to_text()?.as_bytes())?;
    dir::sync_filesystem(&root).context("syncing the LUN")
}

/// Advances the use counter in the record, if nothing else in the record has changed since the plan.
pub fn mark_record(run: &Run<'_>, step: &Mark) -> anyhow::Result<String> {
    let Mark { stamp, record, .. } = step;
    let recorded = record::read(run.host)?;
    ensure!(
        recorded.activations < record.activations
            && recorded.clone().activated(record.activations) == *record,
        "the record has changed: use {} is counted on the LUN only",
        stamp.activations
    );
    record::write(run.host, record)?;
    Ok(format!("use {} is counted on the LUN and in {RECORD}", stamp.activations))
}

//! The stamp: removing it, writing it, advancing the use counter, and releasing the LUN.

use crate::{
    apply::{context::Run, guard, place, record},
    host::{dir, inode, tree},
    node::{
        authority::{Authority, LunUse, Record, Stamp},
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

/// Begins a use of the staged LUN: the record announces it, the stamp gets it, the record takes it over. After an interruption
/// the stamp is the record's, or the one that it has announced.
pub fn activate(run: &Run<'_>, stamp: &Stamp) -> anyhow::Result<String> {
    let record = record::read(run.host)?;
    ensure!(record.authority == Authority::Lun, "the record says that the local copy is authoritative");
    let now = place::stamp_of(&run.staging()?.root()?)?;
    guard::same_moment(run, &record, &now)?;
    let next = next_use(stamp)?;
    ensure!(now.used(next) == *stamp, "the LUN's stamp has changed since it was read: no use begins");
    begin_use(run, &record, stamp, next)
}

/// The three writes that begin a use of the staged LUN.
pub fn begin_use(run: &Run<'_>, announcing: &Record, stamp: &Stamp, next: LunUse) -> anyhow::Result<String> {
    record::write(run.host, announcing)?;
    set_stamp(run, stamp)?;
    record::write(run.host, &announcing.clone().used(next))?;
    Ok(format!("use {} is counted on the LUN and in {}", stamp.activations, RECORD))
}

/// The use that a stamp of ours begins.
pub fn next_use(stamp: &Stamp) -> anyhow::Result<LunUse> {
    stamp.last_use().context("the planned stamp has no nonce")
}

/// Says on the stamp of the staged LUN that a rollback has moved its data back.
pub fn release(run: &mut Run<'_>, stamp: &Stamp) -> anyhow::Result<String> {
    guard::rolled_back(run)?;
    let now = place::stamp_of(&run.staging()?.root()?)?;
    ensure!(now.release() == *stamp, "the LUN's stamp has changed since it was read: it is not released");
    set_stamp(run, stamp)?;
    run.take_staging()?.unmount().context("unmounting the LUN")?;
    Ok("the LUN is released".into())
}

/// Announces in the record the use that [`mark_lun`] gives to the stamp.
pub fn announce(run: &Run<'_>, step: &Mark) -> anyhow::Result<()> {
    let now = record::read(run.host)?;
    let is_same =
        |of: &Record| (of.authority, of.generation, of.uuid) == (now.authority, now.generation, now.uuid);
    ensure!(
        is_same(&step.record) && now.activations <= step.record.activations,
        "the record has changed: nothing is counted"
    );
    record::write(run.host, &step.record).map(drop)
}

/// Advances the use counter of a LUN in use, on the stamp only, and syncs it to the device. [`announce`] comes before it,
/// and [`mark_record`] after it.
pub fn mark_lun(run: &Run<'_>, step: &Mark) -> anyhow::Result<()> {
    let Mark { at, stamp, record } = step;
    guard::data_is_on_lun(run, at)?;
    let root = tree::open(&run.host.root.locate(at.as_path()))?;
    let now = place::stamp_of(&root)?;
    let next = next_use(stamp)?;
    ensure!(
        record::read(run.host)? == *record && now.clone().used(next) == *stamp,
        "the LUN's stamp or the record has changed: nothing is counted"
    );
    guard::same_moment(run, record, &now)?;
    inode::set_attribute(&root, Stamp::ATTRIBUTE, stamp.to_text()?.as_bytes())?;
    dir::sync_filesystem(&root).context("syncing the LUN")
}

/// Takes the use over into the record, if nothing else in the record has changed since it was announced.
pub fn mark_record(run: &Run<'_>, step: &Mark) -> anyhow::Result<String> {
    let Mark { stamp, record, .. } = step;
    let next = next_use(stamp)?;
    ensure!(
        record::read(run.host)? == *record,
        "the record has changed: use {} is counted on the LUN only",
        stamp.activations
    );
    record::write(run.host, &record.clone().used(next))?;
    Ok(format!("use {} is counted on the LUN and in {RECORD}", stamp.activations))
}

//! The stamp: removing it, writing it, beginning a use of the LUN, and releasing the LUN.

use super::commit;
use crate::{
    guard,
    machine::{self, Effect, Machine, Place},
};
use anyhow::{Context as _, ensure};
use hands::{Door, Request};
use host::{block, dir, inode, staging::Staging};
use node::{
    authority::{LunUse, Record, Stamp},
    layout::RECORD,
};
use plan::step::Mark;
use std::{ffi::OsStr, os::fd::OwnedFd};
use terms::fail;

/// Removes the stamp of the staged LUN: it holds no copy any more.
pub fn unstamp(machine: &mut dyn Machine) -> anyhow::Result<String> {
    guard::local_is_authoritative(machine)?;
    machine.perform(&Effect::RemoveStamp)?;
    Ok("the LUN has no stamp".into())
}

/// Stamps the LUN and syncs it. It stays mounted for this program until PID 1 has mounted it, so that what is in the page
/// cache stays there.
pub fn stamp(machine: &mut dyn Machine, stamp: &Stamp) -> anyhow::Result<String> {
    ensure!(machine.proof().is_some(), "the copy was not proven in this run");
    guard::local_is_authoritative(machine)?;
    guard::staged_is_ours(machine).context("nothing is stamped")?;
    machine.perform(&Effect::SetStamp { on: Place::Staging, stamp: stamp.clone() })?;
    Ok(format!("stamped with generation {}", stamp.generation))
}

/// Begins a use of the staged LUN: the record announces it, the stamp gets it, the record takes it over. After an interruption
/// the stamp is the record's, or the one that it has announced.
pub fn activate(machine: &mut dyn Machine, stamp: &Stamp) -> anyhow::Result<String> {
    let record = machine::record(machine)?;
    guard::says_lun(&record)?;
    let now = machine::stamp(machine, Place::Staging)?;
    guard::same_moment(machine, &record, &now)?;
    let next = next_use(stamp)?;
    guard::stamp_is(now.clone().used(next) == *stamp, "no use begins")?;
    begin_use(machine, &record.announcing(&now, next), stamp, next)
}

/// The three writes that begin a use of the staged LUN.
pub fn begin_use(
    machine: &mut dyn Machine,
    announcing: &Record,
    stamp: &Stamp,
    next: LunUse,
) -> anyhow::Result<String> {
    commit::write(machine, announcing.clone())?;
    machine.perform(&Effect::SetStamp { on: Place::Staging, stamp: stamp.clone() })?;
    commit::write(machine, announcing.clone().used(next))?;
    Ok(format!("use {} is counted on the LUN and in {}", stamp.activations, RECORD))
}

/// The use that a stamp of ours begins.
pub fn next_use(stamp: &Stamp) -> anyhow::Result<LunUse> {
    stamp.last_use().context("the planned stamp has no nonce")
}

/// Says on the stamp of the staged LUN that a rollback has moved its data back.
pub fn release(machine: &mut dyn Machine, stamp: &Stamp) -> anyhow::Result<String> {
    guard::rolled_back(machine)?;
    let now = machine::stamp(machine, Place::Staging)?;
    guard::stamp_is(now.release() == *stamp, "it is not released")?;
    machine.perform(&Effect::SetStamp { on: Place::Staging, stamp: stamp.clone() })?;
    machine.perform(&Effect::Unstage)?;
    Ok("the LUN is released".into())
}

/// Announces in the record the use that [`mark_lun`] gives to the stamp.
pub fn announce(machine: &mut dyn Machine, step: &Mark) -> anyhow::Result<()> {
    let now = machine::record(machine)?;
    let is_same =
        |of: &Record| (of.authority, of.generation, of.uuid) == (now.authority, now.generation, now.uuid);
    let planned = is_same(&step.record) && now.activations <= step.record.activations;
    guard::record_is(planned, "nothing is counted")?;
    commit::write(machine, step.record.clone()).map(drop)
}

/// Advances the use counter of a LUN in use, on the stamp only, and syncs it to the device. [`announce`] comes before it,
/// and [`mark_record`] after it.
pub fn mark_lun(machine: &mut dyn Machine, step: &Mark) -> anyhow::Result<()> {
    let Mark { at, stamp, record } = step;
    // First: what is held stays, so the look is at what is held.
    machine.hold(at)?;
    machine.data_is_on_lun(at)?;
    let now = machine::stamp(machine, Place::Held)?;
    let next = next_use(stamp)?;
    guard::record_is(machine::record(machine)? == *record, "nothing is counted")?;
    guard::stamp_is(now.clone().used(next) == *stamp, "nothing is counted")?;
    guard::same_moment(machine, record, &now)?;
    // What another computer has written there is the only evidence of it.
    guard::stamp_is(machine::stamp(machine, Place::Device)? == now, "nothing is counted")?;
    machine.perform(&Effect::SetStamp { on: Place::Held, stamp: stamp.clone() })?;
    Ok(())
}

/// Takes the use over into the record, if nothing else in the record has changed since it was announced.
pub fn mark_record(machine: &mut dyn Machine, step: &Mark) -> anyhow::Result<String> {
    let Mark { stamp, record, .. } = step;
    let next = next_use(stamp)?;
    let so = format!("use {} is counted on the LUN only", stamp.activations);
    guard::record_is(machine::record(machine)? == *record, &so)?;
    commit::write(machine, record.clone().used(next))?;
    Ok(format!("use {} is counted on the LUN and in {RECORD}", stamp.activations))
}

/// The stamp of a filesystem, read from its root directory; none if it has no stamp.
pub fn read(root: &OwnedFd) -> anyhow::Result<Option<Stamp>> {
    let Some(text) = inode::attribute(root, Stamp::ATTRIBUTE)? else { return Ok(None) };
    let stamp = Stamp::parse(&String::from_utf8_lossy(&text));
    stamp.map(Some).context("reading the stamp of the filesystem")
}

/// Replaces the stamp of the filesystem with this root directory, and syncs it.
pub fn set_stamp(root: &OwnedFd, stamp: &Stamp) -> anyhow::Result<()> {
    inode::set_attribute(root, Stamp::ATTRIBUTE, stamp.to_text()?.as_bytes())?;
    dir::sync_filesystem(root).context("syncing the LUN")
}

/// Removes the stamp, and syncs that.
pub fn remove_stamp(root: &OwnedFd) -> anyhow::Result<()> {
    inode::remove_attribute(root, Stamp::ATTRIBUTE)?;
    dir::sync_filesystem(root).context("syncing the LUN")
}

/// The stamp is on the LUN itself, and not only in this node's memory. The record is written next, and says what this says: a LUN
/// that has reported a write and lost it would be taken for an old one at the next boot, when nothing can be done any more.
pub fn read_back(door: &Door<'_>, staging: &Staging, stamp: &Stamp) -> anyhow::Result<()> {
    let disk = staging.node().file_name().and_then(OsStr::to_str).context("the LUN's disk has no name")?;
    let settle = Request::Settle { disk: disk.into() };
    door.perform(&settle).context("writing the LUN's filesystem in place, to read the stamp back")?;
    let name = Stamp::ATTRIBUTE.to_str()?.trim_start_matches("trusted.");
    let found = block::trusted_attribute_of_root(staging.node(), name)
        .with_context(|| format!("reading the stamp back from {}", staging.node().display()))?;
    if found.as_deref() == Some(stamp.to_text()?.as_bytes()) {
        return Ok(());
    }
    let holds = match found {
        None => "no stamp",
        Some(_) => "another stamp",
    };
    fail!(
        StorageLosesWrites,
        "{} holds {holds}, though it has reported that the new one is written: the disk, or its target, loses writes. etcd must not run on it: have the storage checked, its write caches first, or take another LUN",
        staging.node().display()
    )
}

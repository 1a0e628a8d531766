//! The copy, and the proof that it is complete: to the staged LUN, and in a rollback to the local disk.

use super::{returning, stage};
use crate::{
    apply::{
        context::{Provisional, Run},
        guard, quiet, users,
        watcher::Watcher,
    },
    host::{
        dir,
        rsync::{self, Cause, Pass, RsyncError},
        staging::Access,
        tree::{self, Summary},
    },
    node::{
        authority::Stamp,
        layout::{RETURNING, STAGING},
    },
    plan::{Way, step::Copy},
    terms::AbsPath,
};
use anyhow::Context as _;
use std::{ffi::CStr, os::fd::OwnedFd, time::Duration};

/// A copy that takes longer than this moves less than 1 MiB/s of an 8 GiB database.
const COPY_LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Where a copy goes. Opened before anything is written, because syncing reports the errors since the open.
#[derive(Debug)]
struct Destination {
    path: AbsPath,
    root: OwnedFd,
}

impl Destination {
    /// Opens the destination, if what it holds may be overwritten.
    fn open(run: &Run<'_>, from: &AbsPath, way: Way) -> anyhow::Result<Self> {
        match way {
            Way::ToLun => {
                let staging = run.staging()?;
                guard::local_is_authoritative(run)?;
                Ok(Self { path: STAGING.parse()?, root: staging.root()? })
            }
            Way::ToLocal { generation } => {
                guard::data_is_on_lun(run, from)?;
                let like = tree::open(&run.host.root.locate(from.as_path()))?;
                let path: AbsPath = format!("{RETURNING}/{generation}").parse()?;
                Ok(Self { root: returning::shelve(run.host, &path, &like)?, path })
            }
        }
    }

    fn sync(&self, way: Way) -> anyhow::Result<()> {
        dir::sync_filesystem(&self.root).with_context(|| format!("syncing {way}"))
    }
}

/// The attribute of the source's root that is not copied: the stamp stays on the LUN, and says that the LUN holds this node's
/// previous generation.
pub fn own_attribute(way: Way) -> Option<&'static CStr> {
    match way {
        Way::ToLun => None,
        Way::ToLocal { .. } => Some(Stamp::ATTRIBUTE),
    }
}

fn rsync(run: &Run<'_>, step: &Copy, to: &Destination, watcher: &mut dyn Watcher) -> Result<(), RsyncError> {
    let pass = if step.onto_empty { Pass::Fill } else { Pass::Update };
    let mut progress = |done| watcher.moved(done, step.size.map(|size| size.0));
    let from = run.host.root.locate(step.from.as_path());
    let to = run.host.root.locate(to.path.as_path());
    rsync::copy(run.host, &from, &to, pass, COPY_LIMIT, &mut progress)
}

/// Copies while etcd writes. The result is inconsistent; its only use is that the copy with etcd stopped takes less
/// time.
pub fn pre_copy(run: &Run<'_>, step: &Copy, watcher: &mut dyn Watcher) -> anyhow::Result<String> {
    what_may_change(run, step, watcher)?;
    Ok("copied while etcd runs".into())
}

/// Files that vanish or change while rsync reads them are expected.
fn what_may_change(run: &Run<'_>, step: &Copy, watcher: &mut dyn Watcher) -> anyhow::Result<()> {
    let to = Destination::open(run, &step.from, step.way)?;
    match rsync(run, step, &to, watcher) {
        Ok(()) => {}
        Err(RsyncError::Failed { cause: Cause::Vanished, .. }) => {
            tracing::debug!("files vanished, as expected")
        }
        Err(error) => return Err(error.into()),
    }
    to.sync(step.way)
}

/// Copies with etcd stopped. A provisional copy needs no guard of its source: a later step proves it, and another one finds
/// out whether the proof counts.
pub fn copy(run: &Run<'_>, step: &Copy, watcher: &mut dyn Watcher) -> anyhow::Result<String> {
    let from = &step.from;
    if step.provisional {
        what_may_change(run, step, watcher)?;
        return Ok(format!("copied {from} while containers end, synced"));
    }
    let to = Destination::open(run, from, step.way)?;
    guard::etcd_is_at_rest(run, from)?;
    let source = tree::open(&run.host.root.locate(from.as_path()))?;
    tree::unsupported(&source, own_attribute(step.way), &run.host.interrupt)
        .context("looking for files that rsync can't copy")?;
    rsync(run, step, &to, watcher)?;
    to.sync(step.way)?;
    Ok(format!("copied {from}, synced"))
}

/// Compares both trees. Before that it unmounts the LUN and mounts it again, so that nothing is read from this node's
/// page cache. The local disk can't be unmounted: there the contents are dropped from memory.
///
/// A provisional proof counts after `confirm`. It is no error if the source changes meanwhile.
pub fn prove(
    run: &mut Run<'_>,
    from: &AbsPath,
    way: Way,
    provisional: bool,
    watcher: &mut dyn Watcher,
) -> anyhow::Result<String> {
    // An earlier proof is not of this copy.
    (run.proof, run.provisional) = (None, None);
    if way == Way::ToLun {
        let staging = run.take_staging()?;
        staging.sync().context("syncing the LUN")?;
        staging.unmount().context("unmounting the LUN, to read it from the device")?;
        stage::remount(run, Access::ReadOnly)?;
    }
    let copy = Destination::open(run, from, way)?;
    if way != Way::ToLun {
        users::nobody_in(run.host, &copy.path)?;
        tree::forget(&copy.root, &run.host.interrupt).context("dropping the copy from memory")?;
    }
    let source = tree::open(&run.host.root.locate(from.as_path()))?;
    let mut progress = |done| watcher.moved(done, None);
    let begun =
        if provisional { quiet::state(run, from, &source, own_attribute(way))?.map(Some) } else { Ok(None) };
    let outcome = match begun {
        Err(why) => Err(why),
        Ok(begun) => match tree::compare(&source, &copy.root, &run.host.interrupt, &mut progress) {
            Err(error) if provisional && error.is_a_change() => Err(error.to_string()),
            same => {
                let same = same.with_context(|| format!("the copy on {way} differs from {from}"))?;
                Ok((same, begun))
            }
        },
    };
    drop(copy);
    if !provisional {
        guard::etcd_is_at_rest(run, from)?;
    }
    if let Some(staging) = run.staging.take() {
        staging.unmount().context("unmounting the LUN after the proof")?;
        stage::remount(run, Access::ReadWrite)?;
    }
    let (Summary { files, directories, bytes, fingerprint }, source) = match outcome {
        Ok(proven) => proven,
        Err(why) => {
            return Ok(format!("not proven yet, because somebody writes to {from} or may do so: {why}"));
        }
    };
    match source {
        Some(source) => run.provisional = Some(Provisional { fingerprint, source }),
        None => run.proof = Some(fingerprint),
    }
    Ok(format!("both are the same: {files} files, {directories} directories, {bytes}, {fingerprint}"))
}

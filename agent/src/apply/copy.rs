//! The copy, and the proof that it is one.

use super::{Watcher, guard, lun, run::Run};
use crate::{
    host::{
        rsync::{self, Cause, Pass, RsyncError},
        staging::Access,
        tree,
    },
    plan::STAGING,
    terms::{AbsPath, Bytes},
};
use anyhow::{Context as _, anyhow};
use std::time::Duration;

/// A copy that takes longer than this moves less than 1 MiB/s of an 8 GiB database.
const COPY_LIMIT: Duration = Duration::from_secs(3 * 3600);

/// What a copy step asks for.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    pub from: &'a AbsPath,
    pub size: Option<Bytes>,
    pub onto_empty: bool,
}

fn rsync(run: &Run<'_>, wish: &Wish<'_>, watcher: &mut dyn Watcher) -> Result<(), RsyncError> {
    let pass = if wish.onto_empty { Pass::Fill } else { Pass::Update };
    let mut progress = |done| watcher.moved(done, wish.size.map(|size| size.0));
    let from = run.host.root.locate(wish.from.as_path());
    let to = run.host.root.locate(STAGING);
    rsync::copy(run.host, &from, &to, pass, COPY_LIMIT, &mut progress)
}

/// Copies while etcd writes. What comes out is no copy of any moment; it only makes the next one
/// short. Files that vanish or change under rsync's hands are expected.
pub(super) fn pre_copy(run: &Run<'_>, wish: &Wish<'_>, watcher: &mut dyn Watcher) -> anyhow::Result<String> {
    let staging = run.staging.as_ref().ok_or_else(not_staged)?;
    guard::not_the_truth(run)?;
    match rsync(run, wish, watcher) {
        Ok(()) => {}
        Err(RsyncError::Failed { cause: Cause::Vanished, .. }) => {
            tracing::debug!("files vanished, as expected")
        }
        Err(error) => return Err(error.into()),
    }
    staging.sync().context("syncing the LUN")?;
    Ok("copied while etcd runs".into())
}

/// Copies what is at rest.
pub(super) fn copy(run: &Run<'_>, wish: &Wish<'_>, watcher: &mut dyn Watcher) -> anyhow::Result<String> {
    let from = wish.from;
    let staging = run.staging.as_ref().ok_or_else(not_staged)?;
    guard::not_the_truth(run)?;
    guard::etcd_is_at_rest(run, from)?;
    let source = tree::open(&run.host.root.locate(from.as_path()))?;
    tree::unsupported(&source, &run.host.interrupt).context("looking for what rsync would leave behind")?;
    rsync(run, wish, watcher)?;
    staging.sync().context("syncing the LUN")?;
    Ok(format!("copied {from}, synced"))
}

/// Compares both trees. The LUN is unmounted and mounted anew between the copy and the look, so
/// that nothing of what is read comes from a cache of this node.
pub(super) fn prove(run: &mut Run<'_>, from: &AbsPath, watcher: &mut dyn Watcher) -> anyhow::Result<String> {
    let staging = run.staging.take().ok_or_else(not_staged)?;
    staging.sync().context("syncing the LUN")?;
    staging.unmount().context("unmounting the LUN, to read it from the device")?;
    lun::remount(run, Access::ReadOnly)?;
    let staging = run.staging.as_ref().ok_or_else(not_staged)?;
    let source = tree::open(&run.host.root.locate(from.as_path()))?;
    let copy = staging.root()?;
    let mut progress = |done| watcher.moved(done, None);
    let summary = tree::compare(&source, &copy, &run.host.interrupt, &mut progress)
        .context("the copy on the LUN is not what is on the local disk")?;
    drop(copy);
    guard::etcd_is_at_rest(run, from)?;
    if let Some(staging) = run.staging.take() {
        staging.unmount().context("unmounting the LUN after the proof")?;
    }
    lun::remount(run, Access::ReadWrite)?;
    run.proof = Some(summary.fingerprint);
    Ok(format!(
        "both are the same: {} files, {} directories, {}, BLAKE3 {}",
        summary.files, summary.directories, summary.bytes, summary.fingerprint
    ))
}

pub(super) fn not_staged() -> anyhow::Error {
    anyhow!("the LUN is not staged in this run; apply again")
}

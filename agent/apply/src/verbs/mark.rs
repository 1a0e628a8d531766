//! Advancing the LUN's use counter while etcd runs on it.

use crate::{
    alone,
    context::Run,
    outcome::Failure,
    steps::{look, stamp},
    watcher::Silent,
};
use anyhow::Context as _;
use config::Config;
use hands::Door;
use host::{
    Host,
    filelock::{Lock, LockError},
};
use node::{Identity, layout::MARK_LOCK};
use observe::{Asked, Viewpoint, secrets::Secrets};
use plan::{MarkPlan, SkipReason};
use terms::AbsPath;

/// The result of [`mark`].
#[derive(Debug)]
pub enum Marked {
    /// The counter was advanced; the text says to what.
    Counted(String),
    /// There was nothing to do, for this reason.
    Idle(SkipReason),
    /// Another run holds the lock. The timer tries again.
    Busy(LockError),
}

/// Advances the use counter if etcd's data is on the LUN and the LUN is mounted for etcd. It never mounts, logs in or
/// starts anything, and never waits for a run of `apply`.
///
/// It holds the lock of `apply` while it plans and while it writes the record, before and after the stamp, and not while it writes to the LUN: if the
/// target falls silent just then, that write cannot be ended until the target is back, and `apply` must be able to run.
/// No run of `apply` can write to the stamp meanwhile: it does so only while the LUN is not mounted on the data
/// directory, and the open directory keeps it mounted. The record is written only if it is still the one that was
/// planned with; otherwise the LUN has the use that the record announces, as after an interruption.
pub fn mark(door: &Door<'_>, config: &Config, identity: &Identity) -> Result<Marked, Failure> {
    let host = door.host;
    alone::make_directories(door)?;
    // Two at a time could write a lower count over a higher one.
    let mark_lock: AbsPath = MARK_LOCK.parse().map_err(anyhow::Error::from)?;
    let _only = match take(host, &mark_lock)? {
        Ok(lock) => lock,
        Err(busy) => return Ok(Marked::Busy(busy)),
    };
    let alone = match take(host, &alone::lock_path()?)? {
        Ok(lock) => lock,
        Err(busy) => return Ok(Marked::Busy(busy)),
    };
    let node = observe::node(door, config, identity.clone(), Viewpoint::Reader, Asked::NOTHING);
    let no_secrets = Secrets::default();
    let mut silent = Silent;
    let mut run = Run::new(door, config, &no_secrets, identity, &mut silent);
    let planned = plan::mark(config, &node);
    // XFS may need half a minute for the last use. LUNs that a rescan has brought wait for nothing.
    let serves = matches!(planned, Ok(MarkPlan::Advance(_) | MarkPlan::Skip(SkipReason::NotInPlace)));
    if let Some(iscsi) = config.backing.iscsi().filter(|_| serves) {
        let forgotten = look::forget_rescanned(door, iscsi);
        forgotten.unwrap_or_else(|error| tracing::warn!("LUNs that are not ours stay attached: {error:#}"));
    }
    let step = match planned {
        Ok(MarkPlan::Advance(step)) => step,
        Ok(MarkPlan::Skip(why)) => return Ok(Marked::Idle(why)),
        Err(refusal) => {
            // For the next time: somebody may have labelled the disk anew.
            if refusal.depends_on_login() {
                run.look_again().context("reading the LUN again")?;
            }
            return Err(refusal.into());
        }
    };
    stamp::announce(&mut run, &step).context("in step mark")?;
    drop(alone);
    stamp::mark_lun(&mut run, &step).context("in step mark")?;
    match take(host, &alone::lock_path()?)? {
        Ok(_alone) => Ok(Marked::Counted(stamp::mark_record(&mut run, &step).context("in step mark")?)),
        Err(_) => Ok(Marked::Counted(format!(
            "use {} is counted on the LUN, and in the record the next time, because another run has begun",
            step.stamp.activations
        ))),
    }
}

/// The lock, or who holds it.
fn take(host: &Host, path: &AbsPath) -> Result<Result<Lock, LockError>, Failure> {
    match Lock::take(host, path) {
        Ok(lock) => Ok(Ok(lock)),
        Err(busy @ LockError::Held { .. }) => Ok(Err(busy)),
        Err(error) => Err(Failure::Error(error.into())),
    }
}

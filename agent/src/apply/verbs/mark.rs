//! Advancing the LUN's use counter while etcd runs on it.

use crate::{
    apply::{alone, context::Run, dispatch, outcome::Failure, secrets::Secrets, watcher::Watcher},
    config::Config,
    host::{
        Host,
        filelock::{Lock, LockError},
    },
    node::Identity,
    observe::{self, Viewpoint},
    plan::{self, MarkPlan, SkipReason},
};
use anyhow::Context as _;

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
pub fn mark(
    host: &Host,
    config: &Config,
    identity: &Identity,
    watcher: &mut dyn Watcher,
) -> Result<Marked, Failure> {
    let _lock = match Lock::take(host, &alone::lock_path()?) {
        Ok(lock) => lock,
        Err(busy @ LockError::Held { .. }) => return Ok(Marked::Busy(busy)),
        Err(error) => return Err(Failure::Error(error.into())),
    };
    let node = observe::node(host, config, identity.clone(), Viewpoint::Reader);
    let step = match plan::mark(config, &node)? {
        MarkPlan::Advance(step) => step,
        MarkPlan::Skip(why) => return Ok(Marked::Idle(why)),
    };
    let no_secrets = Secrets::default();
    let mut run = Run::new(host, config, &no_secrets, identity);
    let said = dispatch::step(&mut run, &step, watcher).context("in step mark")?;
    Ok(Marked::Counted(said))
}

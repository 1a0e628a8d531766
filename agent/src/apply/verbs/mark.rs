//! Counting a use of the LUN while etcd runs on it.

use crate::{
    apply::{alone, context::Run, dispatch, outcome::Failure, secrets::Secrets, watcher::Watcher},
    config::Config,
    host::{
        Host,
        filelock::{Lock, LockError},
    },
    node::Identity,
    observe::{self, Viewpoint},
    plan::{self, Idle, Mark},
};
use anyhow::Context as _;

/// How it came out.
#[derive(Debug)]
pub enum Marked {
    /// What was written.
    Counted(String),
    /// There was nothing to count.
    Idle(Idle),
    /// Another run is at work; it is named. The next time will do.
    Busy(LockError),
}

/// Counts a use once more where etcd's data is on the LUN and the LUN in its place. Never mounts, logs in or starts
/// anything, and never waits for a run of `apply`.
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
        Mark::Due(step) => step,
        Mark::Idle(why) => return Ok(Marked::Idle(why)),
    };
    let no_secrets = Secrets::default();
    let mut run = Run::new(host, config, &no_secrets, identity);
    let said = dispatch::step(&mut run, &step, watcher).context("in step mark")?;
    Ok(Marked::Counted(said))
}

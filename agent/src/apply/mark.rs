//! Counting a use of the LUN while etcd runs on it.

use super::{Failure, Watcher, alone::lock_path, guard, local, run::Run, secrets::Secrets};
use crate::{
    config::Config,
    host::{
        Host, dir,
        filelock::{Lock, LockError},
        inode, tree,
    },
    node::{
        Identity,
        authority::{Record, Stamp},
        layout::RECORD,
    },
    observe::{self, Viewpoint},
    plan::{self, Idle, Mark},
    terms::AbsPath,
};
use anyhow::{Context as _, ensure};

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
    let _lock = match Lock::take(host, &lock_path()?) {
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
    let said = Run::new(host, config, &no_secrets, identity).step(&step, watcher).context("in step mark")?;
    Ok(Marked::Counted(said))
}

/// First the stamp, on the device, then the record, as at a mount: cut short between them, the LUN is one ahead.
pub(super) fn count(run: &Run<'_>, at: &AbsPath, stamp: &Stamp, record: &Record) -> anyhow::Result<String> {
    guard::data_is_on_lun(run, at)?;
    let root = tree::open(&run.host.root.locate(at.as_path()))?;
    let text = inode::attribute(&root, Stamp::ATTRIBUTE)?.context("what is mounted has no stamp")?;
    let now =
        Stamp::parse(&String::from_utf8_lossy(&text)).context("reading the stamp of what is mounted")?;
    let recorded = guard::record(run.host)?.context("the record is gone")?;
    ensure!(
        now.clone().activated(stamp.activations) == *stamp
            && recorded.clone().activated(record.activations) == *record
            && (recorded.activations..stamp.activations).contains(&now.activations),
        "the LUN's stamp or the record has changed: nothing is counted"
    );
    inode::set_attribute(&root, Stamp::ATTRIBUTE, stamp.to_text()?.as_bytes())?;
    dir::sync_filesystem(&root).context("syncing the LUN")?;
    local::write_record(run.host, record)?;
    Ok(format!("use {} is counted on the LUN and in {RECORD}", stamp.activations))
}

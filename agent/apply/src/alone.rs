//! One run at a time, and the end of processes that a killed run left.

use super::{
    run_file::{self, RunFile, RunState},
    watcher::Watcher,
};
use anyhow::Context as _;
use hands::{Door, Requester};
use host::{
    Host, Tool,
    filelock::{Lock, LockError},
    mountinfo, process, selinux,
};
use node::layout::{LOCK, RETURNING, RUN_FILE, RUNTIME_DIR, STAGING, STAGING_BY_HAND};
use policy::{HANDS_LABEL, RUNTIME_LABEL};
use std::time::{Duration, Instant};
use terms::{AbsPath, fail};
use unit::HANDS_DIR;

/// The directories in /run, each with the label that the service needs.
pub(super) const DIRECTORIES: [(&str, &str); 2] = [(RUNTIME_DIR, RUNTIME_LABEL), (HANDS_DIR, HANDS_LABEL)];

pub(super) fn lock_path() -> anyhow::Result<AbsPath> {
    Ok(LOCK.parse()?)
}

/// The service, which may make no directory in /run, finds them there.
pub(super) fn make_directories(door: &Door<'_>) -> anyhow::Result<()> {
    if door.requester == Requester::Person { make_labelled(door.host) } else { Ok(()) }
}

/// Makes the directories in /run with the labels that the service needs, before the first lock of a run: its file gets its label
/// from its directory. Nobody else gives them these labels: in another domain a new directory has the label of /run.
pub(super) fn make_labelled(host: &Host) -> anyhow::Result<()> {
    if selinux::enforces(host)?.is_none() {
        return Ok(());
    }
    for (dir, label) in DIRECTORIES {
        host.root.make_dir(dir, 0o700).context("making the directories of this run")?;
        if selinux::knows(host, label)? && selinux::label_of(host, dir)?.as_deref() != Some(label) {
            selinux::set_label_of(host, dir, label).with_context(|| format!("labelling {dir}"))?;
        }
    }
    Ok(())
}

/// The right to run, or the run that has it.
#[derive(Debug)]
pub enum Turn<'a> {
    /// It is this run's. The lock is released at its end.
    Ours(Lock, RunFile<'a>),
    /// Another run has it.
    Taken(Box<RunState>),
}

/// Takes the lock for a run of this verb, and says so in the file of the run. If another run holds the lock, returns what
/// that one says. A holder that says nothing (`mark`, `retired delete`) is waited for as in [`take_lock`].
pub fn turn<'a>(door: &Door<'a>, verb: &str) -> anyhow::Result<Turn<'a>> {
    let (host, deadline) = (door.host, Instant::now() + BRIEF);
    make_directories(door)?;
    let path = lock_path()?;
    loop {
        let (by, held) = match Lock::take(host, &path) {
            Ok(lock) => return Ok(Turn::Ours(lock, RunFile::begin(host, verb))),
            Err(LockError::Held { path, by }) => (by.clone(), LockError::Held { path, by }),
            Err(error) => return Err(error.into()),
        };
        let is_late = Instant::now() >= deadline;
        match run_file::read(host) {
            // The file of a run that was killed names another process.
            Ok(Some(run)) if run.result.is_none() && run.may_be(by.pid) => {
                return Ok(Turn::Taken(Box::new(run)));
            }
            Err(why) if is_late => fail!(
                AnotherRun,
                "{by} runs already, and what it does cannot be read from {RUN_FILE} ({why}): wait for its end, `journalctl -t etcd-lun -f` shows it"
            ),
            _ if is_late => return Err(held.into()),
            _ => {}
        }
        host.pause(Duration::from_millis(100))?;
    }
}

/// Returns true if a run holds the lock now.
pub fn is_taken(host: &Host) -> anyhow::Result<bool> {
    match Lock::take(host, &lock_path()?) {
        Ok(_) => Ok(false),
        Err(LockError::Held { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The timer's `mark` holds the lock only for a moment.
const BRIEF: Duration = Duration::from_secs(5);

/// Takes the lock. It waits a few seconds, because the timer's `mark` holds the lock only for a moment.
pub(super) fn take_lock(door: &Door<'_>) -> anyhow::Result<Lock> {
    let (host, deadline) = (door.host, Instant::now() + BRIEF);
    make_directories(door)?;
    let path = lock_path()?;
    loop {
        match Lock::take(host, &path) {
            Err(LockError::Held { .. }) if Instant::now() < deadline => {}
            taken => return Ok(taken?),
        }
        host.pause(Duration::from_millis(100))?;
    }
}

/// Ends what a killed run left, and waits until it is gone.
///
/// A killed run leaves its rsync. That process continues to write where the next run writes, and it keeps the staging
/// mount alive, so that the LUN would be refused as in use. This run holds the lock, and nobody else mounts anything at
/// the staging place. So a process that still sees that mount, or that copies to the staged copy of a rollback, was
/// started by a killed run.
pub(super) fn wait_for_leftovers(host: &Host, watcher: &mut dyn Watcher) -> anyhow::Result<()> {
    const LIMIT: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + LIMIT;
    let mut noted = false;
    loop {
        let left = leftovers(host).context("looking for processes that an earlier run left")?;
        let Some((pid, comm)) = left.first() else { return Ok(()) };
        if Instant::now() >= deadline {
            // The planner or a guard names the process, if it is still there.
            return Ok(());
        }
        if !noted {
            watcher.noted(&format!("ending {comm} (pid {pid}), left by a run that was killed"));
            noted = true;
        }
        // Terminated in each round: one process of each namespace is listed, and rsync runs as three processes.
        for (pid, _) in left.iter().filter(|(_, comm)| comm == Tool::Rsync.program()) {
            process::terminate(*pid).context("ending a process that an earlier run left")?;
        }
        host.pause(Duration::from_millis(200)).context("waiting for processes that an earlier run left")?;
    }
}

fn leftovers(host: &Host) -> anyhow::Result<Vec<(u32, String)>> {
    let mut left = process::with_argument_below(host, &RETURNING.parse()?)?;
    for place in [STAGING, STAGING_BY_HAND] {
        let holders = mountinfo::holders_of_place(host, place)?;
        left.extend(holders.into_iter().map(|holder| (holder.pid, holder.comm)));
    }
    Ok(left)
}

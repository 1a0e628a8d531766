//! The lock of open-iscsi's record database, taken the way open-iscsi takes it.
//!
//! The lock is a link named `lock.write`. `link(2)` fails while it exists, and open-iscsi tries again every 10 ms for
//! 30 s (`idbm_lock`, usr/idbm.c). open-iscsi links its file `lock`. It never breaks a lock, so the lock of a killed
//! process stays until the next boot. open-iscsi doesn't care which file is linked. So we link a file of our own, on
//! which we hold a flock(2). If `lock.write` is that file and nobody holds its flock, a killed etcd-lun left it, and we
//! remove it.

use crate::{Host, interrupt::Interrupt, root::absent_is_none, root::at};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// `LOCK_DIR`, usr/initiator.h. All distributions have had this directory since 2.1.
const DIR: &str = "/run/lock/iscsi";
/// `DB_LOCK_USECS_WAIT`, usr/idbm.h.
const PAUSE: Duration = Duration::from_millis(10);
/// `DB_LOCK_RETRIES`, usr/idbm.h.
const TRIES: u32 = 3000;

/// The lock on the database, held until this is dropped. Hold it for file work only: releases before 2.1.10 continue
/// without the lock if they have not got it within 30 s.
#[derive(Debug)]
pub(super) struct DatabaseLock {
    write: PathBuf,
    _own: File,
}

impl DatabaseLock {
    /// Waits for the lock for up to 30 s. After that the error's kind is [`io::ErrorKind::TimedOut`].
    pub(super) fn take(host: &Host) -> io::Result<Self> {
        Self::take_within(host, TRIES)
    }

    fn take_within(host: &Host, tries: u32) -> io::Result<Self> {
        host.root.make_dir(DIR, 0o700)?;
        let (own, write) = paths(host);
        let file = open(&own)?;
        wait(&host.interrupt, tries, &own, || held(&file, &own))?;
        remove_stale(&file, &write)?;
        let linked = || match fs::hard_link(&own, &write) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(at(&write, &error)),
        };
        wait(&host.interrupt, tries, &write, linked)?;
        Ok(Self { write, _own: file })
    }
}

/// Removes the lock of the database if a killed run of this program left it. Until then every open-iscsi program waits
/// for it. The functions in this module that write to the database remove it themselves; functions that read through
/// iscsiadm do not. Does nothing while a run holds the lock.
pub fn clear_stale_lock(host: &Host) -> io::Result<()> {
    let (own, write) = paths(host);
    if absent_is_none(fs::symlink_metadata(&write).map_err(|error| at(&write, &error)))?.is_none() {
        return Ok(());
    }
    let file = open(&own)?;
    if held(&file, &own)? { remove_stale(&file, &write) } else { Ok(()) }
}

fn paths(host: &Host) -> (PathBuf, PathBuf) {
    let dir = host.root.locate(DIR);
    (dir.join("lock.etcd-lun"), dir.join("lock.write"))
}

fn open(own: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(own);
    file.map_err(|error| at(own, &error))
}

/// Tries to lock our own file. The kernel releases the lock when the file is closed, and when the process is killed.
fn held(file: &File, own: &Path) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(at(own, &error)),
    }
}

/// Removes the lock if it is `own`. The caller holds the flock on `own`, so no other process holds the lock.
fn remove_stale(own: &File, write: &Path) -> io::Result<()> {
    let attempt = || -> io::Result<()> {
        let Some(found) = absent_is_none(fs::symlink_metadata(write))? else { return Ok(()) };
        let ours = own.metadata()?;
        if (found.dev(), found.ino()) != (ours.dev(), ours.ino()) {
            return Ok(());
        }
        tracing::warn!("removing {}, left by a killed run", write.display());
        fs::remove_file(write)
    };
    attempt().map_err(|error| at(write, &error))
}

impl Drop for DatabaseLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.write) {
            tracing::warn!("releasing {}: {error}", self.write.display());
        }
    }
}

fn wait(
    interrupt: &Interrupt,
    tries: u32,
    what: &Path,
    mut attempt: impl FnMut() -> io::Result<bool>,
) -> io::Result<()> {
    for _ in 0..tries {
        if attempt()? {
            return Ok(());
        }
        if interrupt.is_requested() {
            return Err(io::Error::other(format!("interrupted while waiting for {}", what.display())));
        }
        std::thread::sleep(PAUSE);
    }
    let waited = (PAUSE * tries).as_secs();
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        format!(
            "{} is held by another program for {waited} s; if it stays while no iscsiadm runs, remove it",
            what.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::tests::Fixture;

    #[test]
    fn excludes_open_iscsi_and_ourselves() {
        let fixture = Fixture::new("lock");
        let host = &fixture.host;
        let write = host.root.locate("/run/lock/iscsi/lock.write");
        let lock = DatabaseLock::take(host).unwrap();
        // iscsiadm would do this now.
        let iscsiadm = host.root.locate("/run/lock/iscsi/lock");
        fs::write(&iscsiadm, "").unwrap();
        assert_eq!(fs::hard_link(&iscsiadm, &write).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(DatabaseLock::take_within(host, 2).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(lock);
        fs::hard_link(&iscsiadm, &write).unwrap();
        clear_stale_lock(host).unwrap();
        let error = DatabaseLock::take_within(host, 2).unwrap_err();
        assert!(error.to_string().contains("lock.write is held by another program"), "{error}");
        assert!(write.is_file(), "a lock of others is never broken");
    }

    #[test]
    fn breaks_only_what_a_killed_run_of_ours_left() {
        let fixture = Fixture::new("stale-lock");
        let host = &fixture.host;
        let write = host.root.locate("/run/lock/iscsi/lock.write");
        let own = host.root.locate("/run/lock/iscsi/lock.etcd-lun");
        drop(DatabaseLock::take(host).unwrap());
        assert!(!write.is_file());
        for heal in [clear_stale_lock, |host: &Host| DatabaseLock::take_within(host, 1).map(drop)] {
            fs::hard_link(&own, &write).unwrap(); // as a killed holder leaves it
            heal(host).unwrap();
            assert!(!write.is_file());
        }
        let _lock = DatabaseLock::take(host).unwrap();
        clear_stale_lock(host).unwrap();
        assert!(write.is_file(), "a run that lives keeps its lock");
    }
}

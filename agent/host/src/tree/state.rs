//! The state of a tree by its metadata only: whether anything was written to it since.

use super::{
    Side, TreeError,
    types::shown,
    walk::{Meta, Walk},
};
use crate::Interrupt;
use rustix::fd::AsFd;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The metadata of every entry of a tree: type, mode, owner, group, size, links, `mtime`, `ctime`, inode.
///
/// The kernel sets `ctime` at every change of an entry's content or metadata, and of a directory's names. So two equal
/// states mean that nobody wrote between them, if the first one is older than its [`newest`](Self::newest) entry by more
/// than the resolution of those times, and if nobody had a file open then. Three ways around this need the rights of root:
/// setting the clock, writing to the device, and a handle of XFS that leaves times alone (`XFS_IOC_OPEN_BY_HANDLE`).
#[derive(Debug)]
pub struct State {
    /// When it was taken, since 1970.
    taken: Duration,
    entries: BTreeMap<Vec<u8>, Meta>,
}

/// Reads the metadata of every entry of a tree.
pub fn state(root: impl AsFd, interrupt: &Interrupt) -> Result<State, TreeError> {
    // Before the entries: each of them is read later than this.
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut walk = Walk::new(root.as_fd(), Side::Source, interrupt)?;
    let mut entries = BTreeMap::new();
    while let Some(entry) = walk.next()? {
        entries.insert(entry.path, entry.meta);
    }
    Ok(State { taken, entries })
}

impl State {
    /// The entry that was changed last, and how long before this state was taken. Zero for a time in the future.
    pub fn newest(&self) -> (String, Duration) {
        let newest = self.entries.iter().max_by_key(|(_, meta)| meta.ctime);
        newest.map_or((String::new(), Duration::ZERO), |(path, meta)| {
            let (seconds, nanoseconds) = meta.ctime;
            let changed = Duration::new(seconds.try_into().unwrap_or(0), nanoseconds);
            (shown(path), self.taken.saturating_sub(changed))
        })
    }

    /// The state without the root itself, whose `ctime` changes when the tree is moved.
    pub fn beneath(mut self) -> Self {
        self.entries.remove(&b""[..]);
        self
    }

    /// The first entry that a later state has not, or has otherwise, and what has become of it.
    pub fn difference(&self, later: &Self) -> Option<String> {
        let changed = self.entries.iter().find_map(|(path, meta)| match later.entries.get(path) {
            None => Some((path, "was removed")),
            Some(now) if now != meta => Some((path, "was written")),
            Some(_) => None,
        });
        let made = || later.entries.keys().find(|path| !self.entries.contains_key(*path));
        let (path, what) = changed.or_else(|| Some((made()?, "was made")))?;
        Some(format!("{} {what}", shown(path)))
    }
}

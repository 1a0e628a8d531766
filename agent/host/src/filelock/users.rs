//! Who uses a file, or anything in a directory.

use super::{
    file::{FileId, vanished},
    locks,
    processes::{self, How},
};
use crate::{Host, exec::one_line, root::at, xfs};
use std::{
    collections::{BTreeSet, HashSet},
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// A process that uses a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its id in our PID namespace; none if the holder of a lock is in another PID namespace or unknown.
    pub pid: Option<u32>,
    /// Its name, at most 15 bytes: proc_pid_comm(5).
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "{} (pid {pid})", self.command),
            None => f.write_str("a process that can't be seen from here"),
        }
    }
}

/// A file, directory or mapping that a process has open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Open {
    /// The process.
    pub holder: Holder,
    /// The path as the kernel prints it. It may be the path in another mount namespace, and may end with ` (deleted)`.
    pub path: PathBuf,
}

/// The processes that hold a lock on a file, have it open for writing, or map it.
///
/// An empty list if there is no such file. A process that ends meanwhile is left out. A process that may not be looked
/// at is an error.
///
/// Locks are compared by the device number of the filesystem. On XFS and ext4 that is the device number of the files
/// too. On btrfs and overlayfs it is not: there a lock is only found by the open file that it belongs to. On a
/// filesystem that has shut down every process that has anything open there is listed.
pub fn holders(host: &Host, path: impl AsRef<Path>) -> io::Result<Vec<Holder>> {
    let path = path.as_ref();
    let full = host.root.locate(path);
    if xfs::is_shut_down(&full) {
        return Ok(left_open(host)?.into_iter().map(|open| open.holder).collect());
    }
    let Some(file) = FileId::of(&full)? else { return Ok(Vec::new()) };
    let mut found = BTreeSet::new();
    processes::each_use(host, &mut |pid, used| {
        if used.id == Some(file) && (used.is_for_writing()? || used.how == How::Mapping) {
            found.extend(holder(host, pid)?);
        }
        Ok(())
    })?;
    // After the processes, so that a lock that was taken meanwhile is found.
    found.extend(lock_holders_beside(host, path, !found.is_empty())?);
    Ok(found.into_iter().collect())
}

/// The processes that have locked a file. To find them takes much less time than to see what every process has open. If
/// none of them can be seen from here, the list is one [`Holder`] without an id.
///
/// etcd locks its database for as long as it has it open (bbolt `bolt_unix.go`, `flock`). A process that only reads the
/// file has no lock. The list is empty if the filesystem has shut down.
pub fn lock_holders(host: &Host, path: impl AsRef<Path>) -> io::Result<Vec<Holder>> {
    lock_holders_beside(host, path, false)
}

/// Returns the holders, where it is known already whether a process has the file open. Then a holder that can't be seen
/// is left out: a process that inherited its lock has the file open.
pub fn lock_holders_beside(host: &Host, path: impl AsRef<Path>, is_open: bool) -> io::Result<Vec<Holder>> {
    let full = host.root.locate(path);
    if xfs::is_shut_down(&full) {
        return Ok(Vec::new());
    }
    let Some(file) = FileId::of(&full)? else { return Ok(Vec::new()) };
    let lockers = lockers(host, file)?;
    let mut found = Vec::new();
    for pid in lockers.iter().flatten() {
        found.extend(holder(host, *pid)?);
    }
    if found.is_empty() && !lockers.is_empty() && !is_open {
        found.push(Holder { pid: None, command: String::new() });
    }
    Ok(found)
}

/// Returns the files that processes have open in a directory and below it, on the same filesystem: files, working
/// directories, roots and mappings, also through bind mounts in other namespaces.
///
/// An empty list if there is no such directory. For errors and filesystems that have shut down see [`holders`].
pub fn open_below(host: &Host, dir: impl AsRef<Path>) -> io::Result<Vec<Open>> {
    let dir = dir.as_ref();
    let full = host.root.locate(dir);
    if xfs::is_shut_down(&full) {
        return left_open(host);
    }
    let Some(top) = FileId::of(&full)? else { return Ok(Vec::new()) };
    let inodes = inodes_below(&full, top)?;
    let mut found = BTreeSet::new();
    processes::each_use(host, &mut |pid, used| {
        // By inode, because another mount namespace has other paths. By path too, because a deleted file is in no
        // directory. The path alone is not enough: a container has its own /var.
        let is_below = |id: &FileId| used.path.starts_with(dir) || inodes.contains(&id.inode);
        if used.id.is_some_and(|id| id.is_on_filesystem_of(top) && is_below(&id)) {
            let open = |holder| Open { holder, path: used.path.clone() };
            found.extend(holder(host, pid)?.map(open));
        }
        Ok(())
    })?;
    Ok(found.into_iter().collect())
}

/// Returns the files with a name that is meant which these processes have open, and for each of them whether it is in a directory or
/// below it, on the same filesystem. A filesystem that has shut down is an error.
pub fn open_by(
    host: &Host,
    pids: &[u32],
    dir: impl AsRef<Path>,
    is_meant: impl Fn(&Path) -> bool,
) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut open = Vec::new();
    for pid in pids {
        processes::each_use_by(host, *pid, &mut |_, used| {
            if is_meant(&used.path) {
                let id = used.id.ok_or_else(|| {
                    io::Error::other(format!("{}: its filesystem has shut down", used.path.display()))
                })?;
                open.push((used.path.clone(), id));
            }
            Ok(())
        })?;
    }
    // After the files, so that one that was made meanwhile is found below the directory.
    let full = host.root.locate(dir);
    let top = FileId::of(&full)?;
    let inodes = top.map(|top| inodes_below(&full, top)).transpose()?.unwrap_or_default();
    let is_below =
        |id: FileId| top.is_some_and(|top| id.is_on_filesystem_of(top)) && inodes.contains(&id.inode);
    Ok(open.into_iter().map(|(path, id)| (path, is_below(id))).collect())
}

/// Returns the files that processes have open on filesystems that have shut down. Such a filesystem doesn't report the
/// inodes of its files, and a path may be that of another mount namespace. So the list may have files that the caller
/// doesn't look for.
fn left_open(host: &Host) -> io::Result<Vec<Open>> {
    let mut found = BTreeSet::new();
    processes::each_use(host, &mut |pid, used| {
        if used.id.is_none() {
            let open = |holder| Open { holder, path: used.path.clone() };
            found.extend(holder(host, pid)?.map(open));
        }
        Ok(())
    })?;
    Ok(found.into_iter().collect())
}

/// Every inode of a tree that is on the filesystem of its top.
fn inodes_below(full: &Path, top: FileId) -> io::Result<HashSet<u64>> {
    let mut inodes = HashSet::from([top.inode]);
    let mut waiting = vec![full.to_owned()];
    while let Some(dir) = waiting.pop() {
        let Some(entries) = vanished(fs::read_dir(&dir)).map_err(|error| at(&dir, &error))? else {
            continue;
        };
        for entry in entries {
            let path = entry.map_err(|error| at(&dir, &error))?.path();
            let Some(id) = FileId::of_entry(&path)?.filter(|id| id.is_on_filesystem_of(top)) else {
                continue;
            };
            if inodes.insert(id.inode) && id.is_directory {
                waiting.push(path);
            }
        }
    }
    Ok(inodes)
}

/// The process by its id, unless it has ended.
pub(super) fn holder(host: &Host, pid: u32) -> io::Result<Option<Holder>> {
    let path = format!("/proc/{pid}/comm");
    let read = vanished(fs::read(host.root.locate(&path))).map_err(|error| at(path.as_ref(), &error))?;
    Ok(read.map(|comm| Holder { pid: Some(pid), command: one_line(&String::from_utf8_lossy(&comm)) }))
}

/// The processes that took the locks on a file; none for an owner that is unknown.
pub(super) fn lockers(host: &Host, file: FileId) -> io::Result<BTreeSet<Option<u32>>> {
    let locks = locks::parse(&host.root.read("/proc/locks")?)?;
    Ok(locks.into_iter().filter(|lock| lock.is_on(file)).map(|lock| lock.pid).collect())
}

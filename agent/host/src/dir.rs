//! Directories by handle: listing them, and making and removing entries.
//!
//! By handle, because these directories are often beneath a mount, where no path leads to them.

use super::{
    Host,
    root::{absent_is_none, at},
};
use nix::time::{ClockId, clock_gettime};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, fstat, fsync, mkdirat, openat, renameat_with,
        stat, statat, syncfs, unlinkat,
    },
    io::Errno,
    mount::{OpenTreeFlags, open_tree},
};
use std::{
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use terms::AbsPath;

pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The names in a directory, sorted. Bytes that are not UTF-8 are replaced.
pub fn names(dir: impl AsFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Opens a directory in a directory; a symbolic link is not followed.
pub fn open(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(dir, name, DIRECTORY, Mode::empty())?)
}

/// Makes a directory, durably. An existing one is not changed.
pub fn make(dir: impl AsFd, name: &str, mode: u32) -> io::Result<()> {
    match mkdirat(&dir, name, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(fsync(dir)?),
        Err(error) => Err(error.into()),
    }
}

/// Makes an empty file, durably. It must not be there.
pub fn make_file(dir: impl AsFd, name: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fsync(openat(&dir, name, flags, Mode::RUSR)?)?;
    Ok(fsync(dir)?)
}

/// True if a name is that of an empty regular file.
pub fn is_empty_file(dir: impl AsFd, name: &str) -> io::Result<bool> {
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_size == 0)
}

/// Removes a file. The caller makes that durable, because it writes more to the same directory.
pub fn remove_file(dir: impl AsFd, name: &str) -> io::Result<()> {
    Ok(unlinkat(dir, name, AtFlags::empty())?)
}

/// Gives an entry another name in another directory of the same mount, durably. The new name must not be there.
pub fn rename(from: impl AsFd, name: &str, to: impl AsFd, new: &str) -> io::Result<()> {
    renameat_with(&from, name, &to, new, RenameFlags::NOREPLACE)?;
    fsync(to)?;
    Ok(fsync(from)?)
}

/// Removes an empty directory, durably.
pub fn remove_dir(dir: impl AsFd, name: &str) -> io::Result<()> {
    unlinkat(&dir, name, AtFlags::REMOVEDIR)?;
    Ok(fsync(dir)?)
}

/// Writes a whole filesystem to its device (`syncfs(2)`). Reports the error of any write since the handle was opened.
pub fn sync_filesystem(dir: impl AsFd) -> io::Result<()> {
    Ok(syncfs(dir)?)
}

/// Of all regular files below a directory. This is an estimate if someone writes there: a file that vanishes meanwhile is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Files {
    /// Their sizes, in bytes.
    pub size: u64,
    /// When the newest of them was written (mtime, inode(7)), since the epoch; zero if there is none.
    pub written: Duration,
}

/// Looks at all files below a directory, on its filesystem.
pub fn files(dir: impl AsFd) -> io::Result<Files> {
    let mut all = Files::default();
    let own = fstat(&dir)?.st_dev;
    for name in names(&dir)? {
        let found = statat(&dir, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let Some(found) = absent_is_none(found.map_err(io::Error::from))? else { continue };
        let below = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Files {
                size: u64::try_from(found.st_size).unwrap_or(0),
                written: Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or(0)),
            },
            FileType::Directory if found.st_dev == own => match absent_is_none(open(&dir, &name))? {
                Some(below) => files(below)?,
                None => continue,
            },
            _ => continue,
        };
        all.size = all.size.saturating_add(below.size);
        all.written = all.written.max(below.written);
    }
    Ok(all)
}

/// The sizes of all regular files below a directory, in bytes.
pub fn size(dir: impl AsFd) -> io::Result<u64> {
    Ok(files(dir)?.size)
}

/// How long ago the directory was moved or its attributes changed (ctime, inode(7)), or a file below it was written: if the clock
/// was behind when the directory was moved, the files are of a later time. Zero if the clock has been set back.
pub fn changed_ago(dir: impl AsFd) -> io::Result<Duration> {
    let found = fstat(&dir)?;
    let changed = Duration::from_secs(u64::try_from(found.st_ctime).unwrap_or(0)).max(files(dir)?.written);
    Ok(Duration::from_secs(now()?.saturating_sub(changed).as_secs()))
}

fn now() -> io::Result<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)
}

/// The time since the boot. It goes on while the system is suspended, and no clock is set by it.
pub fn since_boot() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_BOOTTIME)?.into())
}

/// How long before this boot the newest file below a directory was written. Zero for one of this boot; none if there is no file.
pub fn idle_before_boot(dir: impl AsFd) -> io::Result<Option<Duration>> {
    let (written, now) = (files(dir)?.written, now()?);
    if written > now {
        return Err(io::Error::other("its newest file is of the future: the clock is wrong"));
    }
    let idle = now.saturating_sub(since_boot()?).saturating_sub(written);
    Ok((!written.is_zero()).then(|| Duration::from_secs(idle.as_secs())))
}

/// Removes a directory with all its content, durably. Links are removed, not followed. A mount below, or another
/// filesystem, is an error, and is not touched.
pub fn remove_tree(parent: impl AsFd, name: &str) -> io::Result<()> {
    let found = open(&parent, name)?;
    let own = fstat(&found)?.st_dev;
    if fstat(&parent)?.st_dev != own {
        return Err(io::Error::new(
            io::ErrorKind::CrossesDevices,
            format!("{name} is on another filesystem"),
        ));
    }
    for entry in names(&found)? {
        let kind =
            FileType::from_raw_mode(statat(&found, entry.as_str(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
        match kind {
            FileType::Directory => remove_tree(&found, &entry)?,
            _ => unlinkat(&found, entry.as_str(), AtFlags::empty())?,
        }
    }
    remove_dir(parent, name)
}

/// Opens a directory so that no mount below it can be seen: a name that is looked up there leads to the directory
/// beneath the mount.
///
/// The directory's mount is cloned without the mounts below (`open_tree(2)`, which needs `CAP_SYS_ADMIN`). The clone is
/// not attached anywhere, and ends when its last handle is closed.
pub fn without_mounts(host: &Host, path: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, host.root.locate(path.as_path()), flags);
    // Opened again, because the handle of a clone can't be listed (`O_PATH`).
    tree.map_err(io::Error::from).and_then(|tree| open(tree, ".")).map_err(|error| at(path.as_path(), &error))
}

/// Opens two directories through one clone of their mount, like [`without_mounts`], so that names can be exchanged
/// between them (`rename(2)`: not across mounts, not even of one filesystem). Fails with
/// [`io::ErrorKind::CrossesDevices`] if they are not on one mount.
pub fn both_without_mounts(host: &Host, one: &AbsPath, other: &AbsPath) -> io::Result<(OwnedFd, OwnedFd)> {
    let shared = shared_parent(one, other);
    let tree = without_mounts(host, &shared)?;
    let apart =
        || io::Error::new(io::ErrorKind::CrossesDevices, format!("{one} and {other} are not on one mount"));
    let open = |path: &AbsPath| -> io::Result<OwnedFd> {
        let real =
            stat(host.root.locate(path.as_path())).map_err(|error| at(path.as_path(), &error.into()))?;
        // If something is mounted on the way, the path leads to another directory than the same names in the clone.
        let found = descend(&tree, &shared, path).map_err(|_| apart())?;
        let same =
            fstat(&found).is_ok_and(|found| (found.st_dev, found.st_ino) == (real.st_dev, real.st_ino));
        if same { Ok(found) } else { Err(apart()) }
    };
    Ok((open(one)?, open(other)?))
}

fn descend(tree: &OwnedFd, shared: &AbsPath, path: &AbsPath) -> io::Result<OwnedFd> {
    let rest = path.as_str().strip_prefix(shared.as_str()).unwrap_or_default();
    let mut dir = open(tree, ".")?;
    for name in rest.split('/').filter(|name| !name.is_empty()) {
        dir = open(&dir, name)?;
    }
    Ok(dir)
}

fn shared_parent(one: &AbsPath, other: &AbsPath) -> AbsPath {
    let mut shared = one.clone();
    while !other.as_path().starts_with(shared.as_path()) {
        shared = shared.parent();
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn made_seen_and_removed() {
        let base = std::env::temp_dir().join(format!("etcd-lun-dir-{}", std::process::id()));
        fs::create_dir_all(base.join("a/b")).unwrap();
        let dir = super::super::tree::open(&base).unwrap();
        make(&dir, "new", 0o700).unwrap();
        make(&dir, "new", 0o700).unwrap();
        let new = open(&dir, "new").unwrap();
        make_file(&new, "file").unwrap();
        assert!(make_file(&new, "file").is_err());
        assert!(is_empty_file(&new, "file").unwrap() && !is_empty_file(&dir, "new").unwrap());
        fs::write(base.join("a/b/data"), [0; 5000]).unwrap();
        std::os::unix::fs::symlink("/", base.join("a/link")).unwrap();
        assert_eq!(size(&dir).unwrap(), 5000);
        remove_file(&new, "file").unwrap();
        assert_eq!(
            (names(&new).unwrap().len(), names(&dir).unwrap()),
            (0, vec!["a".to_owned(), "new".to_owned()])
        );
        assert!(open(&dir, "nothing").is_err());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn time_since_the_last_write() {
        let base = std::env::temp_dir().join(format!("etcd-lun-idle-{}", std::process::id()));
        fs::create_dir_all(base.join("member/wal")).unwrap();
        let dir = super::super::tree::open(&base).unwrap();
        assert_eq!(idle_before_boot(&dir).unwrap(), None);
        let log = fs::File::create(base.join("member/wal/0.wal")).unwrap();
        assert_eq!(idle_before_boot(&dir).unwrap(), Some(Duration::ZERO));
        let up = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
        let hours = |count: u64| Duration::from_secs(count * 60 * 60);
        log.set_modified(SystemTime::now() - up - hours(2)).unwrap();
        let idle = idle_before_boot(&dir).unwrap().unwrap();
        assert!(idle >= hours(2) && idle < hours(3), "{idle:?}");
        assert!(changed_ago(&dir).unwrap() < hours(1), "the directory was made now");
        log.set_modified(SystemTime::now() + hours(2)).unwrap();
        assert!(idle_before_boot(&dir).unwrap_err().to_string().contains("the clock"));
        assert_eq!(changed_ago(&dir).unwrap(), Duration::ZERO);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn nearest_shared_parent() {
        for (one, other, shared) in [
            ("/var/lib", "/var/lib/etcd-lun/retired", "/var/lib"),
            ("/var/lib/x", "/var/lib/etcd-lun", "/var/lib"),
            ("/srv", "/var/lib", "/"),
        ] {
            let path = |text: &str| text.parse::<AbsPath>().unwrap();
            assert_eq!(shared_parent(&path(one), &path(other)).as_str(), shared);
        }
    }
}

//! Single directories: beneath a mount, immutable, with extended attributes, exchanged.
//!
//! All functions use handles, because a path leads to whatever is mounted there.

use super::{
    Host,
    dir::{self, DIRECTORY},
    root::{absent_is_none, at},
    selinux,
};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{
        AtFlags, CWD, Gid, IFlags, Mode, OFlags, RenameFlags, StatxFlags, Uid, XattrFlags, fchmod, fchown,
        fgetxattr, fremovexattr, fsetxattr, fstat, fsync, ioctl_getflags, ioctl_setflags, mkdirat, openat,
        renameat_with, statx,
    },
    io::Errno,
    mount::{OpenTreeFlags, open_tree},
};
use std::{
    ffi::CStr,
    io,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use terms::{AbsPath, NamedError, named};

/// The longest value of an attribute that is read or written. Our values are small, but a foreign one may have up to 64
/// KiB (`xattr(7)`).
pub const ATTRIBUTE_MAX: usize = 4096;

/// Opens a directory that is beneath a mount; none if there is no directory. A symbolic link with that name is an
/// error.
///
/// The filesystem of the parent is cloned without the mounts below (`open_tree(2)`, which needs `CAP_SYS_ADMIN`), and
/// the name is looked up there. The clone is not attached anywhere: no other process sees it, and it ends when its last
/// handle is closed. Until then that filesystem can't be unmounted.
///
/// Each call makes a mount of its own, and names can't be exchanged between mounts. For [`exchange`], open one
/// directory that contains both names.
pub fn beneath(host: &Host, path: &AbsPath) -> io::Result<Option<OwnedFd>> {
    if path.name().is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "nothing is beneath the root directory"));
    }
    let look = || -> io::Result<OwnedFd> {
        let parent = host.root.locate(path.parent().as_path());
        let clone =
            open_tree(CWD, &parent, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
        Ok(openat(&clone, path.name(), DIRECTORY, Mode::empty())?)
    };
    absent_is_none(look()).map_err(|error| at(path.as_path(), &error))
}

/// True if a directory is empty.
pub fn is_empty(dir: impl AsFd) -> io::Result<bool> {
    Ok(dir::names(dir)?.is_empty())
}

/// True if the immutable flag is set (`FS_IMMUTABLE_FL`, `ioctl_iflags(2)`); none if the filesystem has no such flags.
pub fn is_immutable(file: impl AsFd) -> io::Result<Option<bool>> {
    match ioctl_getflags(file) {
        Ok(flags) => Ok(Some(flags.contains(IFlags::IMMUTABLE))),
        Err(Errno::NOTTY | Errno::NOTSUP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file below a directory, without following any link; none if it is absent.
pub fn file_beneath(dir: impl AsFd, path: &str) -> io::Result<Option<OwnedFd>> {
    // Not by openat2(2): in a unit with `RestrictSUIDSGID=` systemd lets it fail (`seccomp_restrict_suid_sgid`).
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = dir.as_fd().try_clone_to_owned()?;
    for name in path.split('/') {
        file = match openat(&file, name, flags, Mode::empty()) {
            Ok(below) => below,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some(file))
}

/// Sets or clears the immutable flag, durably. Needs `CAP_LINUX_IMMUTABLE`.
pub fn set_immutable(file: impl AsFd, immutable: bool) -> io::Result<()> {
    let mut flags = ioctl_getflags(&file)?;
    flags.set(IFlags::IMMUTABLE, immutable);
    ioctl_setflags(&file, flags)?;
    Ok(fsync(file)?)
}

/// The value of an extended attribute; none if it isn't set. A value longer than [`ATTRIBUTE_MAX`] is an error.
pub fn attribute(file: impl AsFd, name: &CStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; ATTRIBUTE_MAX];
    match fgetxattr(file, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(Errno::RANGE) => Err(too_long(name)),
        Err(error) => Err(error.into()),
    }
}

/// Sets an extended attribute, durably. `trusted.` names need `CAP_SYS_ADMIN`.
pub fn set_attribute(file: impl AsFd, name: &CStr, value: &[u8]) -> io::Result<()> {
    if value.len() > ATTRIBUTE_MAX {
        return Err(too_long(name));
    }
    fsetxattr(&file, name, value, XattrFlags::empty())?;
    Ok(fsync(file)?)
}

/// Removes an extended attribute, durably. If it is absent, that is no error.
pub fn remove_attribute(file: impl AsFd, name: &CStr) -> io::Result<()> {
    match fremovexattr(&file, name) {
        Ok(()) | Err(Errno::NODATA) => Ok(fsync(file)?),
        Err(error) => Err(error.into()),
    }
}

fn too_long(name: &CStr) -> io::Error {
    let name = name.to_string_lossy();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("attribute {name} is longer than {ATTRIBUTE_MAX} bytes"),
    )
}

/// Exchanges two names in one atomic step (`RENAME_EXCHANGE`, `rename(2)`), durably.
pub fn exchange(
    dir: impl AsFd,
    name: impl AsRef<Path>,
    other_dir: impl AsFd,
    other_name: impl AsRef<Path>,
) -> Result<(), NamedError> {
    renameat_with(&dir, name.as_ref(), &other_dir, other_name.as_ref(), RenameFlags::EXCHANGE)
        .and_then(|()| fsync(&dir))
        .and_then(|()| fsync(&other_dir))
        .map_err(|error| match error {
            // One directory inside the other has the first code too.
            Errno::INVAL | Errno::NOSYS => named!(ExchangeFailed, "this filesystem can't exchange two names"),
            // Or they were opened through two mounts of one filesystem.
            Errno::XDEV => named!(ExchangeFailed, "the names to exchange are not on one mount"),
            error => named!(ExchangeFailed, "exchanging two names: {error}"),
        })
}

/// Renames a directory that may be immutable: it can't be renamed as long as it is. So the flag is cleared just before, and set
/// again if `rename` fails. During that moment the flag protects nothing; the caller must make sure that the directory is safe
/// without it.
pub fn without_immutable<E: From<io::Error>>(
    dir: &OwnedFd,
    rename: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let flags = ioctl_getflags(dir).map_err(io::Error::from)?;
    ioctl_setflags(dir, flags.difference(IFlags::IMMUTABLE)).map_err(io::Error::from)?;
    rename().or_else(|error| {
        ioctl_setflags(dir, flags).and_then(|()| fsync(dir)).map_err(io::Error::from)?;
        Err(error)
    })
}

/// Makes an empty directory with the mode, owner, group and SELinux label of another, durably, and opens it. An empty
/// directory of that name, left by an interrupted run, is used. A directory with content is an error.
pub fn make_empty_dir_like(parent: impl AsFd, name: &str, like: impl AsFd) -> io::Result<OwnedFd> {
    // Nobody else may enter it until it has the right owner.
    match mkdirat(&parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let dir = openat(&parent, name, DIRECTORY, Mode::empty())?;
    if !is_empty(&dir)? {
        return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, format!("{name} is not empty")));
    }
    let model = fstat(&like)?;
    let (owner, group) = (Uid::from_raw(model.st_uid), Gid::from_raw(model.st_gid));
    fchown(&dir, Some(owner), Some(group))?; // first, because it clears mode bits
    fchmod(&dir, Mode::from_raw_mode(model.st_mode & 0o7777))?;
    if let Some(label) = selinux::label(&like)? {
        selinux::set_label(&dir, &label)?;
    }
    fsync(&dir)?;
    fsync(parent)?;
    Ok(dir)
}

/// The time since an inode was changed in memory, its attributes included (`st_ctime`, inode(7)). Fails if that is in the future.
pub fn age(file: impl AsFd) -> io::Result<Duration> {
    let changed = Duration::from_secs(u64::try_from(fstat(file)?.st_ctime).map_err(io::Error::other)?);
    SystemTime::now().duration_since(UNIX_EPOCH + changed).map_err(io::Error::other)
}

/// The id of the mount through which a file was opened. Two handles with the same id are on one mount.
pub fn mount_id(file: impl AsFd) -> io::Result<u64> {
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID) {
        Ok(found.stx_mnt_id)
    } else {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel is older than 5.8 and does not report mount ids",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::PathBuf,
    };

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> (Self, OwnedFd) {
            let base = std::env::temp_dir().join(format!("etcd-lun-inode-{name}-{}", std::process::id()));
            fs::create_dir_all(&base).unwrap();
            let fd = openat(CWD, &base, DIRECTORY, Mode::empty()).unwrap();
            (Self(base), fd)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _removed = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn empty_directory_like_another() {
        let (scratch, parent) = Scratch::new("like");
        let model = scratch.0.join("model");
        fs::create_dir(&model).unwrap();
        fs::set_permissions(&model, fs::Permissions::from_mode(0o2751)).unwrap();
        let model = openat(&parent, "model", DIRECTORY, Mode::empty()).unwrap();
        for _again in 0..2 {
            let made = make_empty_dir_like(&parent, "made", &model).unwrap();
            assert!(is_empty(&made).unwrap());
            assert_eq!(fs::metadata(scratch.0.join("made")).unwrap().mode() & 0o7777, 0o2751);
            assert_eq!(mount_id(&made).unwrap(), mount_id(&parent).unwrap());
        }
        fs::write(scratch.0.join("made/file"), "").unwrap();
        let error = make_empty_dir_like(&parent, "made", &model).unwrap_err();
        assert_eq!(error.to_string(), "made is not empty");
        fs::write(scratch.0.join("file"), "").unwrap();
        assert!(make_empty_dir_like(&parent, "file", &model).is_err());
    }

    #[test]
    fn exchange_is_whole() {
        let (scratch, parent) = Scratch::new("exchange");
        let said = |done: Result<(), NamedError>| done.unwrap_err().to_string();
        fs::create_dir(scratch.0.join("full")).unwrap();
        fs::write(scratch.0.join("full/file"), "").unwrap();
        fs::create_dir(scratch.0.join("empty")).unwrap();
        exchange(&parent, "full", &parent, "empty").unwrap();
        assert!(is_empty(openat(&parent, "full", DIRECTORY, Mode::empty()).unwrap()).unwrap());
        assert!(scratch.0.join("empty/file").exists());
        // One is inside the other.
        assert!(said(exchange(&parent, "empty", &parent, "empty/file")).contains("this filesystem can't"));
        assert!(said(exchange(&parent, "empty", &parent, "absent")).contains("No such file"));
        let elsewhere = openat(CWD, "/proc/thread-self/", DIRECTORY, Mode::empty()).unwrap();
        assert!(said(exchange(&parent, "empty", &elsewhere, "task")).contains("not on one mount"));
    }

    #[test]
    fn attributes() {
        let (_scratch, dir) = Scratch::new("attributes");
        let name = c"user.etcd-lun-test";
        if set_attribute(&dir, name, b"one").is_err() {
            eprintln!("not run: {:?} has no user attributes", std::env::temp_dir());
            return;
        }
        assert_eq!(attribute(&dir, name).unwrap().unwrap(), b"one");
        set_attribute(&dir, name, b"").unwrap();
        assert_eq!(attribute(&dir, name).unwrap().unwrap(), b"");
        assert!(set_attribute(&dir, name, &[0; ATTRIBUTE_MAX + 1]).is_err());
        for _again in 0..2 {
            remove_attribute(&dir, name).unwrap();
            assert_eq!(attribute(&dir, name).unwrap(), None);
        }
    }

    #[test]
    fn a_filesystem_without_flags_is_told_apart() {
        let (_scratch, dir) = Scratch::new("flags");
        assert_ne!(is_immutable(&dir).unwrap(), Some(true));
        let proc = openat(CWD, "/proc", DIRECTORY, Mode::empty()).unwrap();
        assert_eq!(is_immutable(proc).unwrap(), None);
    }
}

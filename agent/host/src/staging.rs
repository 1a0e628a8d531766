//! Mounting the LUN's filesystem so that only this process sees it.
//!
//! The caller is in a mount namespace of its own whose mounts don't propagate. The filesystem is XFS. `nouuid` is never
//! used, so that a second filesystem with the same UUID is refused. The options are those of the mount that etcd gets
//! later. A mount without `prjquota` would clear the quota counts, and a mount with it counts again by reading each inode
//! once (kernel `fs/xfs/xfs_qm.c`, quotacheck).
//!
//! **Reading from the device.** What was written is in the page cache, and comparing that proves nothing about the LUN.
//! [`Staging::unmount`] empties the cache. Unmounting the last mount of a filesystem writes everything back, evicts
//! every inode with its pages (kernel `fs/super.c`, `generic_shutdown_super` → `evict_inodes`), and frees XFS's own
//! metadata buffers. The last close of the device drops the pages of the device itself (`block/bdev.c`,
//! `blkdev_flush_mapping` → `kill_bdev`). A filesystem that is still mounted in another namespace, or that an open
//! handle holds, keeps its pages. So `unmount` only succeeds when the kernel no longer lists the filesystem. The next
//! mount begins with an empty cache. This can't bypass the cache of the array.

mod options;

pub use options::{inspecting_options, options_here, staging_options, superblock_options};

use super::{
    Host,
    exec::{ExecError, Invocation, Tool, one_line},
    kmsg::{Mark, Message},
    root::at as at_path,
    selinux,
};
use rustix::{
    fd::{AsFd, AsRawFd as _, OwnedFd},
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, StatxAttributes, StatxFlags, fstat, fstatvfs, major, minor,
        openat, statx, syncfs,
    },
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MoveMountFlags, fsconfig_create,
        fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, fspick, move_mount,
    },
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use sys_mount::{UnmountFlags, unmount};
use terms::{AbsPath, Bytes, ErrorName, Named};

/// The writes of a mount to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anything.
    ReadWrite,
    /// Files can't be changed, but the kernel still writes to the device. After an unclean stop it replays the log, and
    /// even with a clean log it clears the blocks after its end (kernel `fs/xfs/xfs_log_recover.c`,
    /// `xlog_clear_stale_blocks`; seen with Linux 6.18). [`inspect`] writes nothing.
    ReadOnly,
}

/// Why a filesystem could not be mounted.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// Something is already mounted at the place.
    #[error("{0} is a mount point: unmount what is there")]
    Occupied(AbsPath),
    /// The place is not a directory, or is a link to one.
    #[error("{0} is not a directory")]
    NotDirectory(AbsPath),
    /// The mount point could not be made, or the mounted root could not be opened.
    #[error("preparing a mount")]
    Io(#[source] io::Error),
    /// The kernel refused to mount.
    #[error("mounting {} as XFS: {said}", .device.display())]
    Refused {
        /// The device, as the caller named it.
        device: PathBuf,
        /// The reason that XFS logged, or where to look for it.
        said: String,
        /// The error code.
        source: io::Error,
    },
}

impl Named for StagingError {
    fn name(&self) -> Option<ErrorName> {
        Some(match self {
            Self::Refused { .. } => ErrorName::MountFailed,
            Self::Occupied(_) | Self::NotDirectory(_) => ErrorName::MountChanged,
            Self::Io(_) => return None,
        })
    }
}

/// A mounted filesystem. End it with [`Staging::unmount`]: dropping it only detaches it lazily.
#[derive(Debug)]
pub struct Staging {
    /// The place that the caller has named.
    place: AbsPath,
    /// Where it is mounted; none once it is unmounted.
    target: Option<PathBuf>,
    /// The device node. It is that of this filesystem for as long as it is mounted.
    node: PathBuf,
    /// Opened at once and kept, because `syncfs(2)` reports write errors since the handle was opened.
    root: Option<OwnedFd>,
    /// The kernel lists the filesystem here as long as it is in memory.
    alive: PathBuf,
    can_be_shared: bool,
}

impl Staging {
    /// Attaches a mount of the XFS on `device` at `place`, which is made if it is absent. `make` makes the mount, as [`detached`]
    /// does.
    ///
    /// `like` are the options of the mount that etcd gets later. Both mounts can be of one filesystem in memory, which has the
    /// options of the first one ([`superblock_options`]). Then the second mount finds what is in the page cache.
    pub fn attach(
        host: &Host,
        device: &Path,
        place: &AbsPath,
        like: &[String],
        make: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> Result<Self, StagingError> {
        let place = Place::free(host, place)?;
        let (source, name) = block_device(host, device).map_err(StagingError::Io)?;
        let can_be_shared = superblock_options(host, like).map_err(StagingError::Io)?.is_some();
        let log = Mark::now(host);
        let mount = make().map_err(|error| refused(log, device, &name, error))?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&mount, "", CWD, &place.target, flags).map_err(|error| StagingError::Io(error.into()))?;
        place.mounted(source, &name, can_be_shared)
    }

    /// The place at which it is mounted.
    pub fn place(&self) -> &AbsPath {
        &self.place
    }

    /// A handle of the root directory. Close it before [`Self::unmount`].
    pub fn root(&self) -> io::Result<OwnedFd> {
        self.kept()?.try_clone()
    }

    /// Writes everything to the device, also out of the device's cache (`syncfs(2)`). Reports the error of any write
    /// since the mount, also of one in the background.
    pub fn sync(&self) -> io::Result<()> {
        Ok(syncfs(self.kept()?)?)
    }

    /// Unmounts. When this succeeds, the filesystem is no longer in memory. Waits up to 5 s for programs that still use
    /// it: a killed program may have helpers that end a moment later.
    pub fn unmount(mut self) -> io::Result<()> {
        self.root = None;
        let Some(target) = self.target.take() else { return Ok(()) };
        let deadline = Instant::now() + Duration::from_secs(5);
        // Not `NOFOLLOW`: sys-mount 3.1.1 has the value of `O_NOFOLLOW` there, which the kernel refuses.
        while let Err(error) = unmount(&target, UnmountFlags::empty()) {
            if error.raw_os_error() != Some(Errno::BUSY.raw_os_error()) || Instant::now() > deadline {
                let error = at_path(&target, &error);
                self.target = Some(target);
                return Err(error);
            }
            thread::sleep(Duration::from_millis(50));
        }
        match fs::symlink_metadata(&self.alive) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(at_path(&self.alive, &error)),
            Ok(_) => Err(io::Error::other(format!(
                "unmounted, but {} is there: the filesystem is mounted elsewhere or held open, see `lsns -t mnt`",
                self.alive.display()
            ))),
        }
    }

    /// Returns true if a mount with the options of etcd's may be made while this one is there.
    pub fn can_be_shared(&self) -> bool {
        self.can_be_shared
    }

    /// The device's node.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// The device's numbers.
    pub fn device(&self) -> io::Result<(u32, u32)> {
        let device = fstat(self.kept()?)?.st_dev;
        Ok((major(device), minor(device)))
    }

    /// Unmounts, while the filesystem stays mounted elsewhere.
    pub fn leave(mut self) -> io::Result<()> {
        self.root = None;
        let Some(target) = self.target.take() else { return Ok(()) };
        unmount(&target, UnmountFlags::empty()).map_err(|error| at_path(&target, &error))
    }

    fn kept(&self) -> io::Result<&OwnedFd> {
        self.root.as_ref().ok_or_else(|| io::Error::other("not mounted"))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.root = None;
        if let Some(target) = self.target.take()
            && let Err(error) = unmount(&target, UnmountFlags::DETACH)
        {
            tracing::warn!("detaching {}: {error}", target.display());
        }
    }
}

/// Opens the root of the XFS on `device` without writing anything to the device. It needs no mount point, no other
/// process sees it, and it ends when its last handle is closed.
///
/// The options are `ro,norecovery`: the log is not replayed. After an unclean stop this shows an earlier state of the
/// filesystem: synced data may be missing, and what is read may be inconsistent. What is found was really there; what
/// is not found may still be in the log. The kernel refuses with `EBUSY` while the filesystem is mounted for writing.
/// `make` makes the mount, as [`detached`] does with [`inspecting_options`].
pub fn inspect(
    host: &Host,
    device: &Path,
    make: impl FnOnce() -> io::Result<OwnedFd>,
) -> Result<OwnedFd, StagingError> {
    let (_, name) = block_device(host, device).map_err(StagingError::Io)?;
    let log = Mark::now(host);
    let open = || -> io::Result<OwnedFd> {
        Ok(openat(make()?, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    };
    open().map_err(|error| refused(log, device, &name, error))
}

/// Device nodes, set-id bits and programs have no effect.
const HARMLESS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NODEV
    .union(MountAttrFlags::MOUNT_ATTR_NOSUID)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Makes a filesystem in memory without attaching it anywhere: it ends with its last handle. Where SELinux is on, everything in it
/// has this label.
pub fn in_memory(host: &Host, label: &str) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in [("mode", "0700"), ("size", "4m")] {
        fsconfig_set_string(&context, name, value)?;
    }
    if selinux::is_on(host)? {
        fsconfig_set_string(&context, "context", label)?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, HARMLESS)?)
}

/// Mounts the XFS on an opened disk without attaching it anywhere: it ends with its last handle. Device nodes, set-id bits and
/// programs on it have no effect. `options` are XFS's, with commas between them.
pub fn detached(disk: impl AsFd, access: Access, options: &str) -> io::Result<OwnedFd> {
    let context = fsopen("xfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // A name of the disk would be resolved once more, and may lead to another one then.
    let opened = format!("/proc/self/fd/{}", disk.as_fd().as_raw_fd());
    fsconfig_set_string(&context, "source", opened)?;
    let mut attributes = HARMLESS;
    if access == Access::ReadOnly {
        fsconfig_set_flag(&context, "ro")?;
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some((name, value)) => fsconfig_set_string(&context, name, value)?,
            None => fsconfig_set_flag(&context, option)?,
        }
    }
    fsconfig_create(&context)?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    match fstat(&mount)?.st_dev == fstat(disk)?.st_rdev {
        true => Ok(mount),
        false => Err(io::Error::other("the kernel has mounted another disk than the one that was opened")),
    }
}

/// Has everything of a mounted filesystem written in its place on the device, also what until then was only in the log: the
/// filesystem is read-only for a moment (kernel `fs/xfs/xfs_super.c`, `xfs_remount_ro`). What is in memory stays there. A program that
/// is killed in this moment leaves nothing if the mount ends with it. Fails if a file is open for writing.
pub fn settle(mount: impl AsFd) -> io::Result<()> {
    let context = fspick(mount, "", FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH)?;
    fsconfig_set_flag(&context, "ro")?;
    fsconfig_reconfigure(&context)?;
    fsconfig_set_flag(&context, "rw")?;
    Ok(fsconfig_reconfigure(&context)?)
}

/// mount(8) may have to replay a large log.
const MOUNT_LIMIT: Duration = Duration::from_secs(300);

/// Mounts the XFS on a disk (kernel name) on a directory, for all who see the caller's mounts. mount(8) keeps `_netdev` where systemd
/// finds it (libmount's utab): then it unmounts before it ends the network.
pub fn mount_for_all(host: &Host, disk: &str, at: &AbsPath, options: &str) -> Result<(), ExecError> {
    let device = format!("/dev/{disk}");
    let args = ["-i", "-t", "xfs", "-o", options, "--", &device, at.as_str()];
    let what = Invocation::new(Tool::Mount, args).limit(MOUNT_LIMIT);
    host.run(&what)?.success(&what).map(drop)
}

/// Unmounts what is mounted on a directory. Fails while somebody uses it.
pub fn unmount_for_all(host: &Host, at: &AbsPath) -> Result<(), ExecError> {
    let what = Invocation::new(Tool::Umount, ["-i", "--", at.as_str()]).limit(MOUNT_LIMIT);
    host.run(&what)?.success(&what).map(drop)
}

/// A directory on which nothing is mounted.
struct Place {
    target: PathBuf,
    path: AbsPath,
}

impl Place {
    /// Makes it if it is absent.
    fn free(host: &Host, path: &AbsPath) -> Result<Self, StagingError> {
        host.root.make_dir(path.as_path(), 0o700).map_err(StagingError::Io)?;
        let target = host.root.locate(path.as_path());
        free_directory(&target, path)?;
        Ok(Self { target, path: path.clone() })
    }

    /// The filesystem that is mounted there now.
    fn mounted(self, node: PathBuf, name: &str, can_be_shared: bool) -> Result<Staging, StagingError> {
        let alive = Path::new("/sys/fs/xfs").join(name);
        // If anything below fails, this is dropped, which unmounts it.
        let mut staging = Staging {
            place: self.path.clone(),
            target: Some(self.target.clone()),
            node,
            root: None,
            alive,
            can_be_shared,
        };
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, &self.target, how, Mode::empty());
        let wrong = |error: Errno| StagingError::Io(at_path(self.path.as_path(), &error.into()));
        staging.root = Some(root.map_err(wrong)?);
        Ok(staging)
    }
}

/// The space of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The whole filesystem.
    pub size: Bytes,
    /// Free for users without privileges.
    pub free: Bytes,
    /// How many more files and directories can be made.
    pub free_inodes: u64,
}

/// The space of the filesystem that holds an opened file or directory (`statvfs(3)`).
pub fn space(file: impl AsFd) -> io::Result<Space> {
    let found = fstatvfs(file)?;
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(found.f_frsize));
    Ok(Space { size: bytes(found.f_blocks), free: bytes(found.f_bavail), free_inodes: found.f_favail })
}

/// Makes sure that the mount point is a directory, not a link to one, and that nothing is mounted on it.
fn free_directory(target: &Path, place: &AbsPath) -> Result<(), StagingError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, target, flags, StatxFlags::TYPE);
    let found = found.map_err(|error| StagingError::Io(at_path(place.as_path(), &error.into())))?;
    if FileType::from_raw_mode(found.stx_mode.into()) != FileType::Directory {
        return Err(StagingError::NotDirectory(place.clone()));
    }
    if !found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
        let old = "this kernel is older than 5.8 and does not report mount points";
        return Err(StagingError::Io(io::Error::new(io::ErrorKind::Unsupported, old)));
    }
    if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(StagingError::Occupied(place.clone()));
    }
    Ok(())
}

/// The device node to which a link such as `/dev/disk/by-id/...` leads, and its kernel name.
fn block_device(host: &Host, device: &Path) -> io::Result<(PathBuf, String)> {
    let node = fs::canonicalize(host.root.locate(device)).map_err(|error| at_path(device, &error))?;
    let name = node.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok((node, name))
}

/// Why the device could not be mounted.
///
/// XFS reports the reason of a refusal only in the kernel's log. `mount(2)` returns "invalid argument" for a duplicate UUID, and the
/// log of `fsopen(2)`'s handle stays empty (seen with Linux 6.18).
fn refused(log: Mark, device: &Path, name: &str, source: io::Error) -> StagingError {
    let mut said = reason(log, name);
    if source.raw_os_error() == Some(Errno::UCLEAN.raw_os_error()) {
        said += "; look at it with `xfs_repair -n`";
    }
    StagingError::Refused { device: device.to_owned(), said, source }
}

/// The reason that XFS has logged since then for a device (kernel name), or where to look for it.
pub fn reason(log: Mark, name: &str) -> String {
    // Without permission to read the log, the error message has only the error code.
    let messages = log.messages().inspect_err(|error| tracing::debug!("{error}")).unwrap_or_default();
    let said = said_by_xfs(&messages, name);
    if said.is_empty() { format!("`dmesg | grep 'XFS ({name})'` may have the reason") } else { said }
}

/// Returns the lines that XFS has logged about the device, at most 8 lines.
fn said_by_xfs(messages: &[Message], name: &str) -> String {
    let begins = format!("XFS ({name}): ");
    let said = messages.iter().filter_map(|message| message.text.strip_prefix(&begins));
    let lines: Vec<_> = said.take(8).collect();
    if lines.is_empty() { String::new() } else { one_line(&lines.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xfs_says_of_one_device() {
        let messages: Vec<_> = [
            "XFS (sdb): Filesystem has duplicate UUID 1 - can't mount",
            "XFS (sdb1): other device",
            "XFS (sd): other device",
            "00000000: 58 46 53 42 00 00 10 00  XFSB....",
            "XFS (sdb): SB validate failed with error -74.",
        ]
        .map(|text| Message { level: 1, text: text.into() })
        .into();
        let said = said_by_xfs(&messages, "sdb");
        assert_eq!(said, "Filesystem has duplicate UUID 1 - can't mount; SB validate failed with error -74.");
        assert_eq!(said_by_xfs(&messages, "sdc"), "");
    }

    #[test]
    fn space_is_known() {
        let found = space(fs::File::open(std::env::temp_dir()).unwrap()).unwrap();
        assert!(found.size >= found.free && found.size.0 > 0, "{found:?}");
    }
}

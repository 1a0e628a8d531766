//! A FUSE filesystem in this process. Its files are disks with a volatile write cache, which QEMU and tgtd
//! open.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use fastrand::Rng;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};
use nix::mount::{MntFlags, umount2};

mod disk;
mod recording;

pub use disk::{Disk, Lost};
pub use recording::Recording;

use recording::Disks;

/// How long the kernel may cache names and sizes. They never change while a file is open.
const VALID: Duration = Duration::from_secs(1);

/// The disks, by name.
#[derive(Debug)]
pub struct Caches {
    dir: PathBuf,
    disks: Arc<Mutex<Disks>>,
    _session: BackgroundSession,
}

/// Takes the directory away at once, also while a file is open. The session's own unmount fails then, and a child of another
/// thread has every file open for the moment between fork and exec.
impl Drop for Caches {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.dir, MntFlags::MNT_DETACH) {
            eprintln!("cannot unmount {}: {error}", self.dir.display());
        }
    }
}

impl Caches {
    /// Mounts an empty directory for disks. Call this before any program starts in the network namespace:
    /// each of them gets a copy of the mounts at its start.
    pub fn mount(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let disks = Arc::new(Mutex::new(Disks::default()));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("bed-disks".into()), MountOption::NoAtime];
        let session = fuser::spawn_mount(Served(Arc::clone(&disks)), dir, &config)
            .with_context(|| format!("cannot mount disks with a write cache on {} (FUSE)", dir.display()))?;
        Ok(Self { dir: dir.to_path_buf(), disks, _session: session })
    }

    /// Adds a disk. It replaces a disk of the same name, which no program may have open. Returns the disk's
    /// file.
    pub fn put(&self, name: &str, disk: Disk) -> PathBuf {
        lock(&self.disks).put(name, disk);
        self.file(name)
    }

    /// The file of a disk.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Cuts the power of a disk. No program may have it open.
    pub fn cut(&self, name: &str, chance: &mut Rng) -> Result<Lost> {
        let mut disks = lock(&self.disks);
        Ok(disks.named(name).context("no such disk")?.cut(chance)?)
    }

    /// Starts to record the writes and flushes of these disks.
    pub fn record(&self, names: &[&str]) {
        lock(&self.disks).record(names);
    }

    /// Ends the recording and returns it.
    pub fn recorded(&self) -> Option<Recording> {
        lock(&self.disks).recorded()
    }
}

fn lock(disks: &Mutex<Disks>) -> MutexGuard<'_, Disks> {
    disks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The filesystem: one directory with the disks. The inode number of a disk is its index in the list plus 2.
struct Served(Arc<Mutex<Disks>>);

impl Served {
    fn with<T>(
        &self,
        inode: INodeNo,
        work: impl FnOnce(&mut Disks, usize) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let place = u64::from(inode).checked_sub(2).and_then(|number| usize::try_from(number).ok());
        let mut disks = lock(&self.0);
        let place = place.filter(|place| disks.at(*place).is_some()).ok_or(Errno::ENOENT)?;
        work(&mut disks, place)
    }

    fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            _ => (
                FileType::RegularFile,
                0o600,
                self.with(inode, |disks, place| {
                    disks.at(place).map(|disk| disk.size()).ok_or(Errno::ENOENT)
                })?,
            ),
        };
        Ok(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let place = name.to_str().and_then(|name| lock(&self.0).place(name));
        let inode = place.map(|place| INodeNo(place as u64 + 2));
        match inode.ok_or(Errno::ENOENT).and_then(|inode| self.attributes(inode)) {
            Ok(attributes) => reply.entry(&VALID, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(attributes) => reply.attr(&VALID, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Without the page cache. After a cut, the page cache would still show what was lost.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        at: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.with(inode, |disks, place| disks.read(place, at, length as usize).map_err(|_| Errno::EIO))
        {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        at: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.with(inode, |disks, place| disks.write(place, at, bytes).map_err(|_| Errno::ENOSPC)) {
            Ok(()) => reply.written(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.with(inode, |disks, place| {
            disks.flush(place);
            Ok(())
        }) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn programs_see_files_and_a_cut_takes_what_they_did_not_sync() {
        if !nix::unistd::geteuid().is_root() {
            println!("not run: mounting needs root");
            return;
        }
        let dir = std::env::temp_dir().join(format!("bed-caches-{}", std::process::id()));
        let caches = Caches::mount(&dir).unwrap();
        let path = caches.put("lun", Disk::blank(1 << 20));
        let lun = File::options().read(true).write(true).open(&path).unwrap();
        assert_eq!(lun.metadata().unwrap().len(), 1 << 20);
        lun.write_all_at(&[1; 512], 0).unwrap();
        lun.sync_data().unwrap();
        // Enough writes that some survive and some are lost.
        for number in 1..100 {
            lun.write_all_at(&[1; 512], number * 512).unwrap();
        }
        drop(lun);
        let lost = caches.cut("lun", &mut Rng::with_seed(3)).unwrap();
        assert_eq!(lost.writes, 99);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 1 << 20);
        assert!(bytes[..512].iter().all(|byte| *byte == 1));
        let kept = bytes.chunks(512).filter(|sector| sector[0] == 1).count();
        assert!((20..80).contains(&kept), "{kept}");
        let _open = File::open(&path).unwrap();
        drop(caches);
        fs::remove_dir(&dir).expect("it is not mounted any more");
    }
}

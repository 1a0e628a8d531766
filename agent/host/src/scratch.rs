//! Times etcd's write pattern: blocks written one after the other, each followed by `fdatasync(2)`.
//!
//! The blocks are written to a file without a name (`O_TMPFILE`, `open(2)`). So nobody sees it in etcd's own directory,
//! not even a restore that refuses unknown files. The kernel frees it when this process ends, in whatever way. After a
//! power cut the filesystem's recovery frees it (XFS's and ext4's lists of unlinked inodes). `fdatasync` treats such a
//! file like any other.

use super::{
    Host, Interrupt,
    inode::mount_id,
    mountinfo, random,
    root::at,
    staging::{self, Space},
    tree,
};
use rustix::{
    fd::OwnedFd,
    fs::{FallocateFlags, Mode, OFlags, fallocate, openat},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How many writes one series makes before the next series has its turn. It is small, so that all series are measured
/// under the same conditions.
const WRITES_PER_TURN: usize = 10;

/// A directory whose disk is measured.
#[derive(Debug)]
pub struct Place {
    /// Its path, all symbolic links resolved.
    pub path: PathBuf,
    /// The type and the device of its filesystem, such as `xfs` and `/dev/sdb`; none if the mount isn't one of PID 1's.
    pub filesystem: Option<(String, String)>,
    dir: OwnedFd,
}

impl Place {
    /// Opens it.
    pub fn open(host: &Host, path: &Path) -> io::Result<Self> {
        let absent =
            || io::Error::new(io::ErrorKind::NotFound, format!("{}: no such directory", path.display()));
        let path = host.root.resolve(path)?.ok_or_else(absent)?;
        let dir = tree::open(&host.root.locate(&path))?;
        let id = mount_id(&dir).map_err(|error| at(&path, &error))?;
        let mount = mountinfo::of_pid1(host)?.into_iter().find(|mount| mount.id == id);
        Ok(Self { path, filesystem: mount.map(|mount| (mount.fs_type, mount.source)), dir })
    }

    /// The space of its filesystem.
    pub fn space(&self) -> io::Result<Space> {
        staging::space(&self.dir).map_err(|error| at(&self.path, &error))
    }
}

/// The id of the filesystem that a path leads to, as this process sees it now; none if there is no such path.
pub fn filesystem_id(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.dev())
}

/// How long a write took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Took {
    /// Into the page cache.
    pub write: Duration,
    /// From there to stable storage.
    pub sync: Duration,
}

/// An unnamed file, and what is written to it.
#[derive(Debug)]
pub struct Scratch {
    /// Where it is, for messages.
    place: PathBuf,
    file: File,
    block: Vec<u8>,
}

impl Scratch {
    /// Makes a file.
    ///
    /// It is preallocated, as etcd does with each segment of its log (`fileutil.Preallocate`). Otherwise every
    /// `fdatasync` would also have to log the new size of a growing file, which doesn't happen for etcd.
    pub fn make(place: &Place, size: u64, block: u32) -> io::Result<Self> {
        let attempt = || -> io::Result<Self> {
            // EXCL: the file can't be given a name later either.
            let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
            let file: File = openat(&place.dir, ".", flags, Mode::RUSR | Mode::WUSR).map_err(explain)?.into();
            fallocate(&file, FallocateFlags::empty(), 0, size)?;
            file.sync_data()?; // so that the first write is not slowed by the allocation
            // Not zeros: storage that compresses data would look too fast.
            let mut block = vec![0; usize::try_from(block).map_err(io::Error::other)?];
            random::fill(&mut block)?;
            Ok(Self { place: place.path.clone(), file, block })
        };
        attempt().map_err(|error| at(&place.path, &error))
    }

    /// Writes the next block and waits until it is on stable storage.
    pub fn write(&mut self) -> io::Result<Took> {
        let mut attempt = || -> io::Result<Took> {
            let begun = Instant::now();
            self.file.write_all(&self.block)?;
            let written = Instant::now();
            self.file.sync_data()?; // fdatasync(2)
            Ok(Took { write: written - begun, sync: written.elapsed() })
        };
        attempt().map_err(|error| at(&self.place, &error))
    }
}

fn explain(error: Errno) -> io::Error {
    let why = match error {
        // EISDIR: a kernel before 3.11.
        Errno::NOTSUP | Errno::ISDIR => {
            "this filesystem does not support files without a name (O_TMPFILE); XFS, ext4 and btrfs do"
        }
        Errno::PERM => "no file can be made here: the directory is immutable (`lsattr -d`)",
        _ => return error.into(),
    };
    io::Error::new(io::Error::from(error).kind(), why)
}

/// Writes to each file in turn, until each has `writes` writes or the time is up. Each has at least one write. `moved`
/// gets the number of all writes so far.
pub fn measure(
    all: &mut [Scratch],
    writes: usize,
    limit: Duration,
    interrupt: &Interrupt,
    moved: &mut dyn FnMut(usize),
) -> io::Result<Vec<Vec<Took>>> {
    let begun = Instant::now();
    let mut taken: Vec<Vec<Took>> = all.iter().map(|_| Vec::with_capacity(writes)).collect();
    let mut done = 0;
    while done < writes && (done == 0 || begun.elapsed() < limit) {
        let turn = WRITES_PER_TURN.min(writes - done);
        for (scratch, taken) in all.iter_mut().zip(&mut taken) {
            for at in 0..turn {
                if interrupt.is_requested() {
                    return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
                }
                if at > 0 && begun.elapsed() >= limit {
                    break;
                }
                taken.push(scratch.write()?);
            }
        }
        done += turn;
        moved(taken.iter().map(Vec::len).sum());
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, dir, system::SystemRunner};
    use std::{fs, os::unix::fs::MetadataExt};

    const SIZE: u64 = 100_000;

    fn host() -> Host {
        Host::fixture(Root::new("/"), Box::new(SystemRunner::new(Interrupt::never()).unwrap())).unwrap()
    }

    /// A directory next to the built program, which is on a disk. The directory for temporary files may be in memory.
    fn directory(name: &str) -> PathBuf {
        let program = std::env::current_exe().unwrap();
        let path = program.with_file_name(format!("scratch-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn each_in_turn_and_no_name() {
        let path = directory("names");
        let before = fs::metadata(&path).unwrap();
        let place = Place::open(&host(), &path).unwrap();
        assert_eq!(place.path, path);
        assert!(place.space().unwrap().free.0 > 0);
        let mut all = [512, 300].map(|block| Scratch::make(&place, SIZE, block).unwrap());
        let mut told = Vec::new();
        let taken =
            measure(&mut all, 25, Duration::MAX, &Interrupt::never(), &mut |done| told.push(done)).unwrap();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [25, 25]);
        assert_eq!(told, [20, 40, 50]);
        assert!(taken.iter().flatten().all(|took| !took.sync.is_zero()));
        for (scratch, block) in all.iter().zip([512, 300]) {
            let found = scratch.file.metadata().unwrap();
            assert_eq!((found.nlink(), found.size()), (0, SIZE));
            assert!(found.blocks() * 512 >= SIZE, "not preallocated");
            assert_eq!(scratch.block.len(), block);
            assert!(scratch.block.iter().any(|byte| *byte != 0));
        }
        assert!(dir::names(&place.dir).unwrap().is_empty());
        // Not even the directory's times change: the comparison of copies includes them.
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.mtime_nsec(), after.ctime_nsec()), (before.mtime_nsec(), before.ctime_nsec()));
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn it_stops_by_itself() {
        let path = directory("stops");
        let place = Place::open(&host(), &path).unwrap();
        let mut all = [10, 20].map(|block| Scratch::make(&place, SIZE, block).unwrap());
        let taken = measure(&mut all, 1000, Duration::ZERO, &Interrupt::never(), &mut |_| {}).unwrap();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn places_that_can_not_be_measured() {
        let host = host();
        let proc = Place::open(&host, Path::new("/proc")).unwrap();
        assert_eq!(proc.filesystem.as_ref().unwrap().0, "proc");
        let error = Scratch::make(&proc, SIZE, 10).unwrap_err().to_string();
        assert!(error.starts_with("/proc: ") && error.contains("O_TMPFILE"), "{error}");
        for (path, said) in [("/nonexistent/dir", "no such directory"), ("/proc/self/comm", "directory")] {
            let error = Place::open(&host, Path::new(path)).unwrap_err().to_string();
            assert!(error.to_lowercase().contains(said), "{error}");
        }
    }
}

//! Reading a file from its device, and not from memory. Writing it to the device, where that is the same.
//!
//! With `O_DIRECT` (open(2)) XFS first writes the file's dirty pages to the device, then lets the device write into our
//! buffer. It never takes the content from the page cache (kernel `fs/xfs/xfs_file.c`, `xfs_file_dio_read`; `fs/iomap/
//! direct-io.c`). It leaves the page cache as it is, so that etcd finds its database there later. Zeros of a hole and of
//! an extent that was never written come from the filesystem: there is nothing on the device to read.
//!
//! Other filesystems may answer such a read from the page cache. On them the file's pages are dropped before the read:
//! `POSIX_FADV_DONTNEED`, posix_fadvise(2). The kernel keeps only pages that are dirty, mapped or in use at that moment
//! (kernel `mm/fadvise.c`).

use crate::tree::walk::OPEN_FLAGS;
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{Advice, Mode, OFlags, fadvise, fstatfs, openat},
    io::Errno,
};
use std::{ffi::CStr, fs::File, io, os::unix::fs::FileExt};

/// `XFS_SUPER_MAGIC` (`include/uapi/linux/magic.h`).
const XFS: u32 = 0x5846_5342;
/// Buffers, places and lengths of a direct read are multiples of the device's logical block, which is at most this long.
const ALIGN: usize = 4096;

/// A file that is read from its device.
#[derive(Debug)]
pub(super) struct Device {
    file: File,
    pages_may_answer: bool,
}

impl Device {
    pub(super) fn open(dir: impl AsFd, name: &CStr, access: OFlags) -> io::Result<Self> {
        let on_xfs = u32::try_from(fstatfs(&dir)?.f_type).is_ok_and(|found| found == XFS);
        let open = |flags: OFlags| openat(&dir, name, OPEN_FLAGS | access | flags, Mode::empty());
        let file: OwnedFd = match open(OFlags::DIRECT) {
            Err(Errno::INVAL) if !on_xfs => open(OFlags::empty())?,
            opened => opened?,
        };
        Ok(Self { file: file.into(), pages_may_answer: !on_xfs })
    }

    /// Call it before the first read, and after each sync of what is read back.
    pub(super) fn forget_pages(&self) -> io::Result<()> {
        if self.pages_may_answer {
            self.file.sync_data()?;
            fadvise(&self.file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Writes from a multiple of [`super::ledger::BLOCK`] on, past the page cache, as much as can be written so. Returns how
    /// much that was: nothing where pages may answer, and whole units otherwise.
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let count = if self.pages_may_answer { 0 } else { bytes.len() / ALIGN * ALIGN };
        self.file.write_all_at(&bytes[..count], at)?;
        Ok(count)
    }

    /// Reads `count` bytes from a multiple of [`super::ledger::BLOCK`] on. The file must have them.
    pub(super) fn read<'a>(&self, at: u64, count: usize, into: &'a mut Buffer) -> io::Result<&'a [u8]> {
        let whole = into.whole(count)?;
        let mut done = 0;
        while done < count {
            match self.file.read_at(&mut whole[done..], at + done as u64) {
                // A read that ends within a block has met the file's end.
                Ok(more) if more > 0 && (done + more >= count || more % ALIGN == 0) => done += more,
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&whole[..count])
    }
}

/// A buffer for direct reads.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(super) fn new(len: usize) -> Self {
        let bytes = vec![0; len.next_multiple_of(ALIGN) + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN);
        Self { bytes, start }
    }

    pub(super) fn get(&mut self, len: usize) -> io::Result<&mut [u8]> {
        let end = self.start.saturating_add(len);
        self.bytes.get_mut(self.start..end).ok_or_else(|| io::Error::other("the buffer is too small"))
    }

    /// Room for so many bytes, in whole units.
    fn whole(&mut self, len: usize) -> io::Result<&mut [u8]> {
        self.get(len.next_multiple_of(ALIGN))
    }
}

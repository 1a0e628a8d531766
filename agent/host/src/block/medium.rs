//! Reading a disk itself, not the page cache.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom},
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::Path,
};

/// Addresses, lengths and memory are rounded to this: the size of the largest sectors that disks have.
pub(super) const BLOCK: u64 = 4096;

/// An open disk.
///
/// It is opened with `O_DIRECT`, because the page cache may hold old data, and another machine may have written since.
/// A regular file on a filesystem without direct I/O is read in the ordinary way.
#[derive(Debug)]
pub(super) struct Medium {
    file: File,
    size: u64,
}

impl From<Medium> for OwnedFd {
    fn from(medium: Medium) -> Self {
        medium.file.into()
    }
}

impl Medium {
    /// Opens for reading.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(OpenOptions::new().read(true), 0, path)
    }

    /// Opens for reading what has this very name, and is no link.
    pub fn open_node(path: &Path) -> io::Result<Self> {
        Self::open_with(OpenOptions::new().read(true), nix::libc::O_NOFOLLOW, path)
    }

    /// Opens for reading and writing; fails if the disk is in use.
    pub fn open_exclusively(path: &Path) -> io::Result<Self> {
        Self::open_with(OpenOptions::new().read(true).write(true), nix::libc::O_EXCL, path)
    }

    fn open_with(options: &mut OpenOptions, flags: i32, path: &Path) -> io::Result<Self> {
        let mut file = match options.custom_flags(flags | nix::libc::O_DIRECT).open(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                options.custom_flags(flags).open(path)?
            }
            opened => opened?,
        };
        let size = file.seek(SeekFrom::End(0))?;
        if size == 0 {
            return Err(io::Error::other(
                "it has no size: no medium, not ready, or sectors of a size that Linux does not use, such as 520 bytes (`dmesg` says so)",
            ));
        }
        Ok(Self { file, size })
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads all of a range that begins at a multiple of [`BLOCK`]; less than that is an error.
    pub fn read(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut buffer = Buffer::new(length)?;
        let mut filled = 0;
        while filled < length {
            let (from, rest) = (at + filled as u64, buffer.get_mut(filled));
            match self.file.read_at(rest, from) {
                Ok(0) => {
                    let wanted = at + length as u64;
                    let message = format!("it ended at byte {from}, before {wanted}");
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(io::Error::new(kind_of(&error), format!("reading at byte {from}: {error}")));
                }
            }
        }
        Ok(buffer.get_mut(0).get(..length).unwrap_or_default().to_vec())
    }

    /// Writes zeros over the block at this multiple of [`BLOCK`].
    pub fn clear(&self, at: u64) -> io::Result<()> {
        let length = BLOCK.min(self.size.saturating_sub(at));
        let mut zeros = Buffer::new(length as usize)?;
        let zeros = zeros.get_mut(0).get(..length as usize).unwrap_or_default();
        self.file.write_all_at(zeros, at)
    }

    /// Waits until everything that was written is on stable storage.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// Zeros, with the alignment and the length that direct I/O needs.
struct Buffer {
    bytes: Vec<u8>,
    skip: usize,
}

impl Buffer {
    fn new(length: usize) -> io::Result<Self> {
        let align = BLOCK as usize;
        let bytes = vec![0; length.next_multiple_of(align) + align];
        let skip = bytes.as_ptr().align_offset(align);
        if skip > align {
            return Err(io::Error::other("memory that can't be aligned")); // std doesn't guarantee more
        }
        Ok(Self { bytes, skip })
    }

    /// From an offset to the end.
    fn get_mut(&mut self, from: usize) -> &mut [u8] {
        let end = self.bytes.len() - BLOCK as usize + self.skip;
        self.bytes.get_mut(self.skip + from..end).unwrap_or_default()
    }
}

/// The kind of an error of a read. [`io::ErrorKind::ResourceBusy`] means a reservation of another computer, which lets nobody else
/// read (kernel `include/linux/blk_types.h`, `BLK_STS_RESV_CONFLICT` is `EBADE`).
fn kind_of(error: &io::Error) -> io::ErrorKind {
    let reserved = error.raw_os_error() == Some(nix::libc::EBADE);
    if reserved { io::ErrorKind::ResourceBusy } else { error.kind() }
}

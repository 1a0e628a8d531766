//! Brings a copy up to date, and knows what its device holds.
//!
//! A pass walks over the source, gives the copy the same entries, and reads each file block by block. A block whose hash
//! is that of what the copy's device was seen to hold is left alone. Any other block is written, synced, and read back
//! from the device ([`device`]); what was read back is what the [`Ledger`] keeps. So after a pass over a source at rest,
//! every byte of the copy has been read from the device after it was written, and equals the source.
//!
//! While somebody writes to the source, a pass leaves out what changes under it. The next pass finds that, because it
//! reads the whole source again: a file that grew, was truncated, replaced, renamed or removed.
//!
//! [`settle`] then holds names and metadata of both trees against each other, and makes the fingerprint.

mod content;
mod device;
mod ledger;
mod shape;

pub use content::{Progress, Source};
pub use ledger::Ledger;

use super::{
    CHUNK, Side, Summary, TreeError,
    compare::entries,
    walk::{Meta, Node, Walk, look},
};
use crate::Interrupt;
use content::{Done, Pair, THREADS, content, not_kept};
use device::{Buffer, Device};
use ledger::{AtRest, UNKNOWN};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{OFlags, syncfs},
};
use shape::{Need, Shape, metadata};
use std::{ffi::CString, num::NonZero, os::unix::fs::FileExt as _, thread, time::Duration};
use terms::BLOCK;

/// The result of a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// So many bytes of the source were read.
    pub read: u64,
    /// So many bytes were written to the copy.
    pub written: u64,
    /// So many entries changed under the pass, and are left for the next one.
    pub left: u64,
    /// How long its threads worked, all together.
    pub worked: Duration,
}

impl Moved {
    /// How long a pass over a source at rest would have taken, which has more threads; `took` is what this one took with one.
    pub fn at_rest(&self, took: Duration) -> Duration {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = u32::try_from(processors.min(THREADS)).unwrap_or(1);
        took.saturating_sub(self.worked) + self.worked / threads
    }
}

/// Makes `copy` the same as `source`, and the ledger what the copy's device holds. Syncs the copy's filesystem.
///
/// Owners, modes, modification times, symbolic and hard links are copied; other attributes are not, see
/// [`unsupported`](super::unsupported).
pub fn update(
    source: impl AsFd,
    copy: impl AsFd,
    ledger: &mut Ledger,
    how: Source,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(Progress),
) -> Result<Moved, TreeError> {
    let mut walk = Walk::new(source.as_fd(), Side::Source, interrupt)?;
    let mut shape = Shape::new(&copy)?;
    let mut moved = Moved::default();
    ledger.begin();
    loop {
        let entry = match walk.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) if how != Source::AtRest && error.is_a_change() => {
                moved.left += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        let Need::Content { file, inode, directory, name } = shape.make(&entry)? else { continue };
        let Node::File(from) = &entry.node else { continue };
        let unwritable = |error| Side::Copy.unwritable(&entry.path, error);
        let device = Device::open(&directory, &name, OFlags::RDWR).map_err(unwritable)?;
        let mut seen = ledger.take(&entry.path, inode);
        let pair = Pair {
            path: &entry.path,
            meta: &entry.meta,
            interrupt,
            source: from,
            copy: &file,
            device: &device,
            how,
        };
        let result = content(&pair, ledger, &mut seen, &mut |progress| {
            if let Progress::Read(count) = progress {
                moved.read += count;
            }
            tell(progress);
        });
        match result {
            Ok(Done { content, written, worked }) => {
                moved.written += written;
                moved.worked += worked;
                metadata(file.as_fd(), &entry.meta).map_err(unwritable)?;
                if how == Source::AtRest {
                    let copy = look(file.as_fd(), c"").map_err(unwritable)?;
                    seen.at_rest = Some(AtRest { source: entry.meta.clone(), copy, content });
                }
            }
            Err(error) if how != Source::AtRest && error.is_a_change() => moved.left += 1,
            Err(error) => return Err(error),
        }
        ledger.put(entry.path, seen);
    }
    shape.finish()?;
    for path in &shape.shared {
        let now = shape.look(path).map_err(|error| Side::Copy.unreadable(path, error))?;
        ledger.changed_by_us(path, now);
    }
    ledger.end();
    syncfs(&copy).map_err(|error| Side::Copy.unwritable(b"", error.into()))?;
    Ok(moved)
}

/// The proof: compares names and metadata of every entry of both trees, and takes the content from a pass over the
/// source at rest. Fails if either side has changed since that pass.
pub fn settle(
    source: impl AsFd,
    copy: impl AsFd,
    ledger: &Ledger,
    interrupt: &Interrupt,
) -> Result<Summary, TreeError> {
    entries(source, copy, ledger.seed(), interrupt, |ours, theirs| {
        let path = &ours.path;
        let proven = ledger.get(path).and_then(|seen| {
            let whole = !seen.blocks.contains(&UNKNOWN)
                && seen.blocks.len() as u64 == ours.meta.size.div_ceil(BLOCK as u64);
            seen.at_rest.as_ref().filter(|_| whole)
        });
        match proven {
            None => Err(Side::Source.changing(path)),
            Some(proven) if !same(&proven.source, &ours.meta) => Err(Side::Source.changing(path)),
            Some(proven) if !same(&proven.copy, &theirs.meta) => Err(Side::Copy.changing(path)),
            Some(proven) => Ok(proven.content),
        }
    })
}

/// The identity and the times of a file: equal if it is the same file and was not written since.
fn same(before: &Meta, now: &Meta) -> bool {
    let of = |meta: &Meta| (meta.inode, meta.size, meta.mtime, meta.ctime);
    of(before) == of(now)
}

/// How much of a copy was read from its device once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// So many bytes were read.
    pub read: u64,
    /// Of so many; less was read only if it was ended.
    pub of: u64,
}

/// Reads everything that the ledger knows from the device again, which must hold the same as before. Ends when `go_on` says no.
pub fn audit(
    copy: impl AsFd,
    ledger: &Ledger,
    go_on: &dyn Fn() -> bool,
    interrupt: &Interrupt,
) -> Result<Audit, TreeError> {
    let mut goes_on = true;
    let mut done = Audit { read: 0, of: 0 };
    let mut buffer = Buffer::new(CHUNK);
    let mut walk = Walk::new(copy.as_fd(), Side::Copy, interrupt)?;
    while let Some(entry) = walk.next()? {
        let Some(seen) = ledger.get(&entry.path).filter(|seen| seen.inode == entry.meta.inode) else {
            continue;
        };
        // After that the walk goes on, for the sizes.
        done.of += entry.meta.size;
        goes_on = goes_on && go_on();
        if !goes_on {
            continue;
        }
        let unreadable = |error| Side::Copy.unreadable(&entry.path, error);
        let device = open_again(&copy, &entry.path).map_err(unreadable)?;
        device.forget_pages().map_err(unreadable)?;
        for (nth, blocks) in seen.blocks.chunks(CHUNK / BLOCK).enumerate() {
            walk.stop_if_asked()?;
            goes_on = goes_on && go_on();
            if !goes_on {
                break;
            }
            let at = (nth * CHUNK) as u64;
            let rest = entry.meta.size.saturating_sub(at);
            let count = usize::try_from(rest).map_or(CHUNK, |rest| rest.min(CHUNK));
            let found = device.read(at, count, &mut buffer).map_err(unreadable)?;
            for (block, (known, found)) in blocks.iter().zip(found.chunks(BLOCK)).enumerate() {
                if *known != UNKNOWN && *known != ledger.hash(found) {
                    return Err(not_kept(&entry.path, at + (block * BLOCK) as u64));
                }
            }
            done.read += count as u64;
        }
    }
    Ok(done)
}

fn open_again(copy: impl AsFd, path: &[u8]) -> std::io::Result<Device> {
    Device::open(copy, &CString::new(path)?, OFlags::RDONLY)
}

/// Reads the files of a tree into memory, as far as there is room, so that etcd finds them there.
///
/// It reads them, because `POSIX_FADV_WILLNEED` reads no more than one readahead window (kernel `mm/readahead.c`,
/// `force_page_cache_ra`).
pub fn warm(root: &OwnedFd, interrupt: &Interrupt) -> Result<(), TreeError> {
    let mut buffer = vec![0; CHUNK];
    let mut walk = Walk::new(root.as_fd(), Side::Copy, interrupt)?;
    while let Some(entry) = walk.next()? {
        let Node::File(file) = &entry.node else { continue };
        let mut at = 0;
        while at < entry.meta.size {
            walk.stop_if_asked()?;
            let read = file.read_at(&mut buffer, at);
            match read.map_err(|error| Side::Copy.unreadable(&entry.path, error))? {
                0 => break,
                count => at += count as u64,
            }
        }
    }
    Ok(())
}

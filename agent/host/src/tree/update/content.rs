//! The content of one file: writing the blocks that differ, and reading them back from the device.
//!
//! The file is gone through in batches. Some threads write a batch while they read the one before it back, so that source
//! and device always have something to do. Between two batches everything is synced.

use super::{
    device::{Buffer, Device},
    ledger::{Ledger, Seen, UNKNOWN},
};
use crate::{
    Interrupt,
    tree::{
        CHUNK, Side, TreeError,
        walk::{Meta, look},
    },
};
use rustix::fd::AsFd;
use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread::{self, Thread},
    time::{Duration, Instant},
};
use terms::{BLOCK, ContentHasher};

/// So many pieces of a file are written before they are synced and read back. A sync makes the device write its cache, which
/// may take longer than all the rest, so there are few.
const BATCH: usize = 256;
/// A device is quicker if it has several orders at a time. Each thread has two buffers.
pub(super) const THREADS: usize = 4;
/// How often the caller is told what was read.
const TELL: Duration = Duration::from_millis(250);

/// The state of the source: somebody may write to it, or nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// etcd serves from it. What changes is left for a later pass. Only one thread works: etcd needs the same processors and the
    /// same disk.
    Served,
    /// Somebody writes, and etcd waits for this pass. What changes is left for a later one.
    InUse,
    /// Nobody writes. A change is an error.
    AtRest,
}

/// The progress of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes of the source were read.
    Read(u64),
    /// So many bytes were written and synced, and are about to be read back.
    Synced(u64),
}

/// The result for one file.
#[derive(Debug)]
pub(super) struct Done {
    /// The hash of the content, which means something only for a source at rest.
    pub content: [u8; 16],
    /// So many bytes were written.
    pub written: u64,
    /// How long the threads worked, all together.
    pub worked: Duration,
}

/// A file of both trees.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    pub path: &'a [u8],
    /// The source's metadata, from before its content is read.
    pub meta: &'a Meta,
    pub interrupt: &'a Interrupt,
    pub source: &'a File,
    /// For writing.
    pub copy: &'a File,
    pub device: &'a Device,
    pub how: Source,
}

impl Pair<'_> {
    fn unwritable(&self, error: io::Error) -> TreeError {
        Side::Copy.unwritable(self.path, error)
    }

    fn stop_if_asked(&self) -> Result<(), TreeError> {
        if self.interrupt.is_requested() { Err(TreeError::Interrupted) } else { Ok(()) }
    }

    /// Fails if the source has changed since its metadata was read.
    fn unchanged(&self) -> Result<(), TreeError> {
        let now =
            look(self.source.as_fd(), c"").map_err(|error| Side::Source.unreadable(self.path, error))?;
        if now == *self.meta { Ok(()) } else { Err(Side::Source.changing(self.path)) }
    }

    fn read_source(&self, piece: &mut [u8], at: u64) -> Result<(), TreeError> {
        self.source.read_exact_at(piece, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Side::Source.changing(self.path),
            _ => Side::Source.unreadable(self.path, error),
        })
    }

    fn read_device<'a>(&self, at: u64, count: usize, into: &'a mut Buffer) -> Result<&'a [u8], TreeError> {
        self.device.read(at, count, into).map_err(|error| Side::Copy.unreadable(self.path, error))
    }

    /// Writes to the device itself, as far as it can: that is quicker than by memory. But it drops from memory what is there of
    /// the file around these bytes. So `kept` bytes, which may have been read into memory for etcd, are written by memory.
    fn write_copy(&self, bytes: &[u8], at: u64, kept: bool) -> Result<(), TreeError> {
        let direct = if kept { Ok(0) } else { self.device.write(bytes, at) };
        let written = direct.and_then(|done| {
            let rest = &bytes[done..];
            if rest.is_empty() { Ok(()) } else { self.copy.write_all_at(rest, at + done as u64) }
        });
        written.map_err(|error| self.unwritable(error))
    }
}

/// A block that was written, and must be found on the device.
#[derive(Debug, Clone, Copy)]
struct Written {
    index: usize,
    len: usize,
    hash: u128,
}

impl Written {
    fn at(&self) -> u64 {
        (self.index * BLOCK) as u64
    }
}

/// Makes the content of a file of the copy that of the source.
pub(super) fn content(
    pair: &Pair<'_>,
    ledger: &Ledger,
    seen: &mut Seen,
    tell: &mut dyn FnMut(Progress),
) -> Result<Done, TreeError> {
    let size = pair.meta.size;
    let unwritable = |error| pair.unwritable(error);
    let old = pair.copy.metadata().map_err(unwritable)?.len();
    if old != size {
        pair.copy.set_len(size).map_err(unwritable)?;
    }
    seen.resize(old, size);
    pair.device.forget_pages().map_err(unwritable)?;
    // Of a file that is not gone through to its end nothing is known.
    let known = std::mem::take(&mut seen.blocks);
    let mut hashes = Vec::with_capacity(known.len());
    let (mut written, mut worked) = (0, Duration::ZERO);
    let count = usize::try_from(size.div_ceil(CHUNK as u64)).unwrap_or(usize::MAX);
    let (mut to, mut synced) = (0, Vec::new());
    while to < count || !synced.is_empty() {
        let from = to;
        to = count.min(from + BATCH);
        let batch = Batch { pair, ledger, known: &known, old, synced: &synced, pieces: from..to };
        let pieces = batch.work(&mut worked, tell)?;
        hashes.extend(pieces.iter().flat_map(|piece| &piece.hashes));
        written += pieces.iter().map(|piece| piece.written).sum::<u64>();
        synced =
            pieces.into_iter().map(|piece| piece.differing).filter(|blocks| !blocks.is_empty()).collect();
        if !synced.is_empty() {
            pair.copy.sync_data().map_err(unwritable)?;
            pair.device.forget_pages().map_err(unwritable)?;
            tell(Progress::Synced(synced.iter().flatten().map(|block| block.len as u64).sum()));
        }
    }
    if pair.how == Source::AtRest {
        pair.unchanged()?;
    }
    let mut hasher = ContentHasher::new(ledger.seed());
    hashes.iter().for_each(|hash| hasher.block(*hash));
    seen.blocks = hashes;
    Ok(Done { content: hasher.finish(), written, worked })
}

/// A piece of the source that was held against the copy.
#[derive(Debug)]
struct Piece {
    nth: usize,
    hashes: Vec<u128>,
    /// The blocks that differed.
    differing: Vec<Written>,
    written: u64,
}

/// The state that the threads of a batch share.
#[derive(Debug)]
struct Shared {
    /// The job that a thread takes next.
    next: AtomicUsize,
    /// The bytes of the source that were read and not told yet.
    read: AtomicU64,
    /// The threads that have not ended.
    running: AtomicUsize,
}

/// Counts a thread as running until it ends, and wakes the caller then.
struct Running<'a>(&'a AtomicUsize, &'a Thread);

impl<'a> Running<'a> {
    fn new(count: &'a AtomicUsize, caller: &'a Thread) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count, caller)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
        self.1.unpark();
    }
}

/// The work of the threads until the next sync.
#[derive(Debug)]
struct Batch<'a> {
    pair: &'a Pair<'a>,
    ledger: &'a Ledger,
    /// The blocks that the device was seen to hold.
    known: &'a [u128],
    /// The size that the copy had.
    old: u64,
    /// The blocks to read back, by pieces.
    synced: &'a [Vec<Written>],
    /// The pieces to write.
    pieces: Range<usize>,
}

impl Batch<'_> {
    fn work(&self, worked: &mut Duration, tell: &mut dyn FnMut(Progress)) -> Result<Vec<Piece>, TreeError> {
        let shared =
            Shared { next: AtomicUsize::new(0), read: AtomicU64::new(0), running: AtomicUsize::new(0) };
        let caller = thread::current();
        let mut pieces = thread::scope(|scope| {
            let mut threads = Vec::new();
            let most = if self.pair.how == Source::Served { 1 } else { THREADS };
            for _ in 0..most.min(self.synced.len() + self.pieces.len()) {
                // The thread has a name, so that a list of threads shows which files a hanging process reads and writes.
                let named = thread::Builder::new().name("copy".into());
                let running = Running::new(&shared.running, &caller);
                let thread = named.spawn_scoped(scope, || {
                    let _running = running;
                    self.jobs(&shared)
                });
                threads.push(thread.map_err(|error| self.pair.unwritable(error))?);
            }
            loop {
                let ended = shared.running.load(Ordering::Acquire) == 0;
                tell(Progress::Read(shared.read.swap(0, Ordering::Relaxed)));
                if ended {
                    break;
                }
                thread::park_timeout(TELL);
            }
            let mut result = Ok(Vec::new());
            for thread in threads {
                let ended = || Err(self.pair.unwritable(io::Error::other("the reading thread ended")));
                let more = thread.join().unwrap_or_else(|_| ended());
                result = result.and_then(|mut pieces: Vec<Piece>| {
                    let (more, took) = more?;
                    pieces.extend(more);
                    *worked += took;
                    Ok(pieces)
                });
            }
            result
        })?;
        pieces.sort_unstable_by_key(|piece| piece.nth);
        Ok(pieces)
    }

    /// Where a piece begins, and its length.
    fn place(&self, nth: usize) -> (u64, usize) {
        let at = (nth * CHUNK) as u64;
        (at, usize::try_from(self.pair.meta.size - at).map_or(CHUNK, |rest| rest.min(CHUNK)))
    }

    /// Takes the next job until there is none left. It reads back and writes by turns.
    fn jobs(&self, shared: &Shared) -> Result<(Vec<Piece>, Duration), TreeError> {
        let size = usize::try_from(self.pair.meta.size).map_or(CHUNK, |size| size.min(CHUNK));
        let (mut ours, mut theirs) = (Buffer::new(size), Buffer::new(size));
        let (mut done, begun) = (Vec::new(), Instant::now());
        let both = self.synced.len().min(self.pieces.len());
        loop {
            let job = shared.next.fetch_add(1, Ordering::Relaxed);
            let (to_read, to_write) = match job {
                job if job >= 2 * both => (job - both, job - both),
                job if job % 2 == 0 => (job / 2, usize::MAX),
                job => (usize::MAX, job / 2),
            };
            let result = match (self.synced.get(to_read), self.pieces.clone().nth(to_write)) {
                (Some(blocks), _) => self.verify(blocks, &mut ours, &mut theirs),
                (None, Some(nth)) => self.write(nth, &mut ours, &mut theirs).map(|piece| {
                    shared.read.fetch_add(self.place(nth).1 as u64, Ordering::Relaxed);
                    done.push(piece);
                }),
                (None, None) => return Ok((done, begun.elapsed())),
            };
            if let Err(error) = result.and_then(|()| self.pair.stop_if_asked()) {
                // The other threads end too.
                shared.next.store(usize::MAX / 2, Ordering::Relaxed);
                return Err(error);
            }
        }
    }

    /// Holds each block of a piece of the source against what the device holds, and writes those that differ.
    fn write(&self, nth: usize, ours: &mut Buffer, theirs: &mut Buffer) -> Result<Piece, TreeError> {
        let (at, count) = self.place(nth);
        let piece = ours.get(count).map_err(|error| self.pair.unwritable(error))?;
        self.pair.read_source(piece, at)?;
        let (piece, first) = (&*piece, nth * (CHUNK / BLOCK));
        let known = &self.known[first..first + count.div_ceil(BLOCK)];
        let kept = !known.contains(&UNKNOWN);
        let known = if at < self.old && known.contains(&UNKNOWN) {
            let found = self.pair.read_device(at, count, theirs)?;
            found.chunks(BLOCK).map(|block| self.ledger.hash(block)).collect()
        } else {
            known.to_vec()
        };
        let hashes: Vec<u128> = piece.chunks(BLOCK).map(|block| self.ledger.hash(block)).collect();
        let mut made = Piece { nth, hashes, differing: Vec::new(), written: 0 };
        let mut run = 0..0;
        for ((nth, block), (known, hash)) in
            piece.chunks(BLOCK).enumerate().zip(known.iter().zip(&made.hashes))
        {
            if known == hash && *hash != UNKNOWN {
                continue;
            }
            let block = Written { index: first + nth, len: block.len(), hash: *hash };
            made.differing.push(block);
            let (start, end) = (nth * BLOCK, nth * BLOCK + block.len);
            // Behind its old end the copy has a hole, which holds zeros.
            if block.at() >= self.old && piece[start..end].iter().all(|byte| *byte == 0) {
                continue;
            }
            made.written += block.len as u64;
            if run.end != start {
                self.pair.write_copy(&piece[run.clone()], at + run.start as u64, kept)?;
                run.start = start;
            }
            run.end = end;
        }
        self.pair.write_copy(&piece[run.clone()], at + run.start as u64, kept)?;
        Ok(made)
    }

    /// Reads blocks of one piece that were written and synced back from the device. They must be what was written.
    ///
    /// If the source is at rest, it is read once more, and must still have the same hashes. So neither an error in the memory
    /// through which a block went nor one in its hash goes unnoticed.
    fn verify(&self, blocks: &[Written], ours: &mut Buffer, theirs: &mut Buffer) -> Result<(), TreeError> {
        let pair = self.pair;
        let same = |found: &[u8], block: &Written| self.ledger.hash(found) == block.hash;
        let mut rest = blocks;
        while let Some(first) = rest.first() {
            // A run of blocks that follow one another is one read.
            let follow = |(nth, block): &(usize, &Written)| block.index == first.index + nth;
            let run = rest.iter().enumerate().take_while(follow).count();
            let (run, later) = rest.split_at(run);
            rest = later;
            let count = run.iter().map(|block| block.len).sum();
            let found = pair.read_device(first.at(), count, theirs)?;
            if let Some((_, lost)) = found.chunks(BLOCK).zip(run).find(|(found, block)| !same(found, block)) {
                return Err(not_kept(pair.path, lost.at()));
            }
            if pair.how == Source::AtRest {
                let again = ours.get(count).map_err(|error| pair.unwritable(error))?;
                pair.read_source(again, first.at())?;
                if let Some((_, lost)) =
                    again.chunks(BLOCK).zip(run).find(|(again, block)| !same(again, block))
                {
                    pair.unchanged()?;
                    return Err(not_kept(pair.path, lost.at()));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn not_kept(path: &[u8], at: u64) -> TreeError {
    TreeError::NotKept { file: Side::Copy.name(path), at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::OFlags;

    /// A piece of which the ledger has no entry for each block is a fault of this program: it ends here, and writes nothing.
    #[test]
    #[should_panic(expected = "out of range")]
    fn a_ledger_that_is_too_short_ends_the_program() {
        let dir = std::env::temp_dir().join(format!("etcd-lun-content-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["source", "copy"] {
            std::fs::write(dir.join(name), vec![1; 2 * BLOCK]).unwrap();
        }
        let [source, copy] = ["source", "copy"]
            .map(|name| File::options().read(true).write(true).open(dir.join(name)).unwrap());
        let device = Device::open(File::open(&dir).unwrap(), c"copy", OFlags::RDWR).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        let meta = look(source.as_fd(), c"").unwrap();
        let interrupt = Interrupt::never();
        let pair = Pair {
            path: b"db",
            meta: &meta,
            interrupt: &interrupt,
            source: &source,
            copy: &copy,
            device: &device,
            how: Source::AtRest,
        };
        let ledger = Ledger::new().unwrap();
        let (old, known) = (meta.size, [UNKNOWN]);
        let batch = Batch { pair: &pair, ledger: &ledger, known: &known, old, synced: &[], pieces: 0..1 };
        let (mut ours, mut theirs) = (Buffer::new(CHUNK), Buffer::new(CHUNK));
        batch.write(0, &mut ours, &mut theirs).unwrap();
    }
}

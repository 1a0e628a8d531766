//! The content of one file: writing the blocks that differ, and reading them back from the device.

use super::{
    device::{Buffer, Device},
    ledger::{BLOCK, Ledger, Seen, UNKNOWN},
};
use crate::{
    host::Interrupt,
    host::tree::{
        CHUNK, Side, TreeError,
        walk::{Meta, look},
    },
    terms::{Fingerprint, Hasher},
};
use rustix::fd::AsFd;
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, ScopedJoinHandle},
};

/// How much is written before it is synced and read back. The device then takes the next part while it returns this one.
const BATCH: u64 = 32 << 20;

/// Whether somebody may write to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Somebody writes. What changes is left for a later pass.
    InUse,
    /// Nobody writes. A change is an error.
    AtRest,
}

/// What a pass does, as it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes of the source were read.
    Read(u64),
    /// So many bytes were written and synced, and are about to be read back.
    Synced(u64),
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

    fn sync(&self, pending: &Pending, tell: &mut dyn FnMut(Progress)) -> Result<(), TreeError> {
        self.copy.sync_data().map_err(|error| self.unwritable(error))?;
        self.device.forget_pages().map_err(|error| self.unwritable(error))?;
        tell(Progress::Synced(pending.bytes));
        Ok(())
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

/// Makes the content of a file of the copy that of the source. Returns the hash of the content, and how much was written.
pub(super) fn content(
    pair: &Pair<'_>,
    ledger: &Ledger,
    seen: &mut Seen,
    tell: &mut dyn FnMut(Progress),
) -> Result<(Fingerprint, u64), TreeError> {
    let size = pair.meta.size;
    let unwritable = |error| pair.unwritable(error);
    let old = pair.copy.metadata().map_err(unwritable)?.len();
    if old != size {
        pair.copy.set_len(size).map_err(unwritable)?;
    }
    seen.resize(old, size);
    pair.device.forget_pages().map_err(unwritable)?;
    let (hash, written, kept) = thread::scope(|scope| {
        let mut reader: Option<Reader<'_>> = None;
        let mut pending = Pending::default();
        let hash = blocks(pair, ledger, seen, old, &mut pending, tell, &mut |batch| {
            if reader.is_none() {
                let (sender, batches) = sync_channel(1);
                let read = move || read_back(pair, ledger, &batches);
                let named = thread::Builder::new().name("copy reader".into());
                let handle = named.spawn_scoped(scope, read).map_err(unwritable)?;
                reader = Some(Reader { sender, handle });
            }
            if let Some(reader) = &reader {
                // This fails if the reader has ended with an error, which is returned below.
                let _sent = reader.sender.send(batch);
            }
            Ok(())
        });
        let kept = match reader {
            Some(reader) => reader.end(pair.path),
            None => Ok(Vec::new()),
        };
        let mut kept = kept?;
        let hash = hash?;
        kept.extend(verify(pair, ledger, &pending.blocks, &mut Buffer::new(CHUNK), &mut Vec::new())?);
        Ok::<_, TreeError>((hash, pending.written, kept))
    })?;
    for block in kept {
        if let Some(known) = seen.blocks.get_mut(block.index) {
            *known = block.hash;
        }
    }
    Ok((hash, written))
}

#[derive(Debug, Default)]
struct Pending {
    blocks: Vec<Written>,
    bytes: u64,
    /// All that was written so far.
    written: u64,
}

/// Holds each block of the source against what the device holds, and writes those that differ. Full batches go to `full`;
/// the last one is synced and stays in `pending`.
fn blocks(
    pair: &Pair<'_>,
    ledger: &Ledger,
    seen: &mut Seen,
    old: u64,
    pending: &mut Pending,
    tell: &mut dyn FnMut(Progress),
    full: &mut dyn FnMut(Vec<Written>) -> Result<(), TreeError>,
) -> Result<Fingerprint, TreeError> {
    let mut hasher = Hasher::default();
    let chunk = usize::try_from(pair.meta.size).map_or(CHUNK, |size| size.min(CHUNK));
    let mut buffer = vec![0; chunk];
    let mut on_device = None;
    while hasher.count() < pair.meta.size {
        pair.stop_if_asked()?;
        let at = hasher.count();
        let wanted = usize::try_from(pair.meta.size - at).map_or(chunk, |rest| rest.min(chunk));
        let piece = buffer.get_mut(..wanted).unwrap_or_default();
        pair.read_source(piece, at)?;
        let piece = &*piece;
        hasher.update(piece);
        let first = usize::try_from(at / BLOCK as u64).unwrap_or(usize::MAX);
        let known = seen.blocks.get_mut(first..).unwrap_or_default();
        if at < old && known.iter().take(wanted.div_ceil(BLOCK)).any(|block| *block == UNKNOWN) {
            let into = on_device.get_or_insert_with(|| Buffer::new(chunk));
            let found = pair.read_device(at, wanted, into)?;
            for (block, found) in known.iter_mut().zip(found.chunks(BLOCK)) {
                *block = ledger.hash(found);
            }
        }
        for ((nth, block), known) in piece.chunks(BLOCK).enumerate().zip(known) {
            let hash = ledger.hash(block);
            if *known == hash && hash != UNKNOWN {
                continue;
            }
            *known = UNKNOWN;
            let written = Written { index: first + nth, len: block.len(), hash };
            // Behind its old end the copy has a hole, which holds zeros.
            if written.at() < old || block.iter().any(|byte| *byte != 0) {
                pair.copy.write_all_at(block, written.at()).map_err(|error| pair.unwritable(error))?;
                pending.written += block.len() as u64;
            }
            pending.bytes += block.len() as u64;
            pending.blocks.push(written);
        }
        tell(Progress::Read(wanted as u64));
        if pending.bytes >= BATCH {
            pair.sync(pending, tell)?;
            pending.bytes = 0;
            full(std::mem::take(&mut pending.blocks))?;
        }
    }
    if !pending.blocks.is_empty() {
        pair.sync(pending, tell)?;
    }
    if pair.how == Source::AtRest {
        pair.unchanged()?;
    }
    Ok(hasher.finish())
}

/// The thread that reads back full batches. Its name shows in a list of threads which disk a hanging process reads.
struct Reader<'scope> {
    sender: SyncSender<Vec<Written>>,
    handle: ScopedJoinHandle<'scope, Result<Vec<Written>, TreeError>>,
}

impl Reader<'_> {
    fn end(self, path: &[u8]) -> Result<Vec<Written>, TreeError> {
        drop(self.sender);
        let ended = || io::Error::other("the reading thread ended");
        self.handle.join().unwrap_or_else(|_| Err(Side::Copy.unreadable(path, ended())))
    }
}

fn read_back(
    pair: &Pair<'_>,
    ledger: &Ledger,
    batches: &Receiver<Vec<Written>>,
) -> Result<Vec<Written>, TreeError> {
    let (mut buffer, mut again) = (Buffer::new(CHUNK), Vec::new());
    let mut kept = Vec::new();
    for batch in batches {
        kept.extend(verify(pair, ledger, &batch, &mut buffer, &mut again)?);
    }
    Ok(kept)
}

/// Reads blocks that were written and synced back from the device. They must be what was written.
///
/// If the source is at rest, it is read once more, and held against the device byte by byte. So neither an error in the
/// memory through which a block went nor one in its hash goes unnoticed.
fn verify(
    pair: &Pair<'_>,
    ledger: &Ledger,
    written: &[Written],
    buffer: &mut Buffer,
    again: &mut Vec<u8>,
) -> Result<Vec<Written>, TreeError> {
    let mut kept = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some(first) = rest.first() {
        pair.stop_if_asked()?;
        // A run of blocks that follow one another is one read.
        let follow = |(nth, block): &(usize, &Written)| block.index == first.index + nth;
        let run = rest.iter().enumerate().take(CHUNK / BLOCK).take_while(follow).count();
        let (run, later) = rest.split_at(run);
        rest = later;
        let count = run.iter().map(|block| block.len).sum();
        let found = pair.read_device(first.at(), count, buffer)?;
        if pair.how == Source::AtRest {
            again.resize(count, 0);
            pair.read_source(again, first.at())?;
            if again != found {
                let same = again.iter().zip(found).take_while(|(a, b)| a == b).count();
                pair.unchanged()?;
                return Err(not_kept(pair.path, first.at() + same as u64));
            }
        }
        for (block, found) in run.iter().zip(found.chunks(BLOCK)) {
            if ledger.hash(found) != block.hash {
                return Err(not_kept(pair.path, block.at()));
            }
            kept.push(*block);
        }
    }
    Ok(kept)
}

pub(super) fn not_kept(path: &[u8], at: u64) -> TreeError {
    TreeError::NotKept { file: Side::Copy.name(path), at }
}

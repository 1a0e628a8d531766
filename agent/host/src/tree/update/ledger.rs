//! What the copy's device was seen to hold: a hash for each block.

use crate::{
    random,
    tree::{Side, TreeError, walk::Meta},
};
use std::collections::HashMap;
use terms::{BLOCK, block_hash};

/// The blocks that the device of a copy was seen to hold. It lives for one run.
#[derive(Debug)]
pub struct Ledger {
    seed: u64,
    /// By path.
    files: HashMap<Vec<u8>, Seen>,
    pass: u32,
}

/// The blocks that were seen of one file of the copy.
#[derive(Debug)]
pub(super) struct Seen {
    /// The inode on the copy.
    pub inode: u64,
    /// The hash of each block, as it was read from the device. Zero stands for a block of which that is not known.
    pub blocks: Vec<u128>,
    /// Set by a pass over a source at rest.
    pub at_rest: Option<AtRest>,
    pass: u32,
}

/// The facts that make the blocks of a file the proof of its content.
#[derive(Debug)]
pub(super) struct AtRest {
    /// The source when its blocks were held against those of the device.
    pub source: Meta,
    /// The copy after its last change.
    pub copy: Meta,
    /// The hash of the whole content.
    pub content: [u8; 16],
}

/// A block of which the device's content is not known.
pub(super) const UNKNOWN: u128 = 0;

impl Ledger {
    /// An empty one: nothing is known about the device.
    pub fn new() -> Result<Self, TreeError> {
        let mut seed = [0; 8];
        random::fill(&mut seed).map_err(|error| Side::Only.unreadable(b"", error))?;
        Ok(Self { seed: u64::from_ne_bytes(seed), files: HashMap::new(), pass: 0 })
    }

    /// The seed of its hashes.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn hash(&self, block: &[u8]) -> u128 {
        block_hash(block, self.seed)
    }

    /// Begins a pass. What it doesn't ask for is forgotten at its end, by [`Self::end`].
    pub(super) fn begin(&mut self) {
        self.pass += 1;
    }

    pub(super) fn end(&mut self) {
        let pass = self.pass;
        self.files.retain(|_, seen| seen.pass == pass);
    }

    /// Takes out what is known of a file; nothing if the name is another file's now. [`Self::put`] brings it back.
    pub(super) fn take(&mut self, path: &[u8], inode: u64) -> Seen {
        match self.files.remove(path) {
            Some(seen) if seen.inode == inode => Seen { at_rest: None, pass: self.pass, ..seen },
            _ => Seen { inode, blocks: Vec::new(), at_rest: None, pass: self.pass },
        }
    }

    pub(super) fn put(&mut self, path: Vec<u8>, seen: Seen) {
        self.files.insert(path, seen);
    }

    /// Notes that the metadata of a file of the copy was changed by giving it another name, or taking one.
    pub(super) fn changed_by_us(&mut self, path: &[u8], now: Meta) {
        if let Some(at_rest) = self.files.get_mut(path).and_then(|seen| seen.at_rest.as_mut()) {
            at_rest.copy = now;
        }
    }

    /// Returns the known blocks of a file.
    pub(super) fn get(&self, path: &[u8]) -> Option<&Seen> {
        self.files.get(path)
    }
}

impl Seen {
    /// Fits the blocks to a file whose size was `old` and is `new`. Where they differ, the last block is another one now.
    pub(super) fn resize(&mut self, old: u64, new: u64) {
        let count = usize::try_from(new.div_ceil(BLOCK as u64)).unwrap_or(usize::MAX);
        self.blocks.resize(count, UNKNOWN);
        if old != new
            && let Ok(last) = usize::try_from(old.min(new) / BLOCK as u64)
            && let Some(block) = self.blocks.get_mut(last)
        {
            *block = UNKNOWN;
        }
    }
}

//! One hash of everything in a tree.

use super::{
    CHUNK, Summary, TreeError,
    walk::{Entry, Node, Walk},
};
use crate::{Interrupt, tree::Side};
use rustix::{
    fd::{AsFd, BorrowedFd},
    fs::{Advice, fadvise},
};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
};
use terms::{Bytes, ContentHasher, Fingerprint, Hasher};

/// The name of the format of the records below. Fingerprints are stored for years, so change this name if you change
/// the format.
const FORMAT: &[u8] = b"tree fingerprint 4\n";

/// Reads a whole tree: one fingerprint of the contents and metadata of every entry.
///
/// It covers: relative path, type, permission bits, owner and group; of files the size, the modification time
/// (`mtime`), the content, and which names are links to one file; of directories and symbolic links the modification
/// time; the target of links. It doesn't cover the root's own time, because that changes when anything is made in the
/// root and removed again, and after that the tree is the same as before. It doesn't cover inode numbers either,
/// because every copy has others.
///
/// `progress` gets the number of bytes read so far. `seed` is that of the fingerprint to compare with.
pub fn fingerprint(
    root: impl AsFd,
    seed: u64,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, TreeError> {
    let mut walk = Walk::new(root.as_fd(), Side::Only, interrupt)?;
    let mut links = Links::default();
    let mut record = Record::new(seed);
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    while let Some(entry) = walk.next()? {
        let link = links.earlier_name(&entry);
        let content = match (&entry.node, link) {
            (Node::File(file), None) => {
                Some(content(&walk, &entry, file, seed, &mut buffer, &mut |count| {
                    done += count;
                    progress(done);
                })?)
            }
            _ => None,
        };
        record.add(&entry, link, content);
    }
    Ok(record.summary())
}

fn content(
    walk: &Walk<'_>,
    entry: &Entry,
    file: &File,
    seed: u64,
    buffer: &mut [u8],
    read: &mut dyn FnMut(u64),
) -> Result<[u8; 16], TreeError> {
    let unreadable = |error| walk.side.unreadable(&entry.path, error);
    read_ahead(file.as_fd());
    let mut hasher = ContentHasher::new(seed);
    loop {
        walk.stop_if_asked()?;
        let count = fill(file, buffer).map_err(unreadable)?;
        let Some(piece) = buffer.get(..count).filter(|piece| !piece.is_empty()) else { break };
        hasher.update(piece);
        // A file that grows as fast as it is read would never end.
        if hasher.count() > entry.meta.size {
            return Err(walk.side.changing(&entry.path));
        }
        read(count as u64);
    }
    if hasher.count() < entry.meta.size {
        return Err(walk.side.changing(&entry.path));
    }
    walk.unchanged(&entry.path, file.as_fd(), &entry.meta)?;
    Ok(hasher.finish())
}

/// Reads until the buffer is full or the file ends.
fn fill(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Asks the kernel to read ahead while we hash. This is only a hint, so an error is ignored.
fn read_ahead(file: BorrowedFd<'_>) {
    if let Err(error) = fadvise(file, 0, None, Advice::Sequential) {
        tracing::debug!("advising to read ahead: {error}");
    }
}

/// The files with more than one name. Only these need memory.
#[derive(Debug, Default)]
pub(super) struct Links {
    first: HashMap<u64, u64>,
    seen: u64,
}

impl Links {
    /// The number, in the order of the walk, of the entry that was the first name of the same file; none if this is the
    /// first name. Call it once for each entry.
    pub(super) fn earlier_name(&mut self, entry: &Entry) -> Option<u64> {
        self.seen += 1;
        if entry.meta.links < 2 || !matches!(entry.node, Node::File(_)) {
            return None;
        }
        match self.first.get(&entry.meta.inode) {
            Some(earlier) => Some(*earlier),
            None => {
                self.first.insert(entry.meta.inode, self.seen);
                None
            }
        }
    }
}

/// Hash and counts of the entries so far.
#[derive(Debug)]
pub(super) struct Record {
    seed: u64,
    hasher: Hasher,
    files: u64,
    directories: u64,
    bytes: u64,
}

impl Record {
    pub(super) fn new(seed: u64) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(FORMAT);
        Self { seed, hasher, files: 0, directories: 0, bytes: 0 }
    }

    /// Adds an entry. Numbers are little-endian, texts come after their length, so that no two
    /// trees have the same records.
    pub(super) fn add(&mut self, entry: &Entry, link: Option<u64>, content: Option<[u8; 16]>) {
        let Entry { path, meta, node } = entry;
        self.text(path);
        let is_root = path.is_empty();
        let kind = match node {
            Node::Directory(_) => b'd',
            Node::File(_) => b'f',
            Node::Link { .. } => b'l',
        };
        self.hasher.update(&[kind]);
        for number in [meta.mode, meta.uid, meta.gid] {
            self.hasher.update(&number.to_le_bytes());
        }
        if !is_root {
            self.hasher.update(&meta.mtime.0.to_le_bytes());
            self.hasher.update(&meta.mtime.1.to_le_bytes());
        }
        match node {
            Node::Directory(_) => self.directories += u64::from(!is_root),
            Node::Link { target, .. } => self.text(target.to_bytes()),
            Node::File(_) => {
                self.hasher.update(&meta.size.to_le_bytes());
                self.hasher.update(&link.unwrap_or(0).to_le_bytes());
                if let Some(content) = content {
                    self.hasher.update(&content);
                    self.files += 1;
                    self.bytes += meta.size;
                }
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.hasher.update(&(text.len() as u64).to_le_bytes());
        self.hasher.update(text);
    }

    pub(super) fn summary(self) -> Summary {
        Summary {
            files: self.files,
            directories: self.directories,
            bytes: Bytes(self.bytes),
            fingerprint: Fingerprint { seed: self.seed, hash: self.hasher.finish() },
        }
    }
}

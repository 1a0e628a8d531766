//! What is on a device, read from the device itself.
//!
//! Two readers must agree: `blkid -p`, which knows the formats, and our own code, which looks for non-zero bytes (at
//! the places in `places.rs`) and for XFS. Blank is never a default: a device is blank only if all of these places were
//! read and nothing was found. This module doesn't decide what follows from that.
//!
//! What an interrupted `mkfs.xfs` left is recognised by the UUID that it was given. It writes in this order (xfsprogs
//! 6.1 `mkfs/xfs_mkfs.c`, seen with strace): zeros over the last 128 KiB, then over the first; the superblock, marked
//! as in progress; zeros over the log, then its first record; the headers of all groups; the free lists; the root
//! inode; two of the other superblocks again; at last the superblock without the mark, then fsync. Every sector that it
//! writes and that isn't zero either has the UUID or continues a structure that has it. A device with a volatile write
//! cache may lose any of these writes at a power failure, so on such a device a finished superblock doesn't prove a
//! finished filesystem.

use super::{
    blkid::{BlkidResult, ask},
    medium::{BLOCK, Medium},
    node,
    places::places,
};
use crate::{Host, root::at as at_path, xfs::Superblock};
use std::{collections::BTreeSet, io, os::fd::OwnedFd};
use terms::{ErrorName, FsUuid, Named};

/// The content of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Nothing: no signature, and zeros at both ends and at all places where known formats keep something.
    Blank,
    /// A finished XFS and nothing else.
    Xfs(Superblock),
    /// The remains of an interrupted `mkfs.xfs`: everything on the device belongs to the expected UUID.
    XfsUnfinished {
        /// That UUID.
        uuid: FsUuid,
    },
    /// Anything else.
    Foreign {
        /// A noun phrase: what was found.
        found: String,
    },
}

/// The distance of XFS structures on a disk with the smallest sectors.
const SECTOR: usize = 512;

/// Reads what is on a device.
///
/// With `expected`, what an interrupted `mkfs.xfs` left of a filesystem of that UUID is recognised as such. Give only
/// the UUID of a filesystem that has never been in use: a used filesystem that has lost its first sector looks the
/// same. Returns an error if the device can't be read completely, or if `blkid` doesn't give a clear answer.
pub fn probe(host: &Host, name: &str, expected: Option<&FsUuid>) -> io::Result<Content> {
    let path = node(name)?;
    let full = host.root.locate(path.as_path());
    let medium = Medium::open(&full).map_err(|error| at_path(path.as_path(), &error))?;
    let said = ask(host, &full).map_err(io::Error::other)?;
    judge(&medium, said, expected).map_err(|error| at_path(path.as_path(), &error))
}

fn judge(medium: &Medium, said: BlkidResult, expected: Option<&FsUuid>) -> io::Result<Content> {
    let superblock = read_superblock(medium)?;
    match (&said, &superblock) {
        (BlkidResult::Other(found), _) => return Ok(Content::Foreign { found: found.clone() }),
        (BlkidResult::Xfs, Some(found)) if !found.in_progress => return Ok(Content::Xfs(found.clone())),
        (BlkidResult::Nothing, Some(found)) if !found.in_progress => {
            return Ok(Content::Foreign { found: format!("a damaged XFS, UUID {}", found.uuid) });
        }
        (BlkidResult::Xfs, None) => {
            return Err(io::Error::other("blkid reports an XFS, but the first sector has no XFS superblock"));
        }
        // The device may still hold parts of an unfinished filesystem, or nothing.
        (BlkidResult::Xfs | BlkidResult::Nothing, _) => {}
    }
    let seen = scan_places(medium, expected)?;
    Ok(match (seen.foreign_byte, expected) {
        (Some((offset, place)), _) => {
            let bytes = format!("bytes that no tool recognises at offset {offset} (checked place: {place})");
            let found = match superblock {
                Some(found) if Some(&found.uuid) == expected => format!("an unfinished XFS and {bytes}"),
                Some(found) => format!("an XFS that mkfs.xfs did not finish, UUID {}", found.uuid),
                None => bytes,
            };
            Content::Foreign { found }
        }
        (None, Some(uuid)) if !seen.ours.is_empty() => Content::XfsUnfinished { uuid: *uuid },
        (None, _) => Content::Blank,
    })
}

/// Why the rest of an unfinished filesystem was not cleared.
#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    /// The device also holds something else, or only something else. Nothing was written.
    #[error("clearing an unfinished filesystem on {name}: it holds {found}")]
    Foreign {
        /// The device.
        name: String,
        /// A noun phrase: what was found.
        found: String,
    },
    /// The device is in use, or could not be read or written.
    #[error("clearing an unfinished filesystem on {name}")]
    Io {
        /// The device.
        name: String,
        /// The reason.
        source: io::Error,
    },
}

impl Named for ClearError {
    fn name(&self) -> Option<ErrorName> {
        matches!(self, Self::Foreign { .. }).then_some(ErrorName::LunChanged)
    }
}

/// Clears what an interrupted `mkfs.xfs` left of a filesystem of this UUID. After that the device is blank, and
/// `mkfs.xfs` accepts it. First it opens the device exclusively and reads it again. Then it zeroes only blocks that
/// have the UUID. It never clears a finished filesystem. If it is interrupted, call it again.
pub fn clear_unfinished(host: &Host, name: &str, uuid: &FsUuid) -> Result<(), ClearError> {
    let io_error = |source| ClearError::Io { name: name.to_owned(), source };
    let foreign = |found| ClearError::Foreign { name: name.to_owned(), found };
    let path = node(name).map_err(io_error)?;
    let medium = Medium::open_exclusively(&host.root.locate(path.as_path())).map_err(io_error)?;
    match read_superblock(&medium).map_err(io_error)? {
        Some(superblock) if !superblock.in_progress => {
            return Err(foreign(format!("a finished XFS, UUID {}", superblock.uuid)));
        }
        _ => {}
    }
    let seen = scan_places(&medium, Some(uuid)).map_err(io_error)?;
    if let Some((offset, place)) = seen.foreign_byte {
        return Err(foreign(format!("bytes of something else at offset {offset} (checked place: {place})")));
    }
    // The superblock is cleared last: until then it shows clearly what the rest is.
    for at in seen.ours.iter().rev() {
        medium.clear(*at).map_err(io_error)?;
    }
    medium.flush().map_err(io_error)
}

/// The UUID of the XFS on a disk, also of one that is mounted; none if its first block is of no XFS.
pub fn xfs_on(host: &Host, name: &str) -> io::Result<Option<FsUuid>> {
    Ok(open_xfs(host, name)?.map(|(_, uuid)| uuid))
}

/// Opens a disk that holds an XFS, through no link, and reads the XFS's UUID; none if it holds none.
pub fn open_xfs(host: &Host, name: &str) -> io::Result<Option<(OwnedFd, FsUuid)>> {
    let path = node(name)?;
    let open = || -> io::Result<_> {
        let medium = Medium::open_node(&host.root.locate(path.as_path()))?;
        Ok(read_superblock(&medium)?.map(|superblock| (medium.into(), superblock.uuid)))
    };
    open().map_err(|error| at_path(path.as_path(), &error))
}

/// The UUID of the XFS on the device at this path, read from the device itself; none if it holds none.
pub fn filesystem_at(device: &std::path::Path) -> io::Result<Option<FsUuid>> {
    Ok(read_superblock(&Medium::open(device)?)?.map(|superblock| superblock.uuid))
}

pub(super) fn read_superblock(medium: &Medium) -> io::Result<Option<Superblock>> {
    let length = BLOCK.min(medium.size());
    Ok(Superblock::parse(&medium.read(0, length as usize)?))
}

/// The findings at the known places.
#[derive(Debug, Default)]
struct Scan {
    /// Offsets of the blocks in which everything that isn't zero belongs to the expected UUID.
    ours: BTreeSet<u64>,
    /// The first byte that is neither zero nor of the expected filesystem, and what could be there.
    foreign_byte: Option<(u64, &'static str)>,
}

fn scan_places(medium: &Medium, expected: Option<&FsUuid>) -> io::Result<Scan> {
    let mut seen = Scan::default();
    for (range, place) in places(medium.size()) {
        let start = range.start / BLOCK * BLOCK;
        let end = range.end.next_multiple_of(BLOCK).min(medium.size());
        let bytes = medium.read(start, (end - start) as usize)?;
        for (at, block) in (start..).step_by(BLOCK as usize).zip(bytes.chunks(BLOCK as usize)) {
            match classify(block, expected) {
                BlockState::Zero => {}
                BlockState::Ours => {
                    seen.ours.insert(at);
                }
                BlockState::Foreign(_) if continues_log_record(medium, at, block, expected)? => {
                    seen.ours.insert(at);
                }
                BlockState::Foreign(offset) => {
                    seen.foreign_byte = Some((at + offset as u64, place));
                    return Ok(seen);
                }
            }
        }
    }
    Ok(seen)
}

/// True if a block is an inner part of the log's first record. On striped devices that record has the length of a
/// stripe unit, up to 256 KiB. Its first sector has the UUID; the others have only the number of the log's first cycle,
/// 1 (xfsprogs `libxfs/rdwr.c`, `libxfs_log_header`).
fn continues_log_record(
    medium: &Medium,
    at: u64,
    block: &[u8],
    expected: Option<&FsUuid>,
) -> io::Result<bool> {
    const LONGEST: u64 = 256 << 10;
    const MAGIC: [u8; 4] = 0xfeed_babe_u32.to_be_bytes();
    let Some(uuid) = expected else { return Ok(false) };
    let inner = |sector: &[u8]| sector.starts_with(&[0, 0, 0, 1]) || sector.iter().all(|byte| *byte == 0);
    if !block.chunks(SECTOR).all(inner) {
        return Ok(false);
    }
    let from = at.saturating_sub(LONGEST);
    let before = medium.read(from, (at - from) as usize)?;
    let mut sectors = before.chunks(BLOCK as usize).filter_map(|block| block.get(..SECTOR));
    Ok(sectors.any(|sector| sector.starts_with(&MAGIC) && has_uuid(sector, uuid)))
}

enum BlockState {
    /// All zero.
    Zero,
    /// Not zero, and all of it belongs to the expected filesystem.
    Ours,
    /// Offset of the first byte that doesn't.
    Foreign(usize),
}

fn classify(block: &[u8], expected: Option<&FsUuid>) -> BlockState {
    const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
    if ZEROS.starts_with(block) {
        return BlockState::Zero; // the usual case, and this comparison is fast
    }
    let mut state = BlockState::Zero;
    let mut inside = false;
    for (number, sector) in block.chunks(SECTOR).enumerate() {
        let Some(offset) = sector.iter().position(|byte| *byte != 0) else {
            inside = false;
            continue;
        };
        // A structure that is larger than a sector has no sectors of zeros inside.
        inside |= expected.is_some_and(|uuid| has_uuid(sector, uuid));
        if !inside {
            return BlockState::Foreign(number * SECTOR + offset);
        }
        state = BlockState::Ours;
    }
    state
}

/// True if a sector has the UUID. All structures of XFS keep it at a multiple of 8 (kernel
/// `fs/xfs/libxfs/xfs_format.h`, `xfs_log_format.h`). The kind of structure doesn't matter, because a UUID is unique.
fn has_uuid(sector: &[u8], uuid: &FsUuid) -> bool {
    let words = sector.chunks(8);
    words.clone().zip(words.skip(1)).any(|pair| pair == uuid.0.split_at(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations() {
        let uuid: FsUuid = "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b".parse().unwrap();
        let mut block = vec![0; 4096];
        assert!(matches!(classify(&block, Some(&uuid)), BlockState::Zero));
        block[1024 + 32..1024 + 48].copy_from_slice(&uuid.0);
        block[1536] = 1; // continues in the next sector
        assert!(matches!(classify(&block, Some(&uuid)), BlockState::Ours));
        assert!(matches!(classify(&block, None), BlockState::Foreign(1056)));
        assert!(matches!(classify(&block, Some(&FsUuid([7; 16]))), BlockState::Foreign(1056)));
        block[3000] = 1; // after a gap
        assert!(matches!(classify(&block, Some(&uuid)), BlockState::Foreign(3000)));
        block[3000] = 0;
        block[1000] = 1; // before the structure
        assert!(matches!(classify(&block, Some(&uuid)), BlockState::Foreign(1000)));
        // At an odd offset it is not a structure of XFS.
        let mut block = vec![0; 512];
        block[33..49].copy_from_slice(&uuid.0);
        assert!(matches!(classify(&block, Some(&uuid)), BlockState::Foreign(33)));
    }
}

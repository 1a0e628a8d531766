//! What is on a device, read from the device itself.
//!
//! Two readers must agree: `blkid -p`, which knows the formats, and our own eyes, which know zeros
//! (the table in `places.rs`) and XFS. Blank is never a default: it takes a complete look that
//! found nothing. What follows from it is not decided here.
//!
//! What `mkfs.xfs` leaves when it is stopped is told by the UUID it was given. It writes in this order
//! (xfsprogs 6.1 `mkfs/xfs_mkfs.c`, seen with strace): zeros over the last 128 KiB, then over the first;
//! the superblock, marked as in progress; zeros over the log, then its first record; the headers of all
//! groups; the free lists; the root inode; two of the other superblocks again; at last the superblock
//! without the mark, then fsync. Every sector that it writes and that isn't zero either carries the UUID
//! or continues a structure that does. A device with a volatile write cache may lose any of these
//! writes when its power fails, so a finished superblock proves no finished filesystem there.

use super::{
    blkid::{Said, ask},
    medium::{BLOCK, Medium},
    node,
    places::places,
};
use crate::{
    host::{Host, root::at as at_path, xfs::Superblock},
    terms::FsUuid,
};
use std::{collections::BTreeSet, io};

/// What a device holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Nothing: no signature, and zeros at the ends and wherever known formats keep something.
    Blank,
    /// A finished XFS and nothing else.
    Xfs(Superblock),
    /// What `mkfs.xfs` left when it was stopped: all that is there carries the expected UUID.
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

/// Bytes in which a structure of XFS begins on a disk with the smallest sectors.
const SECTOR: usize = 512;

/// Reads what is on a device.
///
/// With `expected`, what `mkfs.xfs` left when it was stopped while making a filesystem of that UUID is
/// known as such. Give only a UUID whose filesystem was never put to use: of one that was, a device
/// whose first sector was lost looks the same. An error when the device can't be read in full, and when
/// `blkid` doesn't say clearly what it found.
pub fn probe(host: &Host, name: &str, expected: Option<&FsUuid>) -> io::Result<Content> {
    let path = node(name)?;
    let full = host.root.locate(path.as_path());
    let medium = Medium::open(&full).map_err(|error| at_path(path.as_path(), &error))?;
    let said = ask(host, &full).map_err(io::Error::other)?;
    judge(&medium, said, expected).map_err(|error| at_path(path.as_path(), &error))
}

fn judge(medium: &Medium, said: Said, expected: Option<&FsUuid>) -> io::Result<Content> {
    let superblock = read_superblock(medium)?;
    match (&said, &superblock) {
        (Said::Something(found), _) => return Ok(Content::Foreign { found: found.clone() }),
        (Said::Xfs, Some(found)) if !found.in_progress => return Ok(Content::Xfs(found.clone())),
        (Said::Nothing, Some(found)) if !found.in_progress => {
            return Ok(Content::Foreign { found: format!("a damaged XFS, UUID {}", found.uuid) });
        }
        (Said::Xfs, None) => {
            return Err(io::Error::other("blkid sees an XFS and the first sector shows none"));
        }
        // What is there may still be mkfs's unfinished work, or nothing.
        (Said::Xfs | Said::Nothing, _) => {}
    }
    let seen = look(medium, expected)?;
    Ok(match (seen.strange, expected) {
        (Some((offset, place)), _) => {
            let bytes = format!("bytes that no tool recognises at offset {offset} (looked at for: {place})");
            let found = match superblock {
                Some(found) if Some(&found.uuid) == expected => format!("an unfinished XFS and {bytes}"),
                Some(found) => format!("an XFS that mkfs.xfs did not finish, UUID {}", found.uuid),
                None => bytes,
            };
            Content::Foreign { found }
        }
        (None, Some(uuid)) if !seen.carriers.is_empty() => Content::XfsUnfinished { uuid: *uuid },
        (None, _) => Content::Blank,
    })
}

/// Why what `mkfs.xfs` left was not cleared.
#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    /// There is more, or something else, on the device. Nothing was written.
    #[error("clearing what mkfs.xfs left on {name}: it holds {found}")]
    Foreign {
        /// The device.
        name: String,
        /// A noun phrase: what was found.
        found: String,
    },
    /// The device is held by somebody, or could not be read or written.
    #[error("clearing what mkfs.xfs left on {name}")]
    Io {
        /// The device.
        name: String,
        /// The reason.
        source: io::Error,
    },
}

/// Clears what `mkfs.xfs` left when it was stopped while making a filesystem of this UUID: after it,
/// the device is blank and `mkfs.xfs` takes it. Looks again first, at the open device and with
/// nobody else holding it, and zeroes only blocks that carry the UUID. Stopped itself, it can be
/// called again. A finished filesystem is never cleared.
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
    let seen = look(&medium, Some(uuid)).map_err(io_error)?;
    if let Some((offset, place)) = seen.strange {
        return Err(foreign(format!("bytes of others at offset {offset} (looked at for: {place})")));
    }
    // The superblock last: as long as anything is left, so is the plainest sign of what it is.
    for at in seen.carriers.iter().rev() {
        medium.clear(*at).map_err(io_error)?;
    }
    medium.flush().map_err(io_error)
}

fn read_superblock(medium: &Medium) -> io::Result<Option<Superblock>> {
    let length = BLOCK.min(medium.size());
    Ok(Superblock::parse(&medium.read(0, length as usize)?))
}

/// What was seen at the known places.
#[derive(Debug, Default)]
struct Seen {
    /// Offsets of the blocks in which all that isn't zero belongs to the expected UUID.
    carriers: BTreeSet<u64>,
    /// The first byte that is neither zero nor explained, and what could be there.
    strange: Option<(u64, &'static str)>,
}

fn look(medium: &Medium, expected: Option<&FsUuid>) -> io::Result<Seen> {
    let mut seen = Seen::default();
    for (range, place) in places(medium.size()) {
        let start = range.start / BLOCK * BLOCK;
        let end = range.end.next_multiple_of(BLOCK).min(medium.size());
        let bytes = medium.read(start, (end - start) as usize)?;
        for (at, block) in (start..).step_by(BLOCK as usize).zip(bytes.chunks(BLOCK as usize)) {
            match explain(block, expected) {
                Explained::Zero => {}
                Explained::Carrier => {
                    seen.carriers.insert(at);
                }
                Explained::Strange(_) if continues_log_record(medium, at, block, expected)? => {
                    seen.carriers.insert(at);
                }
                Explained::Strange(offset) => {
                    seen.strange = Some((at + offset as u64, place));
                    return Ok(seen);
                }
            }
        }
    }
    Ok(seen)
}

/// Whether a block is an inner part of the log's first record. On striped devices that record has the
/// length of a stripe unit, up to 256 KiB; its first sector carries the UUID, the others only the number
/// of the log's first cycle, 1 (xfsprogs `libxfs/rdwr.c`, `libxfs_log_header`).
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
    Ok(sectors.any(|sector| sector.starts_with(&MAGIC) && carries(sector, uuid)))
}

enum Explained {
    /// All zero.
    Zero,
    /// Not zero, and all of it is the expected filesystem's.
    Carrier,
    /// Offset of the first byte that isn't.
    Strange(usize),
}

fn explain(block: &[u8], expected: Option<&FsUuid>) -> Explained {
    const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
    if ZEROS.starts_with(block) {
        return Explained::Zero; // nearly always, and this comparison is a fast one
    }
    let mut explained = Explained::Zero;
    let mut inside = false;
    for (number, sector) in block.chunks(SECTOR).enumerate() {
        let Some(offset) = sector.iter().position(|byte| *byte != 0) else {
            inside = false;
            continue;
        };
        // What is larger than a sector goes on without a gap of zeros.
        inside |= expected.is_some_and(|uuid| carries(sector, uuid));
        if !inside {
            return Explained::Strange(number * SECTOR + offset);
        }
        explained = Explained::Carrier;
    }
    explained
}

/// Whether a sector belongs to the filesystem of this UUID. All structures of XFS keep it at a multiple of
/// 8 (kernel `fs/xfs/libxfs/xfs_format.h`, `xfs_log_format.h`); in which one it is doesn't matter: these 16
/// bytes are nowhere else in the world.
fn carries(sector: &[u8], uuid: &FsUuid) -> bool {
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
        assert!(matches!(explain(&block, Some(&uuid)), Explained::Zero));
        block[1024 + 32..1024 + 48].copy_from_slice(&uuid.0);
        block[1536] = 1; // goes on in the next sector
        assert!(matches!(explain(&block, Some(&uuid)), Explained::Carrier));
        assert!(matches!(explain(&block, None), Explained::Strange(1056)));
        assert!(matches!(explain(&block, Some(&FsUuid([7; 16]))), Explained::Strange(1056)));
        block[3000] = 1; // after a gap
        assert!(matches!(explain(&block, Some(&uuid)), Explained::Strange(3000)));
        block[3000] = 0;
        block[1000] = 1; // before it
        assert!(matches!(explain(&block, Some(&uuid)), Explained::Strange(1000)));
        // At an odd offset it is no structure of XFS.
        let mut block = vec![0; 512];
        block[33..49].copy_from_slice(&uuid.0);
        assert!(matches!(explain(&block, Some(&uuid)), Explained::Strange(33)));
    }
}

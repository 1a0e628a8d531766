//! An attribute of an XFS's root directory, read from the device itself.
//!
//! The kernel answers from memory: what it wrote into the log, and the log into its place, a device may have lost. `xfs_db`
//! reads through the page cache of the device, which the mounted filesystem bypasses, so it may see what was there before.
//!
//! Offsets and types: kernel `fs/xfs/libxfs/xfs_format.h` and `xfs_da_format.h`; all big-endian. The filesystem must be one
//! that has written everything in place (`Staging::settle`).

use super::{
    content::read_superblock,
    medium::{BLOCK, Medium},
    node,
};
use crate::{
    Host,
    root::at,
    xfs::{Superblock, u16_at, u64_at},
};
use std::{io, path::Path};

/// Bytes of an inode of version 3 before its two forks (`struct xfs_dinode`).
const CORE: usize = 176;
/// Bytes of a leaf of attributes before its entries (`struct xfs_attr3_leaf_hdr`).
const LEAF_HEADER: usize = 80;
/// Of a `trusted.` attribute (`XFS_ATTR_ROOT`).
const ROOT: u8 = 1 << 1;
/// Of an attribute with its value in the leaf (`XFS_ATTR_LOCAL`).
const LOCAL: u8 = 1;
/// How often an attribute is read again that is being written.
const READS: usize = 3;
/// Of an attribute that is not finished (`XFS_ATTR_INCOMPLETE`).
const INCOMPLETE: u8 = 1 << 7;

/// The value of the root directory's attribute `trusted.NAME` on this device; none if the directory has none there.
///
/// Fails if the device cannot be read, or has no XFS as this program makes it, or if the attribute lies in another form than
/// those of a few small attributes.
pub fn trusted_attribute_of_root(device: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let medium = Medium::open(device)?;
    let superblock = read_superblock(&medium)?.ok_or_else(|| odd("no superblock"))?;
    let root = root(&superblock).ok_or_else(|| odd("a superblock without a root inode"))?;
    let inode = read(&medium, root, superblock.inode_size.into())?;
    attribute(&inode, &superblock, name.as_bytes(), |at, length| read(&medium, at, length))
}

/// A superblock, and an attribute of the root directory as far as it can be read.
pub type InPlace = (Superblock, io::Result<Option<Vec<u8>>>);

/// The superblock of the XFS on a disk in use, and its root directory's attribute `trusted.NAME`; none if no XFS lies there.
///
/// The attribute is read until two reads agree, because the kernel, or another computer, may be writing it. The disk must answer, or
/// this waits with it.
pub fn in_place(host: &Host, disk: &str, name: &str) -> io::Result<Option<InPlace>> {
    let device = host.root.locate(node(disk)?.as_path());
    let opened = Medium::open(&device).map_err(|error| at(&device, &error))?;
    let Some(superblock) = read_superblock(&opened)? else { return Ok(None) };
    let read = || trusted_attribute_of_root(&device, name);
    let mut last = read();
    for _ in 0..READS {
        let before = std::mem::replace(&mut last, read());
        if before.ok().is_some_and(|before| last.as_ref().is_ok_and(|now| *now == before)) {
            return Ok(Some((superblock, last)));
        }
    }
    Ok(Some((superblock, last.and_then(|_| Err(odd("another stamp at each read"))))))
}

fn odd(found: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the device holds {found}"))
}

/// Reads a range that need not begin where the medium can begin to read.
fn read(medium: &Medium, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let begin = at / BLOCK * BLOCK;
    let skip = (at - begin) as usize;
    let whole = (skip + length).next_multiple_of(BLOCK as usize);
    Ok(medium.read(begin, whole)?.get(skip..skip + length).unwrap_or_default().to_vec())
}

/// The byte at which the root inode begins.
fn root(superblock: &Superblock) -> Option<u64> {
    let Superblock { root_inode, inode_size, inodes_log, group_log, .. } = *superblock;
    if inodes_log > 16 || group_log > 32 || inode_size.count_ones() != 1 {
        return None;
    }
    let within = (root_inode & ((1 << inodes_log) - 1)) * u64::from(inode_size);
    in_bytes(root_inode >> inodes_log, superblock)?.checked_add(within)
}

/// The byte at which a block of this number begins: the number has the group in its upper bits (`XFS_FSB_TO_DADDR`).
fn in_bytes(block: u64, superblock: &Superblock) -> Option<u64> {
    let group = block >> superblock.group_log;
    let within = block & ((1_u64 << superblock.group_log) - 1);
    let block = group.checked_mul(superblock.group_blocks.into())?.checked_add(within)?;
    (block < superblock.data_blocks).then_some(block.checked_mul(superblock.block_size.into())?)
}

/// The attribute of an inode.
fn attribute(
    inode: &[u8],
    superblock: &Superblock,
    name: &[u8],
    read: impl Fn(u64, usize) -> io::Result<Vec<u8>>,
) -> io::Result<Option<Vec<u8>>> {
    if inode.get(..2) != Some(b"IN") || inode.get(4) != Some(&3) {
        return Err(odd("no root inode of version 3"));
    }
    let offset = usize::from(inode.get(82).copied().unwrap_or_default()) * 8;
    let fork = match offset {
        0 => return Ok(None),
        _ => inode
            .get(CORE + offset..)
            .ok_or_else(|| odd("a root inode whose attributes begin behind its end"))?,
    };
    match inode.get(83) {
        Some(1) => of_short_form(fork, name).ok_or_else(|| odd("attributes that end in the middle")),
        // All were removed.
        Some(2) if u16_at(inode, 80) == Some(0) => Ok(None),
        Some(2) => {
            let extent = fork.get(..16).filter(|_| u16_at(inode, 80) == Some(1));
            let extent = extent.ok_or_else(|| odd("a root inode with attributes in more than one extent"))?;
            let block = first_block(extent).and_then(|block| in_bytes(block, superblock));
            let at = block.ok_or_else(|| odd("attributes outside of the filesystem"))?;
            of_leaf(&read(at, superblock.block_size as usize)?, name)
        }
        _ => Err(odd("a root inode with attributes in a tree")),
    }
}

/// `struct xfs_attr_sf_hdr` and its entries: lengths of name and value, flags, name, value.
fn of_short_form(fork: &[u8], wanted: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut rest = fork.get(4..)?;
    for _ in 0..*fork.get(2)? {
        let [name_length, value_length, flags, ..] = *rest else { return None };
        let (name, behind) = rest.get(3..)?.split_at_checked(name_length.into())?;
        let (value, behind) = behind.split_at_checked(value_length.into())?;
        if name == wanted && flags & (ROOT | INCOMPLETE) == ROOT {
            return Some(Some(value.to_vec()));
        }
        rest = behind;
    }
    Some(None)
}

/// The number of the block with which an extent begins: the 52 bits before the last 21
/// (`xfs_bmbt_disk_get_startblock`). The extent must be the first one, which begins with block 0 of the fork.
fn first_block(extent: &[u8]) -> Option<u64> {
    let (high, low) = (u64_at(extent, 0)?, u64_at(extent, 8)?);
    let begins_with = (high & !(1 << 63)) >> 9;
    (begins_with == 0).then_some((high & 0x1ff) << 43 | low >> 21)
}

/// `struct xfs_attr3_leafblock`: the entries say where name and value are.
fn of_leaf(block: &[u8], wanted: &[u8]) -> io::Result<Option<Vec<u8>>> {
    if u16_at(block, 8) != Some(0x3bee) {
        return Err(odd("something else than a leaf of attributes"));
    }
    let count = usize::from(u16_at(block, 56).unwrap_or_default());
    for entry in block.get(LEAF_HEADER..).unwrap_or_default().chunks_exact(8).take(count) {
        let flags = entry.get(6).copied().unwrap_or_default();
        if flags & (LOCAL | ROOT | INCOMPLETE) != LOCAL | ROOT {
            continue;
        }
        let found = || {
            let at = usize::from(u16_at(entry, 4)?);
            let (value_length, name_length) = (u16_at(block, at)?, *block.get(at + 2)?);
            block
                .get(at + 3..)?
                .split_at_checked(name_length.into())
                .and_then(|(name, behind)| Some((name, behind.get(..value_length.into())?)))
        };
        let (name, value) = found().ok_or_else(|| odd("an attribute outside of its leaf"))?;
        if name == wanted {
            return Ok(Some(value.to_vec()));
        }
    }
    Ok(None)
}

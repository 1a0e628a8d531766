//! The places at which known formats keep their signatures.
//!
//! `blkid` recognises a format by one signature. A device that has lost it, or that has a format unknown to this
//! version of blkid, looks blank to blkid. So all of these places must be zero too. What this doesn't find is data in a
//! format that is not listed here, on a device with zeros in its first and last MiB. A format that keeps a signature
//! elsewhere belongs in this table.

use std::ops::Range;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A range of a device.
#[derive(Debug)]
struct Place {
    at: At,
    length: u64,
    what: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum At {
    /// Bytes from the beginning.
    Start(u64),
    /// Bytes before the end.
    End(u64),
    /// The beginning of an allocation group of XFS: the group's number, and the number of groups. mkfs divides the
    /// number of whole 4 KiB blocks, rounding up.
    Group(u64, u64),
}

use At::{End, Group, Start};

const fn place(at: At, length: u64, what: &'static str) -> Place {
    Place { at, length, what }
}

/// Sources: the prober of that name in util-linux, `libblkid/src/superblocks/` and `partitions/`, unless another source
/// is named.
#[rustfmt::skip]
const KNOWN_PLACES: &[Place] = &[
    // MBR, GPT, LVM2 label and metadata, LUKS1 and LUKS2, md 1.1 and 1.2, ZFS labels 0 and 1, ext, XFS,
    // btrfs (64 KiB), swap with any page size, JFS (both copies), reiserfs, F2FS, NTFS, FAT, exFAT,
    // UDF and ISO 9660 (32 KiB, 128 KiB to 512 KiB), GFS2, OCFS2, bcache, Stratis, VDO, UFS, HFS,
    // minix, DRBD, Ceph, ASM, and the BSD, Sun, SGI, Mac, Atari, AIX, DASD and Amiga partition tables.
    place(Start(0), MIB, "the first MiB"),
    // GPT's backup, md 0.90 and 1.0, ZFS labels 2 and 3, firmware RAID (DDF, IMSM, LSI, Adaptec), DRBD,
    // NILFS2's second superblock, NTFS's backup boot sector, HFS+'s second header, bcachefs's last
    // superblock, Windows' dynamic disks, CoreStorage.
    place(End(MIB), MIB, "the last MiB"),

    place(Start(MIB), 4 * KIB, "VMFS volume, LUKS2 second header, UDF anchor"),
    // LUKS2: cryptsetup lib/luks2/luks2_disk_metadata.c, `hdr2_offsets`: 16 KiB to 4 MiB, doubling.
    // bcachefs: second superblock. F2FS: the first checkpoint, segment 0 (kernel include/linux/f2fs_fs.h).
    // UDF: anchor at block 512 of 4 KiB.
    place(Start(2 * MIB), 4 * KIB, "VMFS, LUKS2 second header, bcachefs, F2FS"),
    place(Start(4 * MIB), 4 * KIB, "LUKS2 second header"),
    // ReFS: superblock copy at cluster 30, of 64 KiB (libfsrefs, "Resilient File System format").
    place(Start(30 * 64 * KIB), 4 * KIB, "ReFS superblock copy"),
    // Oracle ASM: copy of the header in the second last 4 KiB block of allocation unit 1, for units of 1
    // and 4 MiB (My Oracle Support 417687.1).
    place(Start(2 * MIB - 8 * KIB), 4 * KIB, "Oracle ASM header copy"),
    place(Start(8 * MIB - 8 * KIB), 4 * KIB, "Oracle ASM header copy"),
    // ext2 to ext4: first block of groups 1 and 3, which keep a superblock even with sparse_super (kernel
    // Documentation/filesystems/ext4/blockgroup.rst): groups of 8 × block size blocks, beginning at
    // block 1 when blocks have 1 KiB.
    place(Start(8 * MIB + KIB), 4 * KIB, "ext backup superblock, 1 KiB blocks"),
    place(Start(24 * MIB + KIB), 4 * KIB, "ext backup superblock, 1 KiB blocks"),
    place(Start(32 * MIB), 4 * KIB, "ext backup superblock, 2 KiB blocks"),
    place(Start(96 * MIB), 4 * KIB, "ext backup superblock, 2 KiB blocks"),
    place(Start(128 * MIB), 4 * KIB, "ext backup superblock, 4 KiB blocks"),
    place(Start(384 * MIB), 4 * KIB, "ext backup superblock, 4 KiB blocks"),
    place(Start(32 * GIB), 4 * KIB, "ext backup superblock, 64 KiB blocks"),
    // btrfs: kernel fs/btrfs/disk-io.h, `btrfs_sb_offset`.
    place(Start(64 * MIB), 4 * KIB, "btrfs superblock mirror"),
    place(Start(256 * GIB), 4 * KIB, "btrfs superblock mirror, OCFS2 backup superblock"),
    // OCFS2: kernel fs/ocfs2/ocfs2_fs.h, `ocfs2_backup_super_blkno`: 1 GiB, then four times that, up to 1 TiB.
    // Ceph BlueStore: src/os/bluestore/BlueStore.cc, `bdev_label_positions`: 1, 10, 100, 1000 GiB.
    place(Start(GIB), 4 * KIB, "OCFS2 backup superblock, Ceph label"),
    place(Start(4 * GIB), 4 * KIB, "OCFS2 backup superblock"),
    place(Start(10 * GIB), 4 * KIB, "Ceph label"),
    place(Start(16 * GIB), 4 * KIB, "OCFS2 backup superblock"),
    place(Start(64 * GIB), 4 * KIB, "OCFS2 backup superblock"),
    place(Start(100 * GIB), 4 * KIB, "Ceph label"),
    place(Start(1000 * GIB), 4 * KIB, "Ceph label"),
    place(Start(TIB), 4 * KIB, "OCFS2 backup superblock, XFS group"),
    // NTFS made by Windows: the file table begins at cluster 0xC0000 of 4 KiB. Made by mkntfs (ntfs-3g
    // ntfsprogs/mkntfs.c): the table's mirror is in the middle of the device, see below.
    place(Start(3 * GIB), 4 * KIB, "NTFS file table"),
    // XFS: a superblock begins each group, 4 by default, 8 to 32 on striped devices (xfsprogs
    // libxfs/topology.c, `calc_default_ag_geometry`); a stripe may shift them a little. Above 4 TiB
    // groups have 1 TiB (above).
    place(Group(1, 32), 4 * KIB, "XFS superblock of a group"),
    place(Group(1, 16), 4 * KIB, "XFS superblock of a group"),
    place(Group(1, 8), 4 * KIB, "XFS superblock of a group"),
    place(Group(1, 4), 4 * KIB, "XFS superblock of a group"),
    place(Group(2, 4), 4 * KIB, "XFS superblock of a group, NTFS file table mirror"),
    place(Group(3, 4), 4 * KIB, "XFS superblock of a group"),
    // UDF: anchor 256 blocks before the last, of 4 KiB.
    place(End(257 * 4 * KIB), 4 * KIB, "UDF anchor"),
    // Promise FastTrak: one of thirteen sectors near the end; this is the one farthest from it.
    place(End(3087 * 512), 512, "Promise RAID"),
    // LVM2: `pvcreate --metadatacopies 2` puts a second metadata area at the end, of about 1 MiB, aligned.
    place(End(2 * MIB), MIB, "LVM2 second metadata area"),
];

/// All places on a device of this size, cut off at its end, and what could be there.
pub(super) fn places(size: u64) -> impl Iterator<Item = (Range<u64>, &'static str)> {
    KNOWN_PLACES.iter().filter_map(move |place| {
        let start = match place.at {
            Start(offset) => offset,
            End(before) => size.saturating_sub(before),
            Group(number, groups) => number * (size / (4 * KIB)).div_ceil(groups) * 4 * KIB,
        };
        let end = start.saturating_add(place.length).min(size);
        (start < end).then_some((start..end, place.what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_the_device() {
        for size in [512, 4096, 1_000_000, MIB, MIB + 512, 3 * MIB, 300 * MIB, 8 * GIB, 300 * GIB, 20 * TIB] {
            let all: Vec<_> = places(size).collect();
            assert!(all.iter().all(|(range, _)| range.start < range.end && range.end <= size), "{size}");
            assert!(all.iter().any(|(range, _)| range.start == 0), "{size}");
            assert!(all.iter().any(|(range, _)| range.end == size), "{size}");
        }
    }

    #[test]
    fn groups_as_mkfs_divides() {
        // Seen: mkfs.xfs 6.1.0 on 8 GiB and on 1 GiB + 4 KiB: agsize 524288 and 65537 blocks.
        let starts = |size| places(size).map(|(range, _)| range.start).collect::<Vec<_>>();
        assert!(starts(8 * GIB).contains(&(3 * 524_288 * 4096)));
        assert!(starts(GIB + 4096).contains(&(65_537 * 4096)));
    }
}

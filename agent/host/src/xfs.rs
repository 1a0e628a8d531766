//! XFS: its superblock, and making a filesystem.

use super::{ExecError, Host, Invocation, Tool, exec};
use rustix::{
    fs::{AtFlags, CWD, StatxFlags},
    io::Errno,
};
use std::{path::Path, time::Duration};
use terms::{AbsPath, Bytes, ErrorName, FsLabel, FsUuid, Named};

/// Report what the kernel knows, and ask no server (statx(2), `AT_STATX_DONT_SYNC`). rustix has this flag only where it makes the
/// call itself; on POWER and s390x it calls musl.
pub(super) const DONT_SYNC: AtFlags =
    AtFlags::from_bits_retain(nix::libc::AT_STATX_DONT_SYNC.cast_unsigned());

/// True if the filesystem that holds a file or directory has shut down. XFS shuts down when it can't write its log.
/// From then on it returns an error for every query about a file except its path (kernel `fs/xfs/xfs_iops.c`,
/// `xfs_vn_getattr`), while statfs(2) still works. It does not recover until it is mounted again.
pub fn is_shut_down(path: &Path) -> bool {
    rustix::fs::statx(CWD, path, DONT_SYNC, StatxFlags::TYPE).err() == Some(Errno::IO)
}

/// The fields of the superblock that are used here. Offsets and types: kernel `fs/xfs/libxfs/xfs_format.h`, `struct
/// xfs_dsb`; all big-endian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks of the data section: the filesystem's size.
    pub data_blocks: u64,
    /// The filesystem's UUID.
    pub uuid: FsUuid,
    /// Blocks in an allocation group; the last one may be smaller.
    pub group_blocks: u32,
    /// Allocation groups.
    pub groups: u32,
    /// Format version, 4 or 5 today.
    pub version: u16,
    /// Bytes in a sector.
    pub sector_size: u16,
    /// Label; empty when there is none.
    pub label: String,
    /// Set by `mkfs.xfs` in the first superblock until everything else is written.
    pub in_progress: bool,
    /// The number of the root directory's inode.
    pub root_inode: u64,
    /// Bytes in an inode.
    pub inode_size: u16,
    /// Bits of an inode's number within its block.
    pub inodes_log: u8,
    /// Bits of a block's number within its group.
    pub group_log: u8,
}

impl Superblock {
    /// The superblock in the first sector of a device; none if there is none, or if it has the magic number but
    /// impossible values.
    pub fn parse(sector: &[u8]) -> Option<Self> {
        if sector.get(..4)? != b"XFSB" {
            return None;
        }
        let label = sector.get(108..120)?;
        let label = label.split(|byte| *byte == 0).next().unwrap_or_default();
        let found = Self {
            block_size: u32_at(sector, 4)?,
            data_blocks: u64_at(sector, 8)?,
            uuid: FsUuid(sector.get(32..48)?.try_into().ok()?),
            group_blocks: u32_at(sector, 84)?,
            groups: u32_at(sector, 88)?,
            version: u16_at(sector, 100)? & 0xf,
            sector_size: u16_at(sector, 102)?,
            label: String::from_utf8_lossy(label).into_owned(),
            in_progress: *sector.get(126)? != 0,
            root_inode: u64_at(sector, 56)?,
            inode_size: u16_at(sector, 104)?,
            inodes_log: *sector.get(123)?,
            group_log: *sector.get(124)?,
        };
        // Limits of the format: xfs_format.h, XFS_MIN_/MAX_BLOCKSIZE, XFS_MIN_/MAX_SECTORSIZE.
        let sane = (512..=65536).contains(&found.block_size)
            && found.block_size.is_power_of_two()
            && (512..=32768).contains(&found.sector_size)
            && found.sector_size.is_power_of_two()
            && found.groups > 0
            && found.group_blocks > 0
            && found.data_blocks.checked_mul(found.block_size.into()).is_some_and(|size| size > 0)
            && found.data_blocks <= u64::from(found.groups) * u64::from(found.group_blocks);
        sane.then_some(found)
    }

    /// The filesystem's size.
    pub fn size(&self) -> Bytes {
        Bytes(self.data_blocks.saturating_mul(self.block_size.into()))
    }
}

/// The number of two bytes at an offset, as XFS writes it; none behind the end.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The number of eight bytes.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Why making a filesystem failed.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// mkfs.xfs found something on the device and left it alone.
    #[error("making XFS on {device}: it {found}")]
    Occupied {
        /// The device.
        device: String,
        /// The finding, as mkfs.xfs says it: `appears to contain …`.
        found: String,
    },
    /// mkfs.xfs did not run, or failed for another reason.
    #[error("making XFS on {device}")]
    Exec {
        /// The device.
        device: String,
        /// The reason.
        source: ExecError,
    },
}

impl Named for MakeError {
    fn name(&self) -> Option<ErrorName> {
        Some(ErrorName::MkfsFailed)
    }
}

/// Lines of mkfs.xfs that are left out of errors: an advice that nobody should follow, and a message for its
/// developers.
const OMITTED_LINES: [&str; 2] = ["Use the -f option", "dirty buffer"];

/// Makes an XFS with this UUID and label on a device that `mkfs.xfs` finds empty.
///
/// The features of the format are those that the oldest supported kernel can mount ([`pinned`]), so that the node can go back
/// to an older release. `-K` (no discard) has two reasons. A discard would erase every block of the device, also those that we
/// have not looked at. And on arrays with slow UNMAP it takes longer than any limit. `fstrim` frees thinly provisioned
/// space later. `-d noalign` leaves a stripe out that the array announces: XFS would pad each write to its log to the stripe, and
/// an fdatasync of 2 KiB would write 12 to 132 KiB (stripes of 16 to 256 KiB; 4 KiB without, xfsprogs 6.1).
pub fn make_filesystem(
    host: &Host,
    device: &AbsPath,
    uuid: &FsUuid,
    label: &FsLabel,
    limit: Duration,
) -> Result<(), MakeError> {
    let uuid = format!("uuid={uuid}");
    let fail = |source| MakeError::Exec { device: device.to_string(), source };
    let asked = Invocation::new(Tool::MkfsXfs, ["-V"]);
    let version = host.run(&asked).map_err(fail)?.success(&asked).map_err(fail)?.stdout;
    let mut args = vec!["-K", "-q", "-d", "noalign", "-m", &uuid];
    args.extend(pinned(parse_version(&version)));
    args.extend(["-L", label.as_str(), device.as_str()]);
    let what = Invocation::new(Tool::MkfsXfs, args).limit(limit);
    let device = device.to_string();
    let fail = |source| MakeError::Exec { device: device.clone(), source };
    let mut output = host.run(&what).map_err(fail)?;
    let is_said = |line: &&str| !OMITTED_LINES.iter().any(|omitted| line.contains(omitted));
    output.stderr = output.stderr.lines().filter(is_said).collect::<Vec<_>>().join("\n");
    if output.code == 0 {
        return Ok(());
    }
    match parse_occupied(&output.stderr) {
        Some(found) if output.code == 1 => Err(MakeError::Occupied { device, found }),
        _ => Err(fail(output.failure(&what))),
    }
}

/// Grows the XFS that is mounted there to the size of its device, while it is in use. The log keeps its size.
pub fn grow(host: &Host, mount_point: &AbsPath, limit: Duration) -> Result<String, ExecError> {
    let what = Invocation::new(Tool::XfsGrowfs, ["-d", mount_point.as_str()]).limit(limit);
    Ok(exec::one_line(&host.run(&what)?.success(&what)?.stdout))
}

/// A version of xfsprogs: its first two numbers.
type Version = (u32, u32);

/// `mkfs.xfs version 6.1.0`
fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.split_whitespace().last()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Features of the format, by the first version of `mkfs.xfs` that knows the option. Older ones refuse it, and do not make
/// the feature. From xfsprogs' own list of what Linux 4.19 can mount (`mkfs/lts_4.19.conf`), less `reflink` and `sparse`,
/// which RHEL 8's own `mkfs.xfs` makes.
///
/// * `bigtime`, `inobtcount`: Linux 5.10. "Filesystems created with default mkfs.xfs parameters will not be mountable on RHEL 8
///   systems" (RHEL 9, Considerations in adopting RHEL 9, 12.1). Without `bigtime` times end in January 2038;
///   `xfs_admin -O bigtime=1` adds it.
/// * `rmapbt`: made by default from xfsprogs 6.5 on; RHEL 8 calls it a technology preview.
/// * `nrext64`: Linux 5.19. `exchange`, `parent`: Linux 6.10.
const PINNED: [(Version, [&str; 2]); 5] = [
    ((4, 9), ["-m", "rmapbt=0"]),
    ((5, 10), ["-m", "bigtime=0,inobtcount=0"]),
    ((5, 19), ["-i", "nrext64=0"]),
    ((6, 10), ["-i", "exchange=0"]),
    ((6, 10), ["-n", "parent=0"]),
];

/// The options that this version knows; of an unknown version none, so that its own defaults hold.
fn pinned(version: Option<Version>) -> Vec<&'static str> {
    PINNED.iter().filter(|(since, _)| version >= Some(*since)).flat_map(|(_, option)| *option).collect()
}

/// Returns the finding of `mkfs.xfs` (xfsprogs `libxfs/topology.c`, `check_overwrite`):
/// `mkfs.xfs: /dev/sdb appears to contain an existing filesystem (ext4).`
fn parse_occupied(stderr: &str) -> Option<String> {
    let at = stderr.find("appears to contain ")?;
    let line = exec::one_line(stderr.get(at..)?.lines().next()?);
    Some(line.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mkfs_found() {
        for (stderr, found) in [
            (
                "mkfs.xfs: /dev/sdb appears to contain an existing filesystem (ext4).\n\
                 mkfs.xfs: Use the -f option to force overwrite.\n",
                Some("appears to contain an existing filesystem (ext4)"),
            ),
            (
                "mkfs.xfs: /dev/sdb appears to contain a partition table (gpt).\nmkfs.xfs: Use",
                Some("appears to contain a partition table (gpt)"),
            ),
            ("mkfs.xfs: cannot open /dev/sdb: Device or resource busy\n", None),
            ("", None),
        ] {
            assert_eq!(parse_occupied(stderr).as_deref(), found);
        }
    }

    #[test]
    fn an_old_mkfs_gets_no_option_that_it_does_not_know() {
        let options = |said: &str| pinned(parse_version(said)).join(" ");
        let bigtime = "-m rmapbt=0 -m bigtime=0,inobtcount=0";
        for (said, expected) in [
            ("mkfs.xfs version 5.0.0\n", "-m rmapbt=0"), // RHEL 8
            ("mkfs.xfs version 5.12.0\n", bigtime),      // RHEL 9.0
            ("mkfs.xfs version 5.9.0", "-m rmapbt=0"),
            ("mkfs.xfs version 6.3.0", &format!("{bigtime} -i nrext64=0")),
            ("mkfs.xfs version 6.10.1-rc1", &format!("{bigtime} -i nrext64=0 -i exchange=0 -n parent=0")),
            ("mkfs.xfs version unknown", ""),
            ("", ""),
        ] {
            assert_eq!(options(said), expected, "{said}");
        }
    }

    /// The superblock's feature words: kernel `fs/xfs/libxfs/xfs_format.h`, `sb_features_ro_compat` and
    /// `sb_features_incompat` at 212 and 216.
    #[test]
    fn the_node_s_own_mkfs_makes_nothing_that_an_old_kernel_refuses() {
        const FINOBT_REFLINK: u32 = 1 | 4;
        const FTYPE_SPARSE: u32 = 1 | 2;
        let runner = crate::system::SystemRunner::new(crate::Interrupt::never()).unwrap();
        let host = Host::fixture(crate::Root::new("/"), Box::new(runner)).unwrap();
        if !host.runner.has(Tool::MkfsXfs) {
            eprintln!("not run: there is no mkfs.xfs");
            return;
        }
        let file = std::env::temp_dir().join(format!("etcd-lun-mkfs-{}", std::process::id()));
        std::fs::File::create(&file).unwrap().set_len(512 << 20).unwrap();
        let device = file.to_str().unwrap().parse().unwrap();
        let uuid: FsUuid = "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b".parse().unwrap();
        let label = "etcd-lun".parse().unwrap();
        make_filesystem(&host, &device, &uuid, &label, Duration::from_secs(60)).unwrap();
        let made = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(Superblock::parse(&made[..512]).unwrap().uuid, uuid);
        let word = |at: usize| u32::from_be_bytes(made[at..at + 4].try_into().unwrap());
        assert_eq!((word(212) & !FINOBT_REFLINK, word(216) & !FTYPE_SPARSE), (0, 0));
    }

    /// From mkfs.xfs 6.1.0 on 8 GiB.
    fn sector() -> Vec<u8> {
        let mut sector = vec![0; 512];
        let uuid: FsUuid = "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b".parse().unwrap();
        let fields: [(usize, &[u8]); 9] = [
            (0, b"XFSB"),
            (4, &4096_u32.to_be_bytes()),
            (8, &0x20_0000_u64.to_be_bytes()),
            (32, &uuid.0),
            (84, &0x8_0000_u32.to_be_bytes()),
            (88, &4_u32.to_be_bytes()),
            (100, &0xb4a5_u16.to_be_bytes()),
            (102, &512_u16.to_be_bytes()),
            (108, b"etcd-lun"),
        ];
        for (at, bytes) in fields {
            sector[at..at + bytes.len()].copy_from_slice(bytes);
        }
        sector
    }

    #[test]
    fn superblock() {
        let found = Superblock::parse(&sector()).unwrap();
        assert_eq!(found.size(), Bytes(8 << 30));
        assert_eq!((found.groups, found.version, found.sector_size), (4, 5, 512));
        assert_eq!(found.label, "etcd-lun");
        assert_eq!(found.uuid.to_string(), "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b");
        assert!(!found.in_progress);
        let mut unfinished = sector();
        unfinished[126] = 1;
        unfinished[108..120].copy_from_slice(b"twelve-bytes");
        let found = Superblock::parse(&unfinished).unwrap();
        assert!(found.in_progress);
        assert_eq!(found.label, "twelve-bytes");
    }

    #[test]
    fn hostile() {
        for end in 0..127 {
            assert_eq!(Superblock::parse(&sector()[..end]), None, "{end}");
        }
        // Magic; block size 0 and odd; size 0 and too large; groups 0; sector size.
        for (at, byte) in [(0, 0), (6, 0), (7, 1), (13, 0), (8, 0xff), (91, 0), (102, 0x55), (85, 0)] {
            let mut wrong = sector();
            wrong[at] = byte;
            assert_eq!(Superblock::parse(&wrong), None, "{at}");
        }
        assert_eq!(Superblock::parse(&[0xff; 512]), None);
    }
}

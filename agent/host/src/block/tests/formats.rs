//! A device that once held any known format must not count as blank.

use super::*;
use crate::block::places::places;

/// The recognition of a format without its first MiB.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    /// It is recognised.
    Start,
    /// It is not.
    Nothing,
}

/// Name as blkid prints it, MiB, how it is made, whether it is recognised without its first MiB.
#[rustfmt::skip]
const FORMATS: &[(&str, u64, &str, Left)] = &[
    ("ext4", 256, "mkfs.ext4 -q -F $D", Left::Start),
    ("ext4", 32, "mkfs.ext4 -q -F -b 1024 $D", Left::Start),
    ("ext2", 64, "mkfs.ext2 -q -F -b 2048 $D", Left::Start),
    ("btrfs", 256, "mkfs.btrfs -q $D", Left::Start),
    ("vfat", 64, "mkfs.vfat $D", Left::Nothing),
    ("ntfs", 64, "mkfs.ntfs -F -f -q $D", Left::Start),
    ("exfat", 64, "mkfs.exfat $D", Left::Start),
    ("f2fs", 64, "mkfs.f2fs -q $D", Left::Start),
    ("jfs", 64, "mkfs.jfs -q $D", Left::Start),
    ("nilfs2", 256, "mkfs.nilfs2 -q $D", Left::Start),
    ("gfs2", 64, "mkfs.gfs2 -O -q -p lock_nolock $D", Left::Start),
    ("ocfs2", 2048, "mkfs.ocfs2 -F -q -M local $D", Left::Start),
    ("reiserfs", 256, "mkfs.reiserfs -q -f -f $D", Left::Start),
    ("udf", 64, "mkudffs --media-type=hd -b 512 $D", Left::Start),
    ("udf", 64, "mkudffs --media-type=hd -b 2048 $D", Left::Start),
    ("udf", 64, "mkudffs --media-type=hd -b 4096 $D", Left::Start),
    ("swap", 64, "mkswap $D", Left::Nothing),
    ("crypto_LUKS", 64, "cryptsetup -q luksFormat --type luks1 $PBKDF -d /etc/hostname $D", Left::Start),
    ("crypto_LUKS", 64, "cryptsetup -q luksFormat --type luks2 $PBKDF -d /etc/hostname $D", Left::Start),
    ("gpt", 64, "sgdisk -n 0:0:0 $D", Left::Start),
    ("dos", 64, "sfdisk -q $D < /dev/null; echo , | sfdisk -q -X dos $D", Left::Nothing),
];

fn is_foreign(bench: &Bench, what: &str) -> String {
    match bench.probe() {
        Content::Foreign { found } => found,
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn formats_and_their_remnants_are_foreign() {
    for (name, size, line, left) in FORMATS {
        let bench = Bench::new(size * MIB);
        if !bench.shell(line) {
            continue;
        }
        let found = is_foreign(&bench, line);
        assert!(found.contains(&format!("of type {name}")), "{line}: {found}");
        bench.shell("wipefs -q -a $D");
        is_foreign(&bench, &format!("{line}, after wipefs -a"));
        bench.write(0, &vec![0; MIB as usize]);
        if *left == Left::Start {
            is_foreign(&bench, &format!("{line}, without its first MiB"));
        }
    }
}

#[test]
fn raw_signatures_are_foreign() {
    // Written by hand, because the tools need devices and a kernel that supports the format.
    let md = 0xa92b_4efc_u32.to_le_bytes();
    let size = 64 * MIB;
    let lvm = [&b"LABELONE"[..], &[0; 16], b"LVM2 001"].concat();
    for (what, at, bytes) in [
        ("LVM2 label", 512, &lvm[..]),
        ("md 0.90", size - 64 * KIB, &md),
        ("md 1.0", size - 8 * KIB, &md),
        ("md 1.1", 0, &md),
        ("md 1.2", 4 * KIB, &md),
        ("ZFS label 3", size - 128 * KIB, b"\x0c\xb1\xba\0"),
        ("VMFS", MIB, b"\x0d\xd0\x01\xc0"),
        ("Oracle ASM", 32, b"ORCLDISK"),
        ("Oracle ASM copy", 2 * MIB - 8 * KIB + 32, b"ORCLDISK"),
        ("only the boot mark", 510, b"\x55\xaa"),
    ] {
        let bench = Bench::scripted(size, 2, "");
        bench.write(at, bytes);
        is_foreign(&bench, what);
    }
}

#[test]
fn a_stray_byte_in_any_place_is_foreign() {
    let size = 1100 * GIB + 512; // no multiple of a block
    let bench = Bench::scripted(size, 2, "");
    assert_eq!(bench.probe(), Content::Blank);
    let mut count = 0;
    for (range, what) in places(size) {
        for at in [range.start, range.end - 1] {
            bench.write(at, &[1]);
            let found = is_foreign(&bench, what);
            assert!(found.contains(&format!(" {at} ")), "{what} at {at}: {found}");
            bench.write(at, &[0]);
            count += 1;
        }
    }
    assert!(count > 60);
    assert_eq!(bench.probe(), Content::Blank);
    bench.write(7 * GIB, &[1]); // at none of the known places
    assert_eq!(bench.probe(), Content::Blank);
}

#[test]
fn blank_needs_a_whole_look() {
    let no_size = Bench::scripted(0, 2, "");
    assert!(probe(&no_size.host, "img", None).is_err());
    assert!(probe(&no_size.host, "absent", None).is_err());
    for name in ["", "..", "a/b", "../img"] {
        assert!(probe(&no_size.host, name, None).is_err(), "{name}");
    }
    for size in [512, 4096, 5000, MIB, 3 * MIB + 512] {
        assert_eq!(Bench::scripted(size, 2, "").probe(), Content::Blank, "{size}");
    }
    // If blkid finds something, that counts, whatever our code finds. If blkid fails, nothing is known.
    let found = |code, stdout| probe(&Bench::scripted(8 * MIB, code, stdout).host, "img", None);
    assert!(matches!(found(0, "TYPE=zfs_member\nUSAGE=filesystem\n").unwrap(), Content::Foreign { .. }));
    assert!(matches!(found(8, "").unwrap(), Content::Foreign { .. }));
    assert!(found(4, "").is_err());
    assert!(found(0, "TYPE=xfs\nUSAGE=filesystem\n").is_err()); // the first sector is zero
}

/// A disk that is shorter than its size says, as a loop device on a file that was cut.
#[test]
fn a_short_read_is_an_error() {
    let bench = Bench::scripted(8 * MIB, 2, "");
    let medium = medium::Medium::open(&bench.image).unwrap();
    bench.file().set_len(4 * MIB).unwrap();
    let error = medium.read(4 * MIB - 4 * KIB, 8 * KIB as usize).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(medium.read(0, 4096).unwrap(), [0; 4096]);
}

/// How the recordings were made. The test `record` makes them again.
const RECORDED: &[(&str, &str, u64, &str)] = &[
    (
        "xfs",
        include_str!("recorded/xfs.txt"),
        512,
        "mkfs.xfs -q -m uuid=0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b -L etcd-lun $D",
    ),
    ("ext4-wiped", include_str!("recorded/ext4-wiped.txt"), 256, "mkfs.ext4 -q -F $D && wipefs -q -a $D"),
    (
        "gpt-backup",
        include_str!("recorded/gpt-backup.txt"),
        64,
        "sgdisk -n 0:0:0 $D && dd if=/dev/zero of=$D bs=1M count=1 conv=notrunc",
    ),
];

pub(super) fn recorded(name: &str) -> Recorded {
    Recorded::parse(RECORDED.iter().find(|(known, ..)| *known == name).unwrap().1)
}

#[test]
fn recordings() {
    let Content::Xfs(found) = recorded("xfs").play().probe() else { panic!() };
    assert_eq!((found.label.as_str(), found.size()), ("etcd-lun", Bytes(512 * MIB)));
    assert!(is_foreign(&recorded("ext4-wiped").play(), "").contains("the first MiB"));
    assert!(is_foreign(&recorded("gpt-backup").play(), "").contains("the last MiB"));
}

#[test]
#[ignore = "writes into the sources"]
fn record() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/block/tests/recorded");
    for (name, _, size, line) in RECORDED {
        let bench = Bench::new(size * MIB);
        if !bench.shell(line) {
            continue;
        }
        let what = Invocation::new(Tool::Blkid, ["-p", "-o", "export", bench.image.to_str().unwrap()]);
        let said = bench.host.run(&what).unwrap();
        let mut text = format!("# {line}\nsize {}\ncode {}\n", size * MIB, said.code);
        for line in said.stdout.lines().filter(|line| !line.starts_with("DEVNAME=") && !line.is_empty()) {
            text += &format!("blkid {line}\n");
        }
        let mut sectors = std::collections::BTreeMap::new();
        for (range, _) in places(size * MIB) {
            for at in (range.start / 512 * 512..range.end).step_by(512) {
                let mut sector = [0; 512];
                bench.file().read_exact_at(&mut sector, at).unwrap();
                let length = sector.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                sectors.insert(at, sector[..length].to_vec());
            }
        }
        for (at, bytes) in sectors.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{at} {hex}\n");
        }
        fs::write(dir.join(format!("{name}.txt")), text).unwrap();
    }
}

//! LUNs that are not blank. etcd-lun refuses each of them and changes no byte.

use anyhow::{Context, Result};

use super::{declines, each, refused, scribble};
use crate::scene::{LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;

/// What a tool of the node puts on the LUN: a name, the command, and values in the refusal.
const MADE: &[(&str, &str, &[&str])] = &[
    ("ext4", "mkfs.ext4 -q -F $LUN", &["ext4"]),
    ("another owner's XFS", "mkfs.xfs -q $LUN", &["XFS"]),
    // mkfs.vfat writes a partition table around its filesystem, and the kernel reads it as one.
    ("vfat", "mkfs.vfat $LUN", &["vfat"]),
    ("a partition table (GPT)", "echo ', 100M' | sfdisk -q --label gpt $LUN", &["gpt"]),
    ("a partition table (DOS)", "echo ', 100M' | sfdisk -q --label dos $LUN", &["dos"]),
    ("LVM", "pvcreate -q $LUN", &["LVM2_member"]),
    ("swap", "mkswap $LUN", &["swap"]),
    // This must be the last case: while this LUN is attached, its label makes etcd-lun refuse every other
    // LUN.
    ("another owner's XFS with our label", "mkfs.xfs -q -L etcd-lun $LUN", &["XFS", "etcd-lun"]),
];

/// Bytes that no tool recognises, at offsets where superblocks are or were.
const STRAY: &[(&str, u64)] = &[
    ("first byte", 0),
    ("ext's superblock", 1024),
    ("btrfs's superblock", 64 << 10),
    ("second backup of ext's superblock", 128 << 20),
    ("last sector", LUN_SIZE - 512),
    ("md's superblock, at the end", LUN_SIZE - (64 << 10)),
];

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("content/made-by-tools", |stage| {
            stage.offer_luns(MADE.len())?;
            let scripts: Vec<&str> = MADE.iter().map(|(_, script, _)| *script).collect();
            stage.prepare_luns(&scripts)?;
            each(MADE.iter().zip(1..), |((name, _, called), number)| {
                not_blank(stage, number, called).context(*name)
            })
        }),
        Scenario::new("content/stray-bytes", |stage| {
            stage.offer_luns(STRAY.len())?;
            each(STRAY.iter().zip(1..), |((name, offset), number)| {
                scribble(&stage.lun_file(number), *offset, b"somebody's")?;
                not_blank(stage, number, &[&offset.to_string()]).context(*name)
            })
        }),
    ]
}

fn not_blank(stage: &Stage, lun: u32, found: &[&str]) -> Result<()> {
    let wwid = stage.wwid(lun);
    let values = [found, &[wwid.as_str()]].concat();
    declines(stage, &Wanted { lun, ..Wanted::default() }, refused("foreign-content", &values))
}

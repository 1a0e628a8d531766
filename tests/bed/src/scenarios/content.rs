//! LUNs that are not blank: every one is refused, and not one byte of it changes.

use anyhow::Result;

use super::{declines, refused, scribble};
use crate::scene::{LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;

/// What the node's own tools put on the LUN, and what the refusal calls it.
const MADE: &[(&str, &str, &str)] = &[
    ("ext4", "mkfs.ext4 -q -F $LUN", "ext4"),
    ("xfs-of-others", "mkfs.xfs -q $LUN", "xfs"),
    ("xfs-of-others-with-our-label", "mkfs.xfs -q -L etcd-lun $LUN", "xfs"),
    // mkfs.vfat writes a partition table around its filesystem, and the kernel takes it for one.
    ("vfat", "mkfs.vfat $LUN", "vfat"),
    ("partition-table-gpt", "echo ', 100M' | sfdisk -q --label gpt $LUN", "type gpt (partitions sda1)"),
    ("partition-table-dos", "echo ', 100M' | sfdisk -q --label dos $LUN", "type dos (partitions sda1)"),
    ("lvm", "pvcreate -q $LUN", "LVM2_member"),
    ("swap", "mkswap $LUN", "swap"),
];

/// Bytes that no tool knows, at places where superblocks live or lived.
const STRAY: &[(&str, u64)] = &[
    ("first-byte", 0),
    ("ext-superblock", 1024),
    ("btrfs-superblock", 64 << 10),
    ("second-backup-ext-superblock", 128 << 20),
    ("last-sector", LUN_SIZE - 512),
    ("md-superblock-at-the-end", LUN_SIZE - (64 << 10)),
];

pub(super) fn scenarios() -> Vec<Scenario> {
    let made = MADE.iter().map(|(name, script, called)| {
        Scenario::new(&format!("content/{name}"), move |stage: &mut Stage| {
            stage.prepare_lun(script)?;
            not_blank(stage, &[called, "nothing was written"])
        })
    });
    let stray = STRAY.iter().map(|(name, offset)| {
        Scenario::new(&format!("content/stray-bytes-at-{name}"), move |stage: &mut Stage| {
            scribble(stage, *offset, b"somebody's")?;
            not_blank(stage, &["nothing was written"])
        })
    });
    made.chain(stray).collect()
}

fn not_blank(stage: &Stage, says: &[&str]) -> Result<()> {
    declines(stage, &Wanted::default(), refused(says))
}

//! A node that does not meet the requirements: rights, programs, units, or a local disk without the immutable
//! flag.

use anyhow::Context;

use super::{Declined, declines, declines_command, each, failed, refused};
use crate::scene::Wanted;
use crate::suite::Scenario;

/// Name, script that breaks the node, script that repairs it, and the refusal.
const UNFIT: &[(&str, &str, &str, Declined)] = &[
    (
        "no rsync",
        "mount -o remount,rw /usr && mv /usr/bin/rsync /root/",
        "mv /root/rsync /usr/bin/",
        refused("tool-missing", &["rsync"]),
    ),
    (
        "no mkfs.xfs",
        "mount -o remount,rw /usr && mv /usr/sbin/mkfs.xfs /root/",
        "mv /root/mkfs.xfs /usr/sbin/",
        refused("tool-missing", &["mkfs.xfs"]),
    ),
];

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("tools/unfit-node", |stage| {
            stage.configure(&Wanted::default())?;
            let command = "setpriv --reuid nobody --regid nogroup --clear-groups etcd-lun apply";
            declines_command(stage, command, failed("not-root", &[]))?;
            each(UNFIT, |(name, damage, repair, how)| {
                stage.node.ok(damage)?;
                let declined = declines_command(stage, "etcd-lun apply", *how);
                stage.node.ok(repair)?;
                declined.map(drop).context(*name)
            })
        }),
        Scenario::new("tools/local-disk-without-immutable-flag", |stage| {
            stage.node.ok(VAR_LIB_ON_MINIX)?;
            declines(stage, &Wanted::default(), refused("no-immutable-flag", &["/var/lib/etcd"]))
        }),
    ]
}

/// Minix's filesystem has owners and modes but no inode flags. etcd runs on it.
const VAR_LIB_ON_MINIX: &str = "set -e
systemctl stop etcd
truncate -s 600M /root/minix
mkfs.minix -3 /root/minix
modprobe minix
mkdir /mnt/new
mount -o loop -t minix /root/minix /mnt/new
cp -a /var/lib/etcd /var/lib/etcd-lun /var/lib/systemd /mnt/new/
umount /mnt/new
mount -o loop -t minix /root/minix /var/lib
systemctl start etcd";

//! A node that does not meet the requirements: rights, programs, units, or a local disk without the immutable
//! flag.

use anyhow::Context;

use super::{declines, declines_command, each, failed, refused};
use crate::scene::Wanted;
use crate::suite::Scenario;

/// Name, script that breaks the node, script that repairs it, and texts of the refusal.
const UNFIT: &[(&str, &str, &str, &[&str])] = &[
    (
        "no rsync",
        "mount -o remount,rw /usr && mv /usr/bin/rsync /root/",
        "mv /root/rsync /usr/bin/",
        &["rsync", "install"],
    ),
    (
        "no mkfs.xfs",
        "mount -o remount,rw /usr && mv /usr/sbin/mkfs.xfs /root/",
        "mv /root/mkfs.xfs /usr/sbin/",
        &["mkfs.xfs", "install"],
    ),
    (
        "another mount unit",
        "cp /etc/systemd/system/var-lib-etcd.mount /root/; sed -i 's/prjquota/noquota/' /etc/systemd/system/var-lib-etcd.mount; systemctl daemon-reload",
        "cp /root/var-lib-etcd.mount /etc/systemd/system/; systemctl daemon-reload",
        &["var-lib-etcd.mount", "render units"],
    ),
    (
        "no mount unit",
        "rm /etc/systemd/system/var-lib-etcd.mount; systemctl daemon-reload",
        "cp /root/var-lib-etcd.mount /etc/systemd/system/; systemctl daemon-reload",
        &["var-lib-etcd.mount", "render units"],
    ),
];

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("tools/unfit-node", |stage| {
            stage.configure(&Wanted::default())?;
            let command = "setpriv --reuid nobody --regid nogroup --clear-groups etcd-lun apply";
            declines_command(stage, command, failed(&["root"]))?;
            each(UNFIT, |(name, damage, repair, says)| {
                stage.node.ok(damage)?;
                let declined = declines_command(stage, "etcd-lun apply", refused(says));
                stage.node.ok(repair)?;
                declined.context(*name)
            })
        }),
        Scenario::new("tools/local-disk-without-immutable-flag", |stage| {
            stage.node.ok(VAR_LIB_ON_MINIX)?;
            declines(stage, &Wanted::default(), refused(&["/var/lib/etcd", "immutable"]))
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
cp -a /var/lib/etcd /var/lib/systemd /mnt/new/
umount /mnt/new
mount -o loop -t minix /root/minix /var/lib
systemctl start etcd";

//! A node that isn't fit: rights, programs, units, a local disk that can't hold the fence.

use anyhow::Result;

use super::{declines, declines_command, failed, refused};
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("tools/no-root-rights", |stage| {
            stage.configure(&Wanted::default())?;
            let command = "setpriv --reuid nobody --regid nogroup --clear-groups etcd-lun apply";
            declines_command(stage, command, failed(&["root"]))
        }),
        Scenario::new("tools/rsync-missing", |stage| missing(stage, "rsync")),
        Scenario::new("tools/mkfs-missing", |stage| missing(stage, "mkfs.xfs")),
        Scenario::new("tools/mount-unit-missing", |stage| {
            stage.strip()?;
            crate::scene::configure(&stage.node, &Wanted::default())?;
            declines_command(stage, "etcd-lun apply", refused(&["var-lib-etcd.mount", "render units"]))
        }),
        Scenario::new("tools/mount-unit-differs", |stage| {
            stage.configure(&Wanted::default())?;
            stage.node.ok("sed -i 's/prjquota/noquota/' /etc/systemd/system/var-lib-etcd.mount && systemctl daemon-reload")?;
            declines_command(stage, "etcd-lun apply", refused(&["var-lib-etcd.mount", "render units"]))
        }),
        Scenario::new("tools/local-disk-without-immutable-flag", |stage| {
            stage.node.ok(VAR_LIB_ON_MINIX)?;
            declines(stage, &Wanted::default(), refused(&["/var/lib/etcd", "immutable"]))
        }),
    ]
}

fn missing(stage: &mut Stage, tool: &str) -> Result<()> {
    stage.node.ok(&format!("mount -o remount,rw /usr && mv $(command -v {tool}) /root/"))?;
    declines(stage, &Wanted::default(), refused(&[tool, "install"]))
}

/// Minix's filesystem has owners and modes but no inode flags, and etcd runs on it.
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

//! etcd's own unit needs the mount of its data directory, as many guides write it. PID 1 then asks for it whenever somebody starts
//! etcd, before anything has looked at the LUN.

use anyhow::{Context, Result, bail};

use super::{check, refused};
use crate::etcd;
use crate::scene;
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("exposure/etcd-requires-the-mount-of-its-directory", requires_the_mount),
        Scenario::new("exposure/full-disk-lost-name-other-units", full_disk),
        Scenario::new("exposure/etcd-has-a-disk-of-its-own", a_disk_of_its_own),
    ]
}

/// Each of these makes etcd's unit depend on the mount (systemd.exec(5), systemd.unit(5)).
const REQUIRES: [&str; 3] = [
    "[Service]\nWorkingDirectory=/var/lib/etcd",
    "[Service]\nStateDirectory=etcd",
    "[Unit]\nRequiresMountsFor=/var/lib/etcd",
];

fn drop_in(stage: &Stage, lines: &str) -> Result<()> {
    stage
        .node
        .ok(&format!(
            "mkdir -p /etc/systemd/system/etcd.service.d
         printf '{}\\n' >/etc/systemd/system/etcd.service.d/bed.conf
         systemctl daemon-reload; systemctl reset-failed etcd.service 2>/dev/null || true
         systemctl show --property RequiresMountsFor etcd.service | grep /var/lib/etcd",
            lines.replace('\n', "\\n")
        ))
        .map(drop)
        .context("etcd's unit should depend on the mount")
}

fn requires_the_mount(stage: &mut Stage) -> Result<()> {
    // A node that was never migrated: etcd starts on the local disk, at once. `tests/root/units.rs` tries each line alone.
    drop_in(stage, &REQUIRES.join("\n"))?;
    stage.node.ok("systemctl enable --quiet etcd.service && timeout 45 systemctl restart etcd.service")?;
    stage.is_untouched()?;

    stage.apply()?;
    stage.is_on_lun()?;

    // The LUN goes back to an earlier state, and somebody starts etcd.
    const REST: &str = "systemctl stop etcd var-lib-etcd.mount && iscsiadm -m node --logout && sync";
    stage.node.ok(REST)?;
    let (old, new) = (stage.lun().with_extension("old"), stage.lun().with_extension("new"));
    std::fs::copy(stage.lun(), &old)?;
    stage.apply()?;
    stage.node.ok("etcdctl put acknowledged yes")?;
    stage.node.ok(REST)?;
    stage.target.stop();
    std::fs::copy(stage.lun(), &new)?;
    std::fs::rename(&old, stage.lun())?;
    stage.target.restart()?;
    check(&stage.agent("apply")?, refused("not-the-truth", &[&stage.wwid(1)]))?;
    super::lets_go(stage)?;
    stage.node.run("systemctl reset-failed etcd; timeout 45 systemctl start etcd.service")?;
    if etcd::is_active(&stage.node)? {
        bail!("etcd was started on a LUN that went back in time");
    }
    stage.is_down_without_lun()?;

    // The same at boot.
    stage.node.ok(scene::AT_BOOT)?;
    stage.node.reboot()?;
    super::boot::wait_for(&stage.node, "etcd-lun.service", "failed", scene::LIMIT)?;
    super::boot::wait_for(&stage.node, "etcd.service", "failed", scene::LIMIT)?;
    stage.is_down_without_lun()?;

    // The right LUN is back, and somebody starts the service.
    stage.node.ok("iscsiadm -m node --logout || true")?;
    stage.target.stop();
    std::fs::rename(&new, stage.lun())?;
    stage.target.restart()?;
    stage.node.ok("systemctl restart --no-block etcd-lun.service")?;
    super::boot::wait_for(&stage.node, "etcd-lun.service", "active", scene::LIMIT)?;
    super::boot::wait_for(&stage.node, "etcd.service", "active", scene::LIMIT)?;
    stage.is_on_lun()?;
    stage.has_kept("acknowledged")?;

    // The object is removed before the data is back.
    stage.node.ok("mv /etc/etcd-lun /root/ && etcd-lun status | grep LUN")?;
    stage.node.ok("etcd-lun apply 2>&1 | grep 'no-config.*etcd-lun rollback'")?;
    let rollback = stage.agent("rollback")?;
    if rollback.code != 0 {
        bail!("the rollback should have succeeded: {rollback}");
    }
    stage.is_untouched()?;
    stage.node.ok("timeout 45 systemctl restart etcd.service")?;
    stage.is_untouched()?;
    stage.has_kept("acknowledged")
}

/// Logs and images fill `/var` on a control-plane node, its host name is lost, and its units are those of another release, with a
/// drop-in for every mount. Its etcd, whose disk is another one, is used, counted and mounted at a boot all the same.
fn full_disk(stage: &mut Stage) -> Result<()> {
    stage.apply()?;
    stage.node.ok(scene::AT_BOOT)?;
    stage.node.ok("systemctl enable --quiet etcd.service && etcdctl put acknowledged yes
         cd /etc/systemd/system && mkdir mount.d && printf '[Mount]\\nTimeoutSec=300\\n' >mount.d/10-timeout.conf
         sed -i '/^#.*mount/d; s/^\\[Unit\\]$/# Of another release.\\n[Unit]\\nAfter=tmp.mount/' etcd-lun*.service etcd-lun*.socket *.d/50-etcd-lun.conf
         systemctl daemon-reload
         fallocate -l $(df --output=avail -B1 /var | tail -n 1) /var/filler || true
         for size in 1M 64k 4k 512; do dd if=/dev/zero of=/var/filler-$size bs=$size status=none || true; done
         ! cp /etc/services /var/more 2>/dev/null")?;
    // The record says whose node this is.
    stage.node.ok("hostname localhost && etcd-lun mark && etcd-lun let-go")?;
    stage.node.reboot()?;
    super::boot::wait_for(&stage.node, "etcd-lun.service", "active", scene::LIMIT)?;
    super::boot::wait_for(&stage.node, "etcd.service", "active", scene::LIMIT)?;
    stage.is_on_lun()?;
    stage.has_kept("acknowledged")?;
    stage.node.ok("rm /var/filler*").map(drop)
}

/// OpenShift's documented unit for a second disk, whose filesystem is an image here.
const SECOND_DISK: &str = "systemctl stop etcd.service && truncate --size 600M /var/second.img
    mkfs.xfs -q -L var-lib-etcd /var/second.img && mount -o loop /var/second.img /mnt && cp -a /var/lib/etcd/. /mnt/ && umount /mnt
    printf '%s\\n' '[Unit]' 'Before=local-fs.target' '[Mount]' What=/var/second.img Where=/var/lib/etcd Type=xfs \\
        Options=loop,prjquota '[Install]' RequiredBy=local-fs.target >/etc/systemd/system/var-lib-etcd.mount
    systemctl daemon-reload && systemctl --quiet enable --now var-lib-etcd.mount && chown etcd: /var/lib/etcd
    systemctl --quiet enable etcd.service && systemctl start etcd.service && etcdctl put acknowledged yes";

/// etcd is on a second disk already, and the object comes. That disk stays where it is at each boot, etcd has every key, and
/// nothing is moved, not even by a boot without that disk.
fn a_disk_of_its_own(stage: &mut Stage) -> Result<()> {
    stage.node.ok(scene::AT_BOOT)?;
    stage.node.ok(SECOND_DISK)?;
    check(&stage.agent("render units --into /etc/systemd/system")?, refused("claimed", &[UNIT]))?;
    for _ in 0..2 {
        stage.node.reboot()?;
        super::boot::wait_for(&stage.node, "etcd-lun.service", "failed", scene::LIMIT)?;
        super::boot::wait_for(&stage.node, "etcd.service", "active", scene::LIMIT)?;
        stage.node.ok("findmnt --mountpoint /var/lib/etcd --output SOURCE | grep loop")?;
        stage.has_kept("acknowledged")?;
    }
    check(&stage.agent("apply")?, refused("foreign-mount", &["/var/lib/etcd"]))?;
    // Somebody disables it: the stale copy beneath is no truth.
    stage.node.ok("systemctl --quiet disable var-lib-etcd.mount")?;
    stage.node.reboot()?;
    super::boot::wait_for(&stage.node, "etcd-lun.service", "failed", scene::LIMIT)?;
    check(&stage.agent("apply")?, refused("claimed", &[UNIT]))?;
    stage.is_untouched().map(drop)
}

/// Where the unit lies.
const UNIT: &str = "/etc/systemd/system/var-lib-etcd.mount";

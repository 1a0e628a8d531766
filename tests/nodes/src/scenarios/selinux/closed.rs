//! Without the module, or with a program that lost its label, the service must fail. Also tests what `selinux
//! remove` leaves.

use std::time::Duration;

use anyhow::{Result, bail};

use super::super::{failed, is_said};
use crate::node::Node;
use crate::stage::Stage;

/// The program has the label of its directory, as after someone replaced it who does not know the module.
pub(super) fn without_the_label(node: &Node) -> Result<()> {
    node.ok("chcon -t bin_t /var/lib/etcd-lun/bin/etcd-lun")?;
    fails(node, "203", "EXEC")?;
    node.ok("restorecon /var/lib/etcd-lun/bin/etcd-lun; systemctl reset-failed etcd-lun.service").map(drop)
}

/// The module was removed, so the kernel does not know the context in the unit.
pub(super) fn without_the_module(node: &Node) -> Result<()> {
    fails(node, "229", "SELINUX_CONTEXT")
}

/// A node without an entry gets the module all the same. Without it systemd could not start the service there, and nobody would
/// read that the entry is missing.
pub(super) fn without_an_entry(node: &Node) -> Result<()> {
    // Else the record's name says which entry is this node's.
    node.ok("rm /var/lib/etcd-lun/node; hostname master-9; systemctl restart etcd-lun-selinux.service; systemctl start --no-block etcd-lun.service")?;
    let how = failed("no-node-entry", &["master-9"]);
    is_said(node, "etcd-lun.service", Duration::from_secs(60), how)?;
    node.ok("systemctl stop etcd-lun.service").map(drop)
}

fn fails(node: &Node, code: &str, name: &str) -> Result<()> {
    let run = node.run(
        "systemctl restart etcd-lun.service; systemctl show --property ExecMainStatus --value etcd-lun.service
         journalctl --sync; journalctl -b --no-pager -o cat -u etcd-lun.service | tail -n 20; systemctl stop etcd-lun.service",
    )?;
    if !run.stdout.starts_with(&format!("{code}\n")) || !run.stdout.contains(&format!("status={code}/{name}"))
    {
        bail!("etcd-lun.service should have failed with {code}/{name}: {run}");
    }
    Ok(())
}

/// While etcd's data is on the LUN, only the store loses the module. After a rollback the store has no module, the kernel no type of
/// it, and the disk no label of it. etcd must keep running.
pub(super) fn removed(stage: &Stage) -> Result<()> {
    let node = &stage.node;
    for _ in 0..2 {
        let kept = node.run_within("etcd-lun selinux remove", crate::scene::LIMIT)?;
        if kept.code != 0 || !kept.stderr.contains("the next boot installs the module again") {
            bail!("`etcd-lun selinux remove` with the data on the LUN: {kept}");
        }
    }
    node.ok("! semodule --list=full | grep etcd_lun && seinfo --type | grep -q etcd_lun_data_t")?;
    node.ok("systemctl start etcd-lun-health.service && etcdctl put /without/module yes")?;
    stage.is_on_lun()?;
    let back = node.run_within("etcd-lun rollback", crate::scene::LIMIT)?;
    if back.code != 0 {
        bail!("`etcd-lun rollback` failed: {back}");
    }
    let removed = node.run_within("etcd-lun selinux remove", crate::scene::LIMIT)?;
    if removed.code != 0 {
        bail!("`etcd-lun selinux remove` failed: {removed}");
    }
    // Reads the raw attribute, because a type that the policy no longer has is shown as unlabeled_t.
    let left = node.run(
        "semodule --list=full | grep etcd_lun; seinfo --type | grep etcd_lun
         find /etc /usr/local /var /run -xdev -exec getfattr --absolute-names --name security.selinux --only-values {} + \
             2>/dev/null | tr '\\0' '\\n' | grep etcd_lun | sort | uniq -c
         find /etc /usr/local /var /run -xdev -context '*etcd_lun*' -o -xdev -context '*unlabeled_t*' | head",
    )?;
    if !left.stdout.trim().is_empty() {
        bail!("`selinux remove` left traces: {left}");
    }
    stage.is_untouched().map(drop)
}

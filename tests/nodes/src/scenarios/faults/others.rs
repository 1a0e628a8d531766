//! Another LUN in place of ours, and another node that uses our LUN. Both are refused; no byte changes and
//! etcd stays down.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::super::health::finding;
use super::super::{Declined, carries, lets_go, lost};
use super::{check, refused};
use crate::etcd;
use crate::image::HOSTNAME;
use crate::scene::{self, LUN_SIZE};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{self, Lun, Offer, fingerprint};
use crate::verbs;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("faults/swapped-lun", swapped_lun),
        Scenario::new("faults/mounted-elsewhere", mounted_elsewhere),
    ]
}

/// Stops etcd, unmounts the LUN and ends the session, as before a boot's `apply`.
const IDLE: &str = "systemctl stop etcd var-lib-etcd.mount && iscsiadm -m node --logout && sync";
const LOG_OUT: &str = "iscsiadm -m node --logout";

/// Another volume of the same size has our LUN's number. First it has a WWID of its own. Then it has our
/// WWID, as with an array that makes the WWID from the number.
fn swapped_lun(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    stage.node.ok(&format!("etcdctl put /before/the/swap yes && {IDLE}"))?;
    let ours = stage.lun();
    let other = ours.with_extension("other");
    target::blank(&other, LUN_SIZE)?;
    let same_wwid = Lun::new(1, other.clone());
    let own_wwid = Lun { volume: 7, ..same_wwid.clone() };
    let (wanted, found) = (same_wwid.wwid(), own_wwid.wwid());
    offer(stage, own_wwid)?;
    declines_at_rest(stage, &other, refused("wrong-lun", &["LUN 1", &found, &wanted]))?;
    offer(stage, same_wwid.clone())?;
    declines_at_rest(stage, &other, refused("not-the-truth", &[&wanted, "blank"]))?;
    // The volume holds the same as another node's LUN: our label, but another UUID and the other node's
    // stamp.
    fs::copy(&ours, &other)?;
    offer(stage, same_wwid)?;
    let change = format!("xfs_admin -U {OTHER_UUID} $LUN; mount $LUN /mnt/x; {}; umount /mnt/x", stamp(9));
    by_hand(stage, &change)?;
    declines_at_rest(stage, &other, refused("not-the-truth", &[&wanted, OTHER_UUID]))?;
    offer(stage, Lun::new(1, ours))?;
    stage.apply()?;
    stage.has_kept("/before/the/swap")?;
    stage.is_on_lun()?;
    stage.node.ok(lost::RULE)?;
    lost::beneath_the_mount(stage, true, 7).context("while the session stays")?;
    lost::beneath_the_mount(stage, false, 7).context("while the target is away")
}

/// Another node finds our LUN and is refused. When an administrator writes that node's stamp on it by hand,
/// our node is refused.
fn mounted_elsewhere(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    counted_by_another(stage).context("while etcd runs on the LUN")?;
    let id = stage.node.ok("cat /etc/machine-id")?;
    stage.node.ok(&format!("etcdctl put /before/the/other yes && {IDLE}"))?;
    let ours = stage.lun();
    // One node plays both nodes. Only the machine id distinguishes them.
    stage.node.ok(&format!("echo {OTHER} >/run/other-id; mount --bind /run/other-id /etc/machine-id"))?;
    let wwid = stage.wwid(1);
    let cure = [wwid.as_str(), HOSTNAME, &id, OTHER, "etcd-lun claim"];
    declines_at_rest(stage, &ours, refused("not-the-truth", &cure))?;
    // The record is gone too. Whoever then follows the first refusal's cure still does not get the other node's LUN.
    stage.node.ok("mv /var/lib/etcd-lun /var/lib/kept; mkdir --mode 0700 /var/lib/etcd-lun
         cp -a /var/lib/kept/bin /var/lib/etcd-lun/; chattr -i /var/lib/etcd")?;
    check(&stage.agent("apply")?, refused("fenced-without-record", &["/var/lib/etcd", "etcd-lun claim"]))?;
    stage.node.ok("rm /var/lib/etcd/member")?;
    declines_at_rest(stage, &ours, refused("stamped-by-other", &[&wwid, HOSTNAME, &id]))?;
    by_hand(stage, &format!("mount $LUN /mnt/x; {KEEP_STAMP}; {}; umount /mnt/x", stamp(2)))?;
    stage.node.ok("touch /var/lib/etcd/member; chattr +i /var/lib/etcd
         rm -rf /var/lib/etcd-lun; mv /var/lib/kept /var/lib/etcd-lun; umount /etc/machine-id")?;
    declines_at_rest(stage, &ours, refused("not-the-truth", &[&wwid, "master-9", OTHER, &id]))?;
    // An administrator may do this who knows that etcd never ran on the other node.
    by_hand(stage, &format!("mount $LUN /mnt/x; {RESTORE_STAMP}; umount /mnt/x"))?;
    stage.apply()?;
    stage.has_kept("/before/the/other")?;
    stage.is_on_lun()?;
    new_machine_id(stage, &ours, &id)
}

/// Another computer counts a use of the LUN that etcd runs on, and then the LUN goes back to an earlier moment, both in the sector
/// of the root directory, which XFS does not read again. The next look finds each. Nothing is counted over it, and etcd runs on.
fn counted_by_another(stage: &Stage) -> Result<()> {
    const COUNT: &str = "etcd-lun mark | grep 'is counted\\|use [0-9]'";
    const IN_PLACE: &str = "! etcd-lun health | grep 'XFS writes it'";
    let lun = OpenOptions::new().read(true).write(true).open(stage.lun())?;
    let mut number = [0; 8];
    lun.read_exact_at(&mut number, 56)?; // sb_rootino of the superblock (xfsprogs `xfs_format.h`), in the first allocation group
    let at = u64::from_be_bytes(number) * 512;
    let sector = || -> Result<[u8; 512]> {
        let mut sector = [0; 512];
        lun.read_exact_at(&mut sector, at).map(|()| sector).map_err(Into::into)
    };
    stage.wait_until(&format!("{COUNT} && sleep 40 && {IN_PLACE}"))?;
    let earlier = sector()?;
    stage.wait_until(&format!("{COUNT} && sleep 40 && {IN_PLACE}"))?;
    let ours = sector()?;
    let uses = ours.windows(14).position(|text| text == b"\"activations\":").context("no stamp there")?;
    let mut others = ours;
    others[uses + 14] = b'9';
    stage.node.ok("sleep 21")?; // the last use is older than a write-back of XFS then
    for (what, planted) in [("another computer", others), ("an earlier moment", earlier)] {
        lun.write_all_at(&planted, at)?;
        carries(&finding(stage, "stamp")?, &["where this node has written generation 1"]).context(what)?;
        let counted = stage.agent("mark")?;
        stage.node.ok("etcdctl put /beside/another yes && sync")?;
        if sector()? != planted {
            bail!("{what}: something was written over what it wrote: {counted}");
        }
    }
    lun.write_all_at(&ours, at)?;
    stage.node.ok(&format!("{IN_PLACE} && etcdctl get /beside/another | grep yes")).map(drop)
}

const KEEP_STAMP: &str = "getfattr --only-values -n trusted.etcd-lun.stamp /mnt/x >/run/kept-stamp";
const RESTORE_STAMP: &str = "setfattr -n trusted.etcd-lun.stamp -v \"$(cat /run/kept-stamp)\" /mnt/x";

/// The node itself gets another machine id. It takes its LUN back, but none that is older than its record.
fn new_machine_id(stage: &Stage, ours: &Path, id: &str) -> Result<()> {
    stage.node.ok("mount --bind /run/other-id /etc/machine-id")?;
    let wwid = stage.wwid(1);
    let owners = [wwid.as_str(), HOSTNAME, id, OTHER];
    let cure = [&owners[..], &["etcd-lun claim"]].concat();
    check(&stage.agent("claim")?, refused("not-the-truth", &owners))?;
    stage.node.ok(IDLE)?;
    declines_at_rest(stage, ours, refused("not-the-truth", &cure))?;
    let record = "/var/lib/etcd-lun/authority.json";
    stage.node.ok(&format!("cp {record} /run/kept; sed -i 's/\"activations\": /&9/' {record}"))?;
    check(&stage.agent("claim")?, refused("not-the-truth", &owners))?;
    stage.node.ok(&format!("cp /run/kept {record}"))?;
    lets_go(stage)?;
    let before = fingerprint(ours)?;
    let plan = stage.agent("claim --dry-run")?;
    if plan.code != 0 || fingerprint(ours)? != before {
        bail!("`claim --dry-run` should succeed and write nothing to the LUN: {plan}");
    }
    for is_first in [true, false] {
        let taken = verbs::taken(&stage.node, "claim")?;
        if taken.has_step("claim") != is_first {
            bail!("the first `claim` should take the LUN, and the second one find it taken: {taken:?}");
        }
    }
    stage.apply()?;
    stage.has_kept("/before/the/other")?;
    stage.is_on_lun()
}

const OTHER: &str = "0123456789abcdef0123456789abcdef";
/// The UUID of another node's filesystem.
const OTHER_UUID: &str = "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b";

/// Writes another node's stamp on the mounted filesystem.
fn stamp(uses: u32) -> String {
    stamp_of(OTHER, "master-9", uses)
}

fn stamp_of(machine_id: &str, node: &str, uses: u32) -> String {
    let text = format!(
        r#"{{"version":1,"generation":1,"machine_id":"{machine_id}","node":"{node}","activations":{uses}}}"#
    );
    format!("setfattr -n trusted.etcd-lun.stamp -v '{text}' /mnt/x")
}

fn offer(stage: &mut Stage, lun: Lun) -> Result<()> {
    stage.target.offer(Offer { luns: vec![lun], ..stage.target.offered().clone() })
}

/// Changes the LUN by hand, without etcd-lun.
fn by_hand(stage: &Stage, script: &str) -> Result<()> {
    stage
        .node
        .ok(&format!(
            "{}set -e; mkdir -p /mnt/x; log_in {}; iscsiadm -m session --rescan; udevadm settle
             LUN=$(readlink -f /dev/disk/by-path/*-lun-1)\n{script}\n{LOG_OUT}",
            scene::record_by_hand(),
            crate::net::Path::A.portal()
        ))
        .map(drop)
}

/// Checks that `apply` declines, and ends its session.
fn declines_at_rest(stage: &Stage, lun: &Path, how: Declined) -> Result<()> {
    let before = fingerprint(lun)?;
    let output = stage.agent("apply")?;
    check(&output, how)?;
    lets_go(stage)?;
    if fingerprint(lun)? != before {
        bail!("a run that declined wrote to the LUN: {output}");
    }
    if etcd::is_active(&stage.node)? {
        bail!("a run that declined started etcd: {output}");
    }
    Ok(())
}

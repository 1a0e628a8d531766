//! Faults while etcd runs on the LUN: its filesystem shuts down, the storage restores an old snapshot, the
//! target is unreachable for a while or for good.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::boot;
use super::health::finding;
use super::migrate::stays_down;
use super::{carries, check, lets_go, refused, unhealthy, unnamed};
use crate::etcd;
use crate::host::{self, Output};
use crate::stage::Stage;
use crate::suite::Scenario;

mod at_steps;
mod in_use;
mod others;

pub(super) use at_steps::lio_cut_off;

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = vec![
        Scenario::new("faults/filesystem-shut-down", filesystem_shut_down),
        Scenario::new("faults/snapshot-within-one-mount", snapshot_within_one_mount),
        Scenario::new("faults/target-away-for-three-minutes", target_away),
    ];
    scenarios.extend(at_steps::scenarios());
    scenarios.extend(others::scenarios());
    scenarios
}

/// `health` reports the shutdown. `apply` by hand mounts the filesystem again, whatever state etcd is in.
fn filesystem_shut_down(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    // As an agent that sees the node's `/` without propagation. What it has mounted would keep the filesystem as it is.
    stage.node.ok("systemd-run --quiet --collect --unit agent unshare --mount --propagation private sleep 1000
         while ! pgrep -x sleep; do sleep 0.2; done; grep ' /var/lib/etcd ' /proc/$(pgrep -x sleep)/mountinfo")?;
    stage.node.ok("etcdctl put /before/shutdown yes && xfs_io -x -c shutdown /var/lib/etcd")?;
    unhealthy(&stage.agent("health")?, &["mount"])?;
    check(&stage.agent("mark")?, refused("shut-down", &["/var/lib/etcd"]))?;
    stage.apply()?;
    stage.is_on_lun()?;
    stage.has_kept("/before/shutdown")?;
    stage.node.ok("! grep ' /var/lib/etcd ' /proc/$(pgrep -x sleep)/mountinfo && systemctl stop agent")?;
    super::health::is_well(stage)
}

/// Runs `mark`. It counts a use in the record, or leaves the record as it is, which is no error.
fn marks(stage: &Stage, counts: bool) -> Result<Output> {
    let record = || stage.node.ok("sha256sum /var/lib/etcd-lun/authority.json");
    let before = record()?;
    let output = stage.agent("mark")?;
    if output.code != 0 || (record()? != before) != counts {
        bail!("`mark` should have {} a use: {output}", if counts { "counted" } else { "left out" });
    }
    Ok(output)
}

/// A snapshot is taken and restored between two mounts, with a power cut. Only the use that `mark` counted
/// shows it.
fn snapshot_within_one_mount(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    let [old, new] = ["old", "new"].map(|name| stage.lun().with_extension(name));
    stage.node.ok("sync -f /var/lib/etcd")?;
    fs::copy(stage.lun(), &old)?;
    stage.node.ok("etcdctl put /after/snapshot yes")?;
    let marked = marks(stage, true)?;
    let stamp = "getfattr --only-values -n trusted.etcd-lun.stamp /var/lib/etcd | jq .activations";
    if boot::activations(&stage.node)? != 2 || stage.node.ok(stamp)? != "2" {
        bail!("`mark` should have counted use 2, in the record and on the LUN: {marked}");
    }
    stage.node.power_cut();
    stage.target.stop();
    fs::rename(stage.lun(), &new)?;
    fs::rename(&old, stage.lun())?;
    stage.target.restart()?;
    stage.node.power_on()?;
    // No unit of etcd-lun is enabled, and nothing logs in by itself. Only the fence keeps etcd down.
    stays_down(stage)?;
    // Both counters: the stamp's and the record's.
    check(&stage.agent("apply")?, refused("not-the-truth", &[&stage.wwid(1), "1", "2"]))?;
    if etcd::is_active(&stage.node)? {
        bail!("etcd was started on a LUN that went back in time");
    }
    marks(stage, false).context("the LUN is not mounted")?;
    // The newer content returns. The write that was acknowledged before the power cut must be there.
    lets_go(stage)?;
    stage.target.stop();
    fs::rename(&new, stage.lun())?;
    stage.target.restart()?;
    stage.apply()?;
    stage.has_kept("/after/snapshot")?;
    stage.is_on_lun()
}

/// The target is back, and etcd accepts writes.
fn comes_back(stage: &mut Stage, what: &str) -> Result<()> {
    stage.target.restart()?;
    let begun = std::time::Instant::now();
    let serves = || {
        let output = stage.node.run("etcdctl --command-timeout 5s put /after/the/outage yes")?;
        Ok((output.code == 0).then_some(()))
    };
    host::poll(Duration::from_secs(150), Duration::from_secs(2), serves)?
        .with_context(|| format!("{what}: etcd does not accept writes after the target came back"))?;
    println!(
        "        {what}: etcd accepts writes {:.0} s after the target is back",
        begun.elapsed().as_secs_f64()
    );
    stage.is_on_lun()
}

/// The outage is longer than open-iscsi's default time-out of two minutes. Writes wait and then continue, also where iscsid makes no
/// session again: the minute's check starts one that somebody has stopped, and restarts one that does nothing.
fn target_away(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    stage.node.ok(super::health::ENABLE)?;
    let waits = stage.node.ok("cat /sys/class/iscsi_session/session*/recovery_tmo")?;
    if waits != "3600" {
        bail!("writes wait for {waits} s instead of an hour");
    }
    stage.target.stop();
    std::thread::sleep(Duration::from_secs(180));
    marks(stage, false).context("no session is connected")?;
    stage.node.ok("systemctl stop iscsid.socket iscsid")?;
    carries(&finding(stage, "session")?, &["iscsid does not run", "1 of 1 are down"])?;
    comes_back(stage, "iscsid was stopped")?;
    // Such an iscsid has the session, and does nothing for it.
    let before =
        stage.node.ok("systemctl kill --signal=STOP iscsid; systemctl show --property MainPID iscsid")?;
    stage.target.stop();
    stage.wait_until("grep -q FAILED /sys/class/iscsi_session/session*/state")?;
    comes_back(stage, "iscsid does nothing")?;
    if stage.node.ok("systemctl show --property MainPID iscsid")? == before {
        bail!("iscsid should have been restarted");
    }
    let waits = stage.node.ok("cat /sys/class/iscsi_session/session*/recovery_tmo")?;
    if waits != "3600" {
        bail!("after the new login, writes wait for {waits} s instead of an hour");
    }
    Ok(())
}

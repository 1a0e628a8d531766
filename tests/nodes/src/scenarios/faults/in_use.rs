//! A target that misbehaves while etcd runs on its LUN, and faults that only delay a migration.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::bench::measured;
use super::super::held;
use super::at_steps::{Fault, STEPS};
use super::{check, refused, unhealthy};
use crate::host;
use crate::scene::Wanted;
use crate::stage::Stage;

/// Writes fail until XFS shuts down. Then `health` reports it, a run fails, and the next one repairs it after the fault has
/// ended.
pub(super) fn until_it_shuts_down(stage: &mut Stage, fault: &Fault) -> Result<()> {
    stage.node.ok("etcdctl put /before/the/fault yes")?;
    (fault.begin)(&stage.bed, &stage.target)?;
    let shut_down = || {
        stage.node.run("etcdctl --command-timeout 2s put /during/the/fault yes")?;
        Ok((stage.node.run("stat /var/lib/etcd/member")?.code != 0).then_some(()))
    };
    host::poll(Duration::from_secs(60), Duration::from_millis(500), shut_down)?
        .context("the filesystem does not shut down")?;
    unhealthy(&stage.agent("health")?, &["mount"])?;
    let early = stage.agent("apply --boot")?;
    if early.code == 0 {
        bail!("the LUN cannot be mounted yet: {early}");
    }
    (fault.repair)(&stage.bed, &stage.target)?;
    stage.apply()?;
    is_whole(stage)
}

/// Writes wait during the fault and continue after it.
pub(super) fn waits(stage: &mut Stage, fault: &Fault) -> Result<()> {
    stage.node.ok("etcdctl put /before/the/fault yes")?;
    (fault.begin)(&stage.bed, &stage.target)?;
    if stage.node.run("etcdctl --command-timeout 10s put /during/the/fault yes")?.code == 0 {
        bail!("etcd acknowledged a write that cannot be on the LUN");
    }
    (fault.repair)(&stage.bed, &stage.target)?;
    stage.node.ok("etcdctl --command-timeout 60s put /after/the/fault yes")?;
    is_whole(stage)
}

/// etcd's files are there but cannot be written.
pub(super) fn full(stage: &mut Stage, fault: &Fault) -> Result<()> {
    stage.node.ok("etcdctl put /before/the/fault yes")?;
    (fault.begin)(&stage.bed, &stage.target)?;
    let down = || {
        stage.node.run(
            "head -c 1000000 /dev/urandom | base64 -w 0 | etcdctl --command-timeout 5s put /during/the/fault",
        )?;
        // etcd must be failed for good: systemd restarts it a few times.
        Ok((stage.node.run("systemctl is-failed --quiet etcd.service")?.code == 0).then_some(()))
    };
    host::poll(Duration::from_secs(120), Duration::from_secs(1), down)?
        .context("etcd keeps running without free space")?;
    unhealthy(&stage.agent("health")?, &["kernel-log", "etcd"])?;
    (fault.repair)(&stage.bed, &stage.target)?;
    stage.apply()?;
    is_whole(stage)
}

/// tgtd is killed and restarted at once, at every step and while etcd runs. This only takes time.
pub(super) fn restarted(stage: &mut Stage) -> Result<()> {
    stage.configure(&Wanted::default())?;
    let steps: Vec<&str> = STEPS.iter().map(|(_, held_at)| *held_at).collect();
    let output = held::apply(stage, &steps, |_, target| target.restart())?;
    if output.code != 0 {
        bail!("a short outage of the target ended the attempt: {output}");
    }
    stage.is_on_lun()?;
    stage.node.ok("etcdctl put /before/the/fault yes")?;
    stage.target.restart()?;
    stage.node.ok("etcdctl --command-timeout 60s put /after/the/fault yes")?;
    is_whole(stage)
}

/// The target answers every command slowly. With `require_fsync_p99` the LUN is measured and refused. Without
/// it the migration succeeds slowly, and `bench` reports a slow disk.
pub(super) fn slow(stage: &mut Stage) -> Result<()> {
    let limit = "[lun]\nrequire_fsync_p99 = \"10ms\"\n";
    stage.configure(&Wanted::default())?;
    stage.node.put("/etc/etcd-lun/config.d/50-limit.toml", 0o644, limit.as_bytes())?;
    let slow = stage.target.slow_down()?;
    check(&stage.agent("apply")?, refused("too-slow", &[&stage.wwid(1), "10ms"]))?;
    stage.is_untouched()?;
    stage.node.ok("rm /etc/etcd-lun/config.d/50-limit.toml")?;
    stage.apply()?;
    stage.is_on_lun()?;
    let value = measured(&stage.agent("bench --writes 100 --json")?, &[("/var/lib/etcd", 100)])?;
    if value["bench"]["series"][0]["verdict"] != "too-slow" {
        bail!("`bench` should find the LUN too slow: {value}");
    }
    drop(slow);
    stage.is_on_lun()
}

fn is_whole(stage: &Stage) -> Result<()> {
    stage.has_kept("/before/the/fault")?;
    stage.is_on_lun()
}

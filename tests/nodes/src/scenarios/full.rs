//! A LUN that is full, in the order of docs/troubleshooting.md: etcd's quota first, then the filesystem.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::health::{failing, finding};
use super::{carries, storage};
use crate::scene::{self, LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::verbs;

/// Small, because an emulated node fills it.
const QUOTA: u64 = 64 << 20;
const DROP_IN: &str = "/etc/systemd/system/etcd.service.d/90-quota.conf";
/// The smallest LUN that `apply` accepts without a warning (docs/guide.md): twice the quota, and 1 GiB.
const ROOMY: u64 = LUN_SIZE + 2 * QUOTA;
/// What a restore leaves on the LUN.
const ARCHIVE: &str = "/var/lib/etcd/member-removed-archive-1";

/// Moves etcd to a LUN that just has room, fills the quota, then the LUN. It grows, and etcd serves with every acknowledged key.
pub(super) fn filled_and_grown(stage: &mut Stage) -> Result<()> {
    stage.node.ok(&format!(
        "mkdir -p $(dirname {DROP_IN}); printf '[Service]\\nEnvironment=ETCD_QUOTA_BACKEND_BYTES={QUOTA}\\n' >{DROP_IN}
         systemctl daemon-reload && systemctl restart etcd.service"
    ))?;
    stage.configure(&Wanted::default())?;
    File::options().write(true).open(stage.lun())?.set_len(ROOMY)?;
    stage.target.restart()?;
    let applied = stage.apply()?;
    if applied.both().contains("warning") {
        bail!("this LUN has room: {applied}");
    }
    let mut acknowledged = puts(stage, "full/a", "database space exceeded")?;
    carries(&finding(stage, "cluster")?, &["NOSPACE", "etcdctl alarm disarm"])?;
    // With every key alive it writes a database of the same size beside the first. Compaction would forget keys that the stage
    // compares, so the quota is raised.
    stage.node.ok(&format!(
        "! etcd-lun health | grep FOUND | grep free-space; etcdctl --command-timeout 120s defrag
         rm {DROP_IN}; systemctl daemon-reload && systemctl restart etcd.service && etcdctl alarm disarm"
    ))?;

    fill(stage, 16)?;
    carries(&finding(stage, "free-space")?, &["etcd-lun apply"])?;
    acknowledged += puts(stage, "full/b", "")?;
    // systemd gives up an etcd that ends again and again.
    stage.wait_until_within(
        "etcdctl --command-timeout 10s put full/c </run/value >/dev/null 2>&1; systemctl -q is-failed etcd.service",
        Duration::from_secs(300),
    )?;
    fill(stage, 1)?;

    storage::resize(stage, 2 * LUN_SIZE)?;
    let taken = verbs::taken(&stage.node, "apply")?;
    let count = stage
        .node
        .ok("etcdctl get full/ --prefix --count-only --write-out=fields | grep Count | cut -d' ' -f3")?;
    println!("        {acknowledged} values of 1 MB were acknowledged, {count} are there: {taken:?}");
    if !taken.has_step("grow") || count.trim().parse::<usize>()? < acknowledged {
        bail!("acknowledged keys are missing, or the LUN is as small as before");
    }
    if failing(stage)?.contains("free-space") {
        bail!("there is room again: {}", stage.agent("health")?);
    }
    stage.node.ok(&format!("etcdctl --command-timeout 120s defrag && rm -r {ARCHIVE}"))?;
    stage.is_on_lun()
}

/// Leaves at most this many MiB of the LUN free. Each try of etcd that fails leaves another amount.
fn fill(stage: &Stage, mib: u64) -> Result<()> {
    let script = format!(
        "mkdir -p {ARCHIVE} && size=$(($(df --output=avail -B1 {ARCHIVE} | tail -n 1) - ({mib} << 20)))
         [ $size -le 0 ] || fallocate -l $size {ARCHIVE}/{mib}"
    );
    stage.node.ok(&script).map(drop)
}

/// Writes values of 1 MB until etcd refuses one or is gone. Returns how many it has acknowledged.
fn puts(stage: &Stage, prefix: &str, refusal: &str) -> Result<usize> {
    let script = format!(
        "head -c 1000000 /dev/zero | tr '\\0' A >/run/value; n=0
         while etcdctl --command-timeout 30s put {prefix}/$n </run/value >/dev/null 2>/run/refused; do n=$((n + 1)); done
         echo $n; tail -n 1 /run/refused"
    );
    let said = stage.node.run_within(&script, scene::LIMIT)?;
    if !said.stdout.contains(refusal) {
        bail!("etcd should have refused a value ({refusal}): {said}");
    }
    said.stdout.lines().next().and_then(|count| count.parse().ok()).context("no number of keys")
}

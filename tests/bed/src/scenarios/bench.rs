//! `bench`: where it measures, and that it leaves nothing.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{check, failed};
use crate::host::Output;
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("bench/before-and-after", before_and_after),
        Scenario::new("bench/on-the-lun-and-without", |stage| {
            stage.migrate()?;
            killed(stage)?;
            stage.node.ok("cd /var/lib/etcd && fallocate -l $(($(df --output=avail -B1 . | tail -n 1) - 100000000)) filler")?;
            let declined = failed(&["/var/lib/etcd has 95", "122.1MiB wanted"]);
            check(&stage.agent("bench")?, declined)?;
            stage.node.ok("rm /var/lib/etcd/filler")?;
            stage.is_on_lun()?;
            stage.node.ok("systemctl stop etcd var-lib-etcd.mount")?;
            check(&stage.agent("bench /var/lib/etcd")?, failed(&["/var/lib/etcd", "immutable"]))?;
            // Without the LUN it's the local disk that etcd's directory is on.
            measured(&stage.agent("bench --writes 100 --json")?, &[("/var/lib", 100)]).map(drop)
        }),
    ]
}

/// The right disk, a warning beside etcd, no trace; and an etcd that never noticed.
fn before_and_after(stage: &mut Stage) -> Result<()> {
    stage.configure(&Wanted::default())?;
    let names = "find /var/lib -xdev -path /var/lib/etcd/member -prune -o -print | sort | md5sum";
    let before = stage.node.ok(names)?;
    let etcd: u64 = super::main_pid(stage)?.parse()?;
    let local = stage.agent("bench --writes 200 --json")?;
    let value = measured(&local, &[("/var/lib", 200)])?;
    let is_beside = value["bench"]["etcd_pids"]
        .as_array()
        .is_some_and(|all| all.iter().any(|pid| pid.as_u64() == Some(etcd)));
    if !is_beside || !local.stderr.contains("etcd is running") {
        bail!("it does not say that etcd ({etcd}) runs: {local}");
    }
    if stage.node.ok(names)? != before {
        bail!("something was left in /var/lib: {local}");
    }
    stage.is_untouched()?;
    stage.apply()?;
    measured(
        &stage.agent("bench --against /var/lib --writes 200 --json")?,
        &[("/var/lib/etcd", 200), ("/var/lib", 200)],
    )?;
    let page = stage.agent("bench --against /var/lib --writes 200")?;
    if !page.stdout.contains("/var/lib/etcd (xfs on /dev/sd") {
        bail!("the page does not name the LUN: {page}");
    }
    stage.is_on_lun()
}

/// Killed in the middle, on the LUN.
fn killed(stage: &Stage) -> Result<()> {
    let free = || -> Result<i64> { Ok(stage.node.ok(FREE)?.trim().parse()?) };
    let before = free()?;
    stage.node.ok(KILL)?;
    let lost = before - free()?;
    // etcd itself writes meanwhile.
    if lost > 16 << 20 {
        bail!("{lost} bytes of the LUN are still taken");
    }
    Ok(())
}

const FREE: &str = "sync -f /var/lib/etcd; df --output=avail -B1 /var/lib/etcd | tail -n 1";

const KILL: &str = "etcd-lun bench >/dev/null 2>&1 &
pid=$!
for n in $(seq 200); do ls -l /proc/$pid/fd 2>/dev/null | grep -q '/var/lib/etcd/.*(deleted)' && break; sleep 0.05; done
ls -l /proc/$pid/fd | grep -q '/var/lib/etcd/.*(deleted)' || { echo it never began >&2; exit 1; }
[ \"$(ls -A /var/lib/etcd)\" = member ] || { echo it has a name >&2; exit 1; }
kill -9 $pid
wait $pid
sleep 1";

/// It measured these directories, so often; and its exit code is what it found in the first.
fn measured(output: &Output, wanted: &[(&str, u64)]) -> Result<Value> {
    let value: Value = serde_json::from_str(&output.stdout).with_context(|| format!("no JSON: {output}"))?;
    let series = value["bench"]["series"].as_array().with_context(|| format!("no series: {output}"))?;
    let found: Vec<_> = series
        .iter()
        .map(|one| (one["path"].as_str().unwrap_or_default(), one["writes"].as_u64().unwrap_or(0)))
        .collect();
    if found != wanted {
        bail!("measured {found:?}, not {wanted:?}: {output}");
    }
    let code = if series.first().is_some_and(|one| one["verdict"] == "too-slow") { 4 } else { 0 };
    if output.code != code {
        bail!("expected exit code {code}: {output}");
    }
    Ok(value)
}

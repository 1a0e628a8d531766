//! `bench`: which disk it measures, and that it leaves no files.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{check, failed, unnamed};
use crate::host::Output;
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("bench/before-and-after", before_and_after),
        Scenario::new("bench/on-the-lun-and-without", |stage| {
            stage.migrate()?;
            killed(stage)?;
            stage.node.ok("cd /var/lib/etcd && fallocate -l $(($(df --output=avail -B1 . | tail -n 1) - 100000000)) filler")?;
            check(&stage.agent("bench")?, failed("bench-place", &["/var/lib/etcd", "95", "122.1MiB"]))?;
            stage.node.ok("rm /var/lib/etcd/filler")?;
            stage.is_on_lun()?;
            stage.node.ok("systemctl stop etcd var-lib-etcd.mount")?;
            check(&stage.agent("bench /var/lib/etcd")?, unnamed(&["/var/lib/etcd", "immutable"]))?;
            // Without the LUN, etcd's directory is on the local disk.
            measured(&stage.agent("bench --writes 100 --json")?, &[("/var/lib", 100)]).map(drop)
        }),
    ]
}

/// `bench` measures the right disk, warns about a running etcd, and leaves no files. etcd must not be
/// interrupted.
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
    if !is_beside {
        bail!("`bench` does not report that etcd ({etcd}) runs: {local}");
    }
    if stage.node.ok(names)? != before {
        bail!("`bench` left something in /var/lib: {local}");
    }
    stage.is_untouched()?;
    stage.apply()?;
    let value = measured(
        &stage.agent("bench --against /var/lib --writes 200 --json")?,
        &[("/var/lib/etcd", 200), ("/var/lib", 200)],
    )?;
    let of_lun = &value["bench"]["series"][0];
    if of_lun["filesystem"] != "xfs" || !of_lun["source"].as_str().is_some_and(|at| at.starts_with("/dev/sd"))
    {
        bail!("`bench` does not name the LUN: {of_lun}");
    }
    stage.is_on_lun()
}

/// Kills a run in the middle, on the LUN.
fn killed(stage: &Stage) -> Result<()> {
    let free = || -> Result<i64> { Ok(stage.node.ok(FREE)?.trim().parse()?) };
    let before = free()?;
    stage.node.ok(KILL)?;
    let lost = before - free()?;
    // etcd itself also writes meanwhile.
    if lost > 16 << 20 {
        bail!("{lost} bytes of the LUN were not freed");
    }
    Ok(())
}

const FREE: &str = "sync -f /var/lib/etcd; df --output=avail -B1 /var/lib/etcd | tail -n 1";

const KILL: &str = "etcd-lun bench >/dev/null 2>&1 &
pid=$!
for n in $(seq 200); do ls -l /proc/$pid/fd 2>/dev/null | grep -q '/var/lib/etcd/.*(deleted)' && break; sleep 0.05; done
ls -l /proc/$pid/fd | grep -q '/var/lib/etcd/.*(deleted)' || { echo bench never began >&2; exit 1; }
[ \"$(ls -A /var/lib/etcd)\" = member ] || { echo the file of bench has a name >&2; exit 1; }
kill -9 $pid
wait $pid
sleep 1";

/// Checks that `bench` measured these directories, each with so many writes. The exit code follows from the
/// first directory.
pub(super) fn measured(output: &Output, wanted: &[(&str, u64)]) -> Result<Value> {
    let value = verbs::parsed(output)?;
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

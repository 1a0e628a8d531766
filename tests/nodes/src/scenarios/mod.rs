//! The scenarios, by subject.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::host::Output;
use crate::scene::Wanted;
use crate::stage::{ETCD_STATE, Stage};
use crate::suite::Scenario;
use crate::target::fingerprint;
use crate::tour;
use declined::{
    Declined, carries, check, check_one_of, failed, has, is_said, refused, unhealthy, unnamed, warns,
};

mod array;
mod before_stop;
mod bench;
mod beside;
pub mod boot;
mod cluster;
mod copy;
pub mod cuts;
mod declined;
mod delivered;
mod device;
mod exposure;
mod fabric;
mod faults;
mod former;
mod full;
pub mod health;
mod held;
mod lio;
mod login;
pub mod lost;
mod lun;
mod migrate;
mod moment;
pub mod paths;
pub mod pod;
mod restored;
mod rollback;
mod secret;
mod selinux;
mod storage;
mod terminal;
mod tools;
mod update;

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [
        // Scenarios that take minutes come first, so that all lanes end at about the same time.
        boot::scenarios(),
        delivered::scenarios(),
        update::scenarios(),
        selinux::scenarios(),
        cuts::scenarios(),
        beside::scenarios(),
        cluster::scenarios(),
        device::scenarios(),
        fabric::scenarios(),
        exposure::scenarios(),
        restored::scenarios(),
        lio::scenarios(),
        paths::scenarios(),
        faults::scenarios(),
        former::scenarios(),
        health::scenarios(),
        storage::scenarios(),
        array::scenarios(),
        rollback::scenarios(),
        before_stop::scenarios(),
        pod::scenarios(),
        terminal::scenarios(),
        secret::scenarios(),
        migrate::scenarios(),
        moment::scenarios(),
        copy::scenarios(),
        bench::scenarios(),
        login::scenarios(),
        lun::scenarios(),
        tools::scenarios(),
        vec![Scenario::new("tour/as-the-page-says", tour::check)],
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Plays cases one after the other on one node, because each case leaves the node unchanged. Reports all that
/// failed.
fn each<C>(cases: impl IntoIterator<Item = C>, play: impl FnMut(C) -> Result<()>) -> Result<()> {
    let failed = cases.into_iter().map(play).filter_map(Result::err);
    let told: Vec<String> = failed.map(|error| format!("{error:#}")).collect();
    if told.is_empty() { Ok(()) } else { bail!("{}", told.join("\n")) }
}

/// Checks that `apply` declines with this config, changes no byte of any LUN, and never interrupts etcd.
fn declines(stage: &Stage, wanted: &Wanted, how: Declined) -> Result<()> {
    stage.configure(wanted)?;
    declines_command(stage, "etcd-lun apply", how)?;
    lets_go(stage)
}

/// A run that has not mounted the LUN leaves no session of ours.
fn lets_go(stage: &Stage) -> Result<()> {
    let ours = stage.node.run("grep -rsx etcd-lun /sys/class/iscsi_session/session*/ifacename")?;
    if ours.code == 0 { bail!("the run has left its session: {ours}") } else { Ok(()) }
}

/// Checks the same for a whole command line. Returns what it has printed.
fn declines_command(stage: &Stage, command: &str, how: Declined) -> Result<Output> {
    let content = || -> Result<Vec<String>> {
        stage.target.offered().luns.iter().map(|lun| fingerprint(&lun.file)).collect()
    };
    let before = content()?;
    // The exit code must be the command's. So the state of etcd is printed before it, on a line of its own.
    let mut output = stage.node.run_within(&format!("{ETCD_STATE}; {command}"), crate::scene::LIMIT)?;
    let (etcd, rest) = output.stdout.split_once('\n').unwrap_or_default();
    let etcd = etcd.to_string();
    output.stdout = rest.to_string();
    check(&output, how)?;
    if content()? != before {
        bail!("a run that declined wrote to a LUN: {output}");
    }
    let seen = stage.is_untouched()?;
    if seen.etcd != etcd {
        bail!("a run that declined interrupted etcd ({etcd} before, {} after): {output}", seen.etcd);
    }
    Ok(output)
}

/// The process number of etcd's unit.
fn main_pid(stage: &Stage) -> Result<String> {
    stage.node.ok("systemctl show --property MainPID --value etcd.service")
}

/// Writes into a LUN's backing file, outside the node.
fn scribble(lun: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
    let file = File::options().write(true).open(lun).context("cannot open the LUN's file")?;
    file.write_all_at(bytes, offset)?;
    Ok(())
}

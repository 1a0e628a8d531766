//! The move itself, a later boot with the disk, and a later boot without it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::boot;
use super::client::Watch;
use super::rig::{Rig, copy};
use super::seen::{Place, Seen};
use super::table::Table;
use super::times::Times;
use super::way::Way;
use nodes::scene;

/// How long etcd does not answer during plain reboots of the node.
pub fn baseline(rig: &mut Rig, times: usize) -> Result<Times> {
    rig.fresh(Way::ByHand, None)?;
    Times::measure(times, || {
        let (took, _) = reboots(rig)?;
        rig.settle()?;
        Ok(took)
    })
}

/// Moves a node's etcd and measures how long it does not answer.
pub fn play(rig: &mut Rig, way: Way, table: &mut Table, plain: &Times, times: usize) -> Result<()> {
    if way == Way::Ours {
        let took = Times::measure(times, || {
            rig.fresh(way, None)?;
            by_hand(rig, way)
        })?;
        table.put(ON_A_RUNNING_NODE, way, took.beside(plain));
    }
    let took = Times::measure(times, || moves(rig, way))?;
    let row = if way == Way::ByHand { ON_A_RUNNING_NODE } else { AT_A_REBOOT };
    table.put(row, way, took.beside(plain));
    keep(rig, way)
}

/// Boots a node whose etcd was moved and has written since: first with its disk, then without.
pub fn later(rig: &mut Rig, way: Way, table: &mut Table, plain: &Times, times: usize) -> Result<()> {
    if rig.moved != Some(way) {
        moves(rig, way)?;
        keep(rig, way)?;
    }
    let acknowledged = rig.write(way, 0)?;
    let (took, mut logs_in) = reboots(rig)?;
    let mut all = vec![took];
    while logs_in && all.len() < times {
        rig.settle()?;
        let (took, logged_in) = reboots(rig)?;
        all.push(took);
        logs_in = logged_in;
    }
    if logs_in {
        rig.settle()?;
    }
    let seen = rig.look(logs_in, &acknowledged)?;
    if matches!(seen, Seen::Serves(_)) {
        table.put(AT_A_LATER_BOOT, way, Times::of(all)?.beside(plain));
    }
    if way == Way::Ours {
        println!("{}", boot::account(&rig.stage.node)?);
    }
    if way == Way::Ours && !seen.is_whole_at(Place::New) {
        bail!("after a later boot, etcd must serve everything from the LUN: {seen}");
    }
    table.put("A later boot with the disk", way, seen.to_string());

    rig.stage.node.power_off()?;
    rig.take_away(way);
    let logs_in = rig.boot()?;
    let seen = rig.look(logs_in, &acknowledged)?;
    if way == Way::Ours && !matches!(seen, Seen::Down(..)) {
        bail!("without its LUN, etcd must stay down: {seen}");
    }
    table.put("A later boot without the disk", way, seen.to_string());
    Ok(())
}

const AT_A_REBOOT: &str = "The member is down for the move, at a reboot";
const AT_A_LATER_BOOT: &str = "The member is down for a later boot";
const ON_A_RUNNING_NODE: &str = "The member is down for the move, on a running node";

/// Reboots the node. Returns how long etcd did not answer, and whether ssh works then.
fn reboots(rig: &mut Rig) -> Result<(Duration, bool)> {
    let watch = Watch::begin(rig.client.namespace());
    let logs_in = rig.reboot()?;
    // If etcd stays down, the watch has no second answer, or the caller looks for the cause.
    rig.answers().ok();
    Ok((watch.end()?, logs_in))
}

/// The way's disk after a move, with the data of the plain node's etcd. Makes the move now if no earlier run
/// made it.
pub fn kept(rig: &mut Rig, way: Way) -> Result<PathBuf> {
    let file = kept_file(rig, way);
    if !file.exists() {
        moves(rig, way)?;
        keep(rig, way)?;
    }
    Ok(file)
}

fn kept_file(rig: &Rig, way: Way) -> PathBuf {
    rig.file(way).with_extension(if way == Way::Ours { "kept-ours" } else { "kept" })
}

/// Keeps a copy of the disk. The node freezes the filesystem meanwhile.
fn keep(rig: &mut Rig, way: Way) -> Result<()> {
    rig.stage.node.ok("fsfreeze --freeze /var/lib/etcd")?;
    let copied = copy(&rig.file(way), &kept_file(rig, way));
    rig.stage.node.ok("fsfreeze --unfreeze /var/lib/etcd")?;
    rig.moved = Some(way);
    copied
}

/// Moves the plain node's etcd to a blank disk. Returns how long etcd did not answer.
fn moves(rig: &mut Rig, way: Way) -> Result<Duration> {
    rig.fresh(way, None)?;
    if way == Way::ByHand {
        return by_hand(rig, way);
    }
    rig.deliver(way)?;
    let watch = Watch::begin(rig.client.namespace());
    let logs_in = rig.reboot()?;
    is_moved(rig, logs_in)?;
    let took = watch.end()?;
    if way == Way::Ours {
        println!("{}", boot::account(&rig.stage.node)?);
    }
    Ok(took)
}

/// Moves etcd with commands on the running node. Returns how long etcd did not answer.
fn by_hand(rig: &mut Rig, way: Way) -> Result<Duration> {
    let command = if way == Way::Ours {
        rig.deliver(way)?;
        "etcd-lun apply".to_string()
    } else {
        let device = rig.attach()?;
        let output = rig.format(&device)?;
        if output.code != 0 {
            bail!("mkfs.xfs failed on a blank LUN: {output}");
        }
        format!("/root/move {device}")
    };
    let watch = Watch::begin(rig.client.namespace());
    // The watch needs at least one answer before the move begins.
    rig.answers()?;
    let output = rig.stage.node.run_within(&command, scene::LIMIT)?;
    if output.code != 0 {
        bail!("`{command}` failed: {output}");
    }
    is_moved(rig, true)?;
    watch.end()
}

fn is_moved(rig: &Rig, logs_in: bool) -> Result<()> {
    let seen = rig.look(logs_in, &[])?;
    if !seen.is_whole_at(Place::New) {
        bail!("after the move, etcd must serve everything from the new disk: {seen}");
    }
    Ok(())
}

//! The power goes in the middle of the copy, and the node boots.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::rig::Rig;
use super::seen::Seen;
use super::table::Table;
use super::way::Way;
use crate::host;

/// To the second disk, so that a copy of this small database lasts as long as that of one of some GB. XFS writes its log every
/// half a minute, so a copy that is over sooner leaves nothing after a cut.
const SLOW: u64 = 1_000_000;
/// How far into it the second disk's copy is cut.
const INTO_THE_COPY: Duration = Duration::from_secs(45);
/// The same of a copy to a slow LUN, which is over earlier.
const INTO_A_SHORT_COPY: Duration = Duration::from_secs(2);

/// The copy's unit, as much of its name as the console shows.
const SYNC: &str = "sync-var-lib-etcd";

/// Writes, cuts, boots, and counts.
pub fn play(rig: &mut Rig, way: Way, table: &mut Table) -> Result<()> {
    rig.fresh(way, None)?;
    let acknowledged = rig.write(way, 2)?;
    let into = match way {
        Way::Ours => ours(rig)?,
        Way::SecondDisk => second_disk(rig)?,
        Way::ByHand => by_hand(rig)?,
    };
    rig.stage.node.power_cut();
    let logs_in = rig.boot()?;
    let seen = rig.look(logs_in, &acknowledged)?;
    if way == Way::Ours && !matches!(seen, Seen::Serves(serving) if serving.is_whole()) {
        bail!("after a power cut in the copy: {seen}");
    }
    let mut cell = format!("{seen} (cut {:.0} s into the copy)", into.as_secs_f32());
    if way == Way::ByHand && matches!(seen, Seen::Down(..)) {
        let parked =
            rig.stage.node.run("ls /root/etcd-pod.yaml && ! ls /etc/kubernetes/manifests/etcd-pod.yaml")?;
        if parked.code != 0 {
            bail!(
                "etcd is down after the cut, and its manifest isn't where the runbook had put it: {parked}"
            );
        }
        cell += "; its manifest is where the runbook had put it, and a person has to put it back";
    }
    table.put("A power cut in the middle of the copy, then a boot", way, cell);
    Ok(())
}

/// At the boot at which it migrates.
fn ours(rig: &mut Rig) -> Result<Duration> {
    rig.deliver(Way::Ours)?;
    rig.stage.node.power_off()?;
    let _slow = rig.stage.target.slow_down()?;
    if !rig.boot()? {
        bail!("the boot ended in emergency mode");
    }
    copying(rig)
}

/// A running rsync, seen twice.
fn copying(rig: &Rig) -> Result<Duration> {
    let runs = || Ok((rig.stage.node.run("pgrep -x rsync >/dev/null")?.code == 0).then_some(()));
    host::poll(Duration::from_secs(120), Duration::from_millis(100), runs)?.context("no rsync was seen")?;
    let begun = Instant::now();
    std::thread::sleep(INTO_A_SHORT_COPY);
    runs()?.context("the copy was over before it could be cut")?;
    Ok(begun.elapsed())
}

/// At the boot after the object came; the console says what it has come to.
fn second_disk(rig: &mut Rig) -> Result<Duration> {
    rig.deliver(Way::SecondDisk)?;
    rig.stage.node.power_off()?;
    if !rig.stage.node.power_on_until(Some(SYNC))? {
        bail!("the console doesn't show the copy's unit");
    }
    let begun = Instant::now();
    rig.slow_second_disk(SLOW)?;
    std::thread::sleep(INTO_THE_COPY);
    let console = rig.stage.node.vm().serial();
    if console
        .lines()
        .any(|line| line.contains(SYNC) && (line.contains("Finished") || line.contains("Failed")))
    {
        bail!("the copy was over before it could be cut");
    }
    Ok(begun.elapsed())
}

/// In the runbook's last part.
fn by_hand(rig: &mut Rig) -> Result<Duration> {
    let device = rig.attach()?;
    let output = rig.format(&device)?;
    if output.code != 0 {
        bail!("mkfs.xfs on a blank LUN: {output}");
    }
    let _slow = rig.stage.target.slow_down()?;
    rig.stage.node.ok(&format!("setsid /root/move {device} >/run/move.out 2>&1 </dev/null &"))?;
    copying(rig)
}

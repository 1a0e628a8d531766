//! The power is cut in the middle of the copy, and the node boots.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::rig::Rig;
use super::seen::Seen;
use super::table::Table;
use super::way::Way;
use nodes::host;

/// The write limit of the second disk, in bytes per second. With it, the copy of this small database takes as
/// long as a copy of some GB. XFS writes its log every 30 s, so a shorter copy leaves nothing after a cut.
const SLOW: u64 = 1_000_000;
/// When the copy to the second disk is cut, after its start.
const INTO_THE_COPY: Duration = Duration::from_secs(45);
/// When a copy to a slow LUN is cut, after its start. That copy ends earlier.
const INTO_A_SHORT_COPY: Duration = Duration::from_secs(2);

/// The beginning of the name of the copy's unit. The console shows no more of it.
const SYNC: &str = "sync-var-lib-etcd";

/// Writes keys, moves etcd, cuts the power in the copy, boots the node, and counts what is lost.
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
        bail!("after a power cut in the copy, etcd-lun must lose nothing: {seen}");
    }
    let mut cell = format!("{seen} (cut {:.0} s into the copy)", into.as_secs_f32());
    if way == Way::ByHand && matches!(seen, Seen::Down(..)) {
        let parked =
            rig.stage.node.run("ls /root/etcd-pod.yaml && ! ls /etc/kubernetes/manifests/etcd-pod.yaml")?;
        if parked.code != 0 {
            bail!("etcd is down after the cut, and its manifest is not where the runbook puts it: {parked}");
        }
        cell += "; its manifest is where the runbook put it, and an administrator must move it back";
    }
    table.put("A power cut in the middle of the copy, then a boot", way, cell);
    Ok(())
}

/// Cuts etcd-lun's copy, at the boot that migrates.
fn ours(rig: &mut Rig) -> Result<Duration> {
    rig.deliver(Way::Ours)?;
    rig.stage.node.power_off()?;
    let _slow = rig.stage.target.slow_down()?;
    if !rig.boot()? {
        bail!("the boot ended in emergency mode");
    }
    copying(rig, OURS)
}

/// etcd-lun copies at a boot, with etcd stopped: its service shows the step that it is in.
const OURS: &str = "grep -q '\"step\":\"[^\"]*] copy ' /run/etcd-lun/run";
/// The runbook's rsync runs.
const RSYNC: &str = "pgrep -x rsync >/dev/null";

/// Waits until the copy runs, and checks that it still runs a little later. Returns how long it has run.
fn copying(rig: &Rig, copies: &str) -> Result<Duration> {
    let runs = || Ok((rig.stage.node.run(copies)?.code == 0).then_some(()));
    host::poll(Duration::from_secs(120), Duration::from_millis(100), runs)?.context("no copy was seen")?;
    let begun = Instant::now();
    std::thread::sleep(INTO_A_SHORT_COPY);
    runs()?.context("the copy was over before it could be cut")?;
    Ok(begun.elapsed())
}

/// Cuts the second disk's copy, at the boot after the object was delivered. The console shows when the copy
/// starts.
fn second_disk(rig: &mut Rig) -> Result<Duration> {
    rig.deliver(Way::SecondDisk)?;
    rig.stage.node.power_off()?;
    if !rig.stage.node.power_on_until(Some(SYNC))? {
        bail!("the console does not show the copy's unit");
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

/// Cuts the copy by hand, in the last part of the runbook.
fn by_hand(rig: &mut Rig) -> Result<Duration> {
    let device = rig.attach()?;
    let output = rig.format(&device)?;
    if output.code != 0 {
        bail!("mkfs.xfs failed on a blank LUN: {output}");
    }
    let _slow = rig.stage.target.slow_down()?;
    rig.stage.node.ok(&format!("setsid /root/move {device} >/run/move.out 2>&1 </dev/null &"))?;
    copying(rig, RSYNC)
}

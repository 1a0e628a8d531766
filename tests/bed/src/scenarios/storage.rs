//! What happens to a LUN in the years of its use: it grows, is made smaller by mistake, and its target falls silent.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{check, main_pid, refused};
use crate::host;
use crate::scene::LUN_SIZE;
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("storage/size", size), Scenario::new("storage/silent", silent)]
}

const DISK: &str = "D=$(basename $(findmnt -no SOURCE /var/lib/etcd))";

/// Gives the LUN another size. tgtd reads it when it starts; etcd's writes wait meanwhile.
fn resize(stage: &mut Stage, bytes: u64) -> Result<()> {
    let file = File::options().write(true).open(stage.lun()).context("cannot open the LUN's file")?;
    file.set_len(bytes)?;
    stage.target.restart()?;
    stage.wait_until("grep -q LOGGED_IN /sys/class/iscsi_session/session*/state")
}

/// The LUN grows while etcd runs, and is then made smaller than its filesystem.
fn size(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    let before = main_pid(stage)?;
    resize(stage, 2 * LUN_SIZE)?;
    // What a kernel does that knows the target's announcement. tgtd makes none.
    stage.node.ok(&format!("{DISK}; echo 1 >/sys/block/$D/device/rescan"))?;
    let health = stage.agent("health")?;
    if !health.stdout.contains("run `etcd-lun apply`, which grows it while etcd runs") {
        bail!("health does not name the difference: {health}");
    }
    let plan = stage.agent("plan")?;
    if !plan.stdout.contains("grow the filesystem on /var/lib/etcd from") {
        bail!("nothing is planned: {plan}");
    }
    let output = stage.apply()?;
    let size = stage.node.ok("df --output=size -B1 /var/lib/etcd | tail -n 1")?;
    if size.trim().parse::<u64>()? < LUN_SIZE * 19 / 10 {
        bail!("the filesystem has {size} bytes: {output}");
    }
    stage.is_on_lun()?;
    let plan = stage.agent("plan")?;
    if plan.code != 0 || plan.stdout.contains("grow") {
        bail!("apply left something to do: {plan}");
    }
    if main_pid(stage)? != before {
        bail!("etcd was restarted");
    }
    resize(stage, LUN_SIZE)?;
    check(&stage.agent("apply")?, refused(&["it was made smaller", "1GiB"]))?;
    resize(stage, 2 * LUN_SIZE)?;
    let output = stage.agent("apply")?;
    if output.code != 0 || main_pid(stage)? != before {
        bail!("the size is right again: {output}");
    }
    Ok(())
}

/// The target stops answering. What a person runs ends all the same, before and after the initiator notices.
fn silent(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    in_time(stage, caught)?;
    // The etcd of a cluster always writes. Before the initiator notices, only a write that waits shows the silence.
    stage.node.ok("systemd-run --quiet --unit=writer sh -c 'while :; do etcdctl put storage/silent yes; sleep 0.2; done'")?;
    in_time(stage, |stage| {
        std::thread::sleep(Duration::from_secs(1));
        look(stage, &["mark", "status", "plan"])?;
        stage.wait_until("! grep -q LOGGED_IN /sys/class/iscsi_session/session*/state")?;
        look(stage, &["mark", "status", "plan", "health", "apply"])
    })?;
    stage.node.ok("systemctl stop writer.service")?;
    // The interrupted count has come to its end.
    let counted = "systemctl show --property ExecMainStatus,SubState caught.service | xargs";
    match stage.node.ok(counted)?.as_str() {
        "ExecMainStatus=0 SubState=exited" => Ok(()),
        other => bail!("`mark` should have ended well when the target was back: {other}"),
    }
}

/// Plays with a target that has stopped answering, and lets it answer again, whatever came of it. etcd then serves.
fn in_time(stage: &mut Stage, play: impl FnOnce(&Stage) -> Result<()>) -> Result<()> {
    stage.target.freeze()?;
    let played = play(stage);
    stage.target.thaw()?;
    played?;
    stage.wait_until("grep -q LOGGED_IN /sys/class/iscsi_session/session*/state")?;
    let serves = host::poll(Duration::from_secs(120), Duration::from_secs(1), || Ok(stage.is_on_lun().ok()))?;
    serves.context("etcd does not serve again")
}

/// `mark` writes to the LUN just when the target has stopped answering: nothing showed that before. It waits until the
/// target is back, and keeps nothing else from running.
fn caught(stage: &Stage) -> Result<()> {
    // In the node's background, and out of ssh's reach, which would wait for it.
    stage.node.ok("systemd-run --quiet --unit=caught --remain-after-exit etcd-lun mark")?;
    stage
        .wait_until(
            "grep -q '^State:.D' /proc/$(systemctl show --property MainPID --value caught.service)/status",
        )
        .context("`mark` does not wait for the LUN")?;
    look(stage, &["status", "plan", "health", "apply"])?;
    let second = stage.node.run("timeout --signal=KILL 60 etcd-lun mark")?;
    if second.code == 137 {
        bail!("a second mark hangs: {second}");
    }
    println!("        meanwhile a second mark: {}", second.both().lines().last().unwrap_or_default());
    Ok(())
}

/// Runs what sends nothing to the LUN, `mark`, which leaves it alone, and `apply`. Each ends within its limit.
fn look(stage: &Stage, verbs: &[&str]) -> Result<()> {
    for &verb in verbs {
        // `apply` waits two minutes for the member to serve. An emulated node needs seconds for the others.
        let limit = Duration::from_secs(if verb == "apply" { 150 } else { 60 });
        let begun = Instant::now();
        let output = stage.node.run_within(
            &format!("timeout --signal=KILL {} etcd-lun {verb}; echo ended with $?", limit.as_secs()),
            limit * 2,
        )?;
        if output.stdout.contains("ended with 137") {
            bail!("{verb} does not end within {} s: {output}", limit.as_secs());
        }
        let ended = output.stdout.lines().last().unwrap_or_default();
        println!("        {verb} {ended} after {:.1} s", begun.elapsed().as_secs_f64());
        if verb == "mark" && !output.stdout.contains("The use counter stays as it is") {
            bail!("{verb} wrote to a LUN that does not answer: {output}");
        }
    }
    Ok(())
}

//! What happens to a LUN in the years of its use: it grows, is made smaller by mistake, and its target falls silent.

use std::fs::File;
use std::time::Duration;

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
    // The etcd of a cluster always writes. Before the initiator notices, only a write that waits shows the silence.
    stage.node.ok("systemd-run --quiet --unit=writer sh -c 'while :; do etcdctl put storage/silent yes; sleep 0.2; done'")?;
    stage.target.freeze()?;
    std::thread::sleep(Duration::from_secs(1));
    let looked = look(stage, &["mark", "status", "plan"]).and_then(|()| {
        stage.wait_until("! grep -q LOGGED_IN /sys/class/iscsi_session/session*/state")?;
        look(stage, &["mark", "status", "plan", "health", "apply"])
    });
    stage.target.thaw()?;
    looked?;
    stage.node.ok("systemctl stop writer.service")?;
    stage.wait_until("grep -q LOGGED_IN /sys/class/iscsi_session/session*/state")?;
    let serves = host::poll(Duration::from_secs(120), Duration::from_secs(1), || Ok(stage.is_on_lun().ok()))?;
    serves.context("etcd does not serve again")
}

/// Runs what sends nothing to the LUN, `mark`, which leaves it alone, and `apply`.
fn look(stage: &Stage, verbs: &[&str]) -> Result<()> {
    for &verb in verbs {
        // `apply` waits two minutes for the member to serve.
        let command = format!("timeout --signal=KILL 240 etcd-lun {verb}; echo ended with $?");
        let output = stage.node.run_within(&command, Duration::from_secs(300))?;
        if output.stdout.contains("ended with 137") {
            bail!("{verb} hangs: {output}");
        }
        println!("{verb}: {}", output.stdout.lines().last().unwrap_or_default());
        if verb == "mark" && !output.stdout.contains("The use counter stays as it is") {
            bail!("{verb} wrote to a LUN that does not answer: {output}");
        }
    }
    Ok(())
}

//! Runs by hand that lose their terminal or their pod, runs that others follow, and a debug pod that keeps the
//! LUN mounted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::held::{self, RELEASE};
use super::{check, failed, has, pod};
use crate::host::Output;
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("terminal/closed-at-each-step", closed_at_each_step),
        Scenario::new("terminal/followed", followed),
        Scenario::new("terminal/interrupted-and-killed", interrupted_and_killed),
        Scenario::new("terminal/debug-pod-keeps-the-lun-mounted", pod_keeps_mount),
    ]
}

const DEBUG_POD: &[u8] = include_bytes!("../../guest/debug-pod");

/// The steps at which the suite ends terminal and pod. `ETCD_LUN_BED_STEPS=all` is every step.
const STEPS: [usize; 2] = [1, 9];

/// No run has as many steps.
const MOST: usize = 40;

/// Migrates and rolls back in turns. In each run the terminal or the whole pod ends at another step. The run must
/// come to its end alone, and etcd must have all its keys there.
fn closed_at_each_step(stage: &mut Stage) -> Result<()> {
    stage.configure(&Wanted::default())?;
    stage.node.put("/run/debug-pod", 0o700, DEBUG_POD)?;
    let all = std::env::var("ETCD_LUN_BED_STEPS").is_ok_and(|steps| steps == "all");
    let steps: Vec<usize> = (1..MOST).filter(|step| all || STEPS.contains(step)).collect();
    for (number, step) in steps.into_iter().enumerate() {
        // By turns, so that every kind of end meets both directions.
        let (first, second) = if number % 2 == 0 { ("kill", "hangup") } else { ("hangup", "kill") };
        let applied = ends_alone(stage, first, step, "apply")?;
        stage.is_on_lun()?;
        let back = ends_alone(stage, second, step, "rollback")?;
        stage.is_untouched()?;
        stage.node.ok("rm -rf /var/lib/etcd-lun/retired/*")?;
        if !applied && !back {
            return Ok(());
        }
    }
    if all { bail!("a run has {MOST} steps or more") } else { Ok(()) }
}

/// Ends terminal or pod at a step, and waits for the run's own end. Returns false if the run has fewer steps.
fn ends_alone(stage: &Stage, how: &str, step: usize, verb: &str) -> Result<bool> {
    let begun = Instant::now();
    let command = format!("python3 /run/debug-pod {how} {step} /usr/local/bin/etcd-lun {verb}");
    let output = stage.node.run_within(&command, scene::LIMIT)?;
    let reached = match output.code {
        0 => true,
        3 => false,
        _ => bail!("the debug pod failed: {output}"),
    };
    if step == 1 && !has(&output.stdout, "journalctl -t etcd-lun -f") {
        bail!("`{verb}` does not say how to follow it without its terminal: {output}");
    }
    // The lock is free when the run has ended.
    stage.node.run_within("flock /run/etcd-lun/lock true", scene::LIMIT)?;
    let state = stage.node.read("/run/etcd-lun/run")?;
    let state: serde_json::Value = serde_json::from_str(&state)?;
    let at = state["step"].as_str().unwrap_or_default();
    if state["verb"] != verb || state["result"]["code"] != 0 {
        bail!("`{verb}` did not come to its end after {how} at step {step}: {state}");
    }
    let last = state["result"]["text"].as_str().unwrap_or_default();
    if !stage.node.ok("journalctl --sync; journalctl -b -t etcd-lun -o cat -n 1")?.contains(last) {
        bail!("the journal does not end with what `{verb}` said last: {last}");
    }
    println!(
        "        {verb}, {how} at step {step}{}: ended alone after {:.0} s, {at}",
        if reached { "" } else { " (not reached)" },
        begun.elapsed().as_secs_f32()
    );
    Ok(reached)
}

fn ok(output: &Output) -> Result<()> {
    if output.code == 0 { Ok(()) } else { bail!("the run should have succeeded: {output}") }
}

/// The number of the step in a line such as `[9/14+] copy …`.
fn number(line: &str) -> Option<usize> {
    line.strip_prefix('[')?.split_once('/')?.0.parse().ok()
}

/// One run, and others that follow it, do not follow it, are interrupted while they follow it, or cannot read what
/// it does.
fn followed(stage: &mut Stage) -> Result<()> {
    stage.configure(&Wanted::default())?;
    let (run, follower) = held::at_the_last_copy(stage, "apply", scene::LIMIT, || {
        let scope = stage.node.ok("cat /proc/$(pgrep -x etcd-lun)/cgroup")?;
        if !scope.ends_with("/system.slice/etcd-lun-apply.scope") {
            bail!("the run is not in its scope: {scope}");
        }
        // What runs, and the step that it is at: also for somebody who only looks.
        stage.node.ok("etcd-lun status | grep 'last run  *UNDER WAY.*`etcd-lun apply`, \\[[0-9]'")?;
        let not_followed = failed("another-run", &["etcd-lun apply", "/var/lib/etcd"]);
        check(&stage.agent("rollback --no-follow")?, not_followed)?;
        let interrupted = stage.node.run("timeout --preserve-status -s INT 4 etcd-lun apply")?;
        check(&interrupted, failed("following-ended", &["etcd-lun apply"]))?;
        stage.node.ok("cp /run/etcd-lun/run /run/kept; echo garbage >/run/etcd-lun/run")?;
        check(&stage.agent("apply")?, failed("another-run", &["/run/etcd-lun/run"]))?;
        stage.node.ok("sed 's/\"version\":1/\"version\":7/' /run/kept >/run/etcd-lun/run")?;
        check(&stage.agent("apply")?, failed("another-run", &["/run/etcd-lun/run", "7"]))?;
        stage.node.ok(&format!(
            "cp /run/kept /run/etcd-lun/run; pgrep -x etcd-lun; (sleep 3; {RELEASE}) >/dev/null 2>&1 &"
        ))?;
        let mut follower = stage.node.run_within("etcd-lun apply --json", scene::LIMIT)?;
        follower.stderr.push('\n');
        Ok(follower)
    })?;
    ok(&run)?;
    let held_at: serde_json::Value = serde_json::from_str(&stage.node.read("/run/kept")?)?;
    let held_at = held_at["step"].as_str().and_then(number).context("the run was held at no step")?;
    // Somebody holds the lock and says to have rolled back. Nobody has.
    let before = stage.node.ok("cat /var/lib/etcd-lun/authority.json")?;
    stage.node.ok(FORGED)?;
    let rollback = stage.node.run_within("etcd-lun rollback --json", scene::LIMIT)?;
    ok(&rollback)?;
    if !rollback.stderr.contains(FORGED_RESULT) || verbs::parsed(&rollback)?["rollback"]["steps"] == 0 {
        bail!("the run should show the forged result, and then look at the node itself: {rollback}");
    }
    stage.is_untouched()?;
    if stage.node.ok("cat /var/lib/etcd-lun/authority.json")? == before {
        bail!("a forged result was believed: {rollback}");
    }
    stage.apply()?;
    ok(&follower)?;
    let value = verbs::parsed(&follower)?;
    if value["version"] != 1 || value["apply"]["steps"] != 0 {
        bail!("the follower's JSON is not that of its own look: {follower}");
    }
    // A slow copy says how far it is, in a line that ends so.
    let begun = follower.stderr.lines().filter(|line| !line.ends_with(" %"));
    let shown: Vec<usize> = begun.filter_map(number).collect();
    if shown.is_empty() || shown.iter().any(|step| *step <= held_at) {
        bail!("the follower should show the steps from {held_at} on, and it shows {shown:?}: {follower}");
    }
    stage.is_on_lun()
}

const FORGED_RESULT: &str = "etcd runs from the local disk. The rollback is finished.";

/// Holds the lock for ten seconds and says at the end that a rollback has succeeded, as code in the service's domain could.
const FORGED: &str = r#"cat >/run/forge <<'END'
exec 9>>/run/etcd-lun/lock
flock 9 || exit 1
say() {
    echo '{"version":1,"verb":"rollback","pid":'$$',"begun":1,"step":"","lines":[],"result":'"$1"'}' >/run/etcd-lun/new
    mv /run/etcd-lun/new /run/etcd-lun/run
}
say null
sleep 8
say '{"code":0,"text":"etcd runs from the local disk. The rollback is finished.","json":{}}'
sleep 2
END
bash /run/forge >/dev/null 2>&1 &
sleep 1"#;

/// Ctrl-C and SIGKILL to a run, and what its follower says.
fn interrupted_and_killed(stage: &mut Stage) -> Result<()> {
    stage.configure(&Wanted::default())?;
    for signal in ["INT", "KILL"] {
        let pid = "$(cat /run/the-pid)";
        let (run, follower) = held::at_the_last_copy(stage, "apply", scene::LIMIT, || {
            stage.node.ok(&format!(
                "pgrep -x etcd-lun >/run/the-pid; (sleep 4; kill -{signal} {pid}; {RELEASE}) >/dev/null 2>&1 &"
            ))?;
            stage.node.run_within("etcd-lun apply", scene::LIMIT)
        })?;
        if signal == "INT" {
            let interrupted = failed("interrupted", &[]);
            check(&run, interrupted)?;
            check(&follower, interrupted)?;
            stage.is_untouched()?;
        } else {
            check(&follower, failed("run-killed", &["etcd-lun apply"]))?;
            let scope = stage.node.ok("systemctl show -p ActiveState --value etcd-lun-apply.scope")?;
            println!("        after SIGKILL the scope is {scope}");
        }
    }
    // The next run finds etcd stopped by the killed run, and goes on.
    stage.apply()?;
    stage.is_on_lun()
}

/// Longer than the end and the start of OpenShift's pod in an emulated node.
const LONG: Duration = Duration::from_secs(900);

/// A pod that is open while the LUN is mounted, and stays open.
const OPEN_POD: &str = "setsid unshare --mount --propagation private sh -c '
mkdir -p /run/pod && mount -t tmpfs pod /run/pod && mkdir /run/pod/host && mount --rbind / /run/pod/host && mount --make-rprivate /run/pod
cd \"$0\"; touch /run/pod/host/run/pod-is-open; exec chroot /run/pod/host sh -c \"cd $0; exec sleep 1000\"' ";

fn pod_keeps_mount(stage: &mut Stage) -> Result<()> {
    pod::hand_over(stage)?;
    stage.apply()?;
    stage.node.ok("etcdctl put /between/pod yes")?;
    rolls_back_beside_a_debug_pod(stage)?;
    pod::serves(stage)?;
    stage.has_kept("/between/pod")?;
    if stage.node.run("findmnt --mountpoint /var/lib/etcd")?.code == 0 {
        bail!("the LUN is mounted");
    }
    Ok(())
}

/// A rollback, and a debug pod that is opened after its preflight. The pod's view of the LUN must go.
fn rolls_back_beside_a_debug_pod(stage: &Stage) -> Result<()> {
    let inside = "$(pgrep -f '^sleep 1000')";
    let (output, ()) = held::at_the_last_copy(stage, "rollback", LONG, || {
        stage.node.ok(&format!("{OPEN_POD} / >/dev/null 2>&1 &"))?;
        stage.wait_until("test -e /run/pod-is-open && pgrep -f '^sleep 1000' >/dev/null")?;
        stage.node.ok(&format!("grep -q /var/lib/etcd /proc/{inside}/mountinfo")).map(drop)
    })?;
    ok(&output)?;
    stage.node.ok(&format!("! grep /var/lib/etcd /proc/{inside}/mountinfo")).map(drop)
}

//! What happens to a LUN in the years of its use: it grows, is made smaller by mistake, its target falls silent, and its
//! portals come and go.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::health::finding;
use super::{carries, check, full, main_pid, paths, refused};
use crate::host;
use crate::net::{Cut, Path};
use crate::scene::{LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs::{self, plans_nothing};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("storage/size", size),
        Scenario::new("storage/silent", silent),
        Scenario::new("storage/portals", portals),
        Scenario::new("storage/portal-dies", portal_dies),
    ]
}

const DISK: &str = "D=$(basename $(findmnt -no SOURCE /var/lib/etcd))";

/// Gives the LUN another size. tgtd reads it when it starts; etcd's writes wait meanwhile.
pub(super) fn resize(stage: &mut Stage, bytes: u64) -> Result<()> {
    let file = File::options().write(true).open(stage.lun()).context("cannot open the LUN's file")?;
    file.set_len(bytes)?;
    stage.target.restart()?;
    stage.wait_until("grep -q LOGGED_IN /sys/class/iscsi_session/session*/state")
}

/// The LUN is full and grows, grows again while etcd runs, and is then made smaller than its filesystem.
fn size(stage: &mut Stage) -> Result<()> {
    full::filled_and_grown(stage)?;
    let before = main_pid(stage)?;
    resize(stage, 3 * LUN_SIZE)?;
    // What a kernel does that knows the target's announcement. tgtd makes none.
    stage.node.ok(&format!("{DISK}; echo 1 >/sys/block/$D/device/rescan"))?;
    carries(&finding(stage, "lun-size")?, &["etcd-lun apply"])?;
    plans(stage, "grow", &[("at", "/var/lib/etcd".into())])?;
    let output = stage.apply()?;
    let size = stage.node.ok("df --output=size -B1 /var/lib/etcd | tail -n 1")?;
    if size.trim().parse::<u64>()? < LUN_SIZE * 29 / 10 {
        bail!("the filesystem has {size} bytes: {output}");
    }
    stage.is_on_lun()?;
    let planned = verbs::planned(&stage.node, "plan")?;
    if planned.has_step("grow") {
        bail!("apply left something to do: {planned:?}");
    }
    if main_pid(stage)? != before {
        bail!("etcd was restarted");
    }
    resize(stage, 2 * LUN_SIZE)?;
    check(&stage.agent("apply")?, refused("shrunk", &[&stage.wwid(1), "2GiB"]))?;
    resize(stage, 3 * LUN_SIZE)?;
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
            &format!(
                "{RECORD} >/run/before; timeout --signal=KILL {} etcd-lun {verb}; echo ended with $?
                 {RECORD} | cmp --silent - /run/before || echo another record",
                limit.as_secs()
            ),
            limit * 2,
        )?;
        if output.stdout.contains("ended with 137") {
            bail!("{verb} does not end within {} s: {output}", limit.as_secs());
        }
        let ended = output.stdout.lines().find(|line| line.starts_with("ended with ")).unwrap_or_default();
        println!("        {verb} {ended} after {:.1} s", begun.elapsed().as_secs_f64());
        // A use is announced in the record before it is written to the LUN.
        if verb == "mark" && (ended != "ended with 0" || output.stdout.contains("another record")) {
            bail!("{verb} wrote to a LUN that does not answer: {output}");
        }
    }
    Ok(())
}

const RECORD: &str = "cat /var/lib/etcd-lun/authority.json";

fn at(portals: &[Path]) -> Wanted {
    Wanted { portals: portals.iter().map(|path| path.portal()).collect(), ..Wanted::default() }
}

/// Writes numbers, one after the other. Notes the last one that etcd has acknowledged, the longest wait, and each failure.
const WRITER: &str = "systemd-run --quiet --unit=writer sh -c 'n=0; longest=0; while :; do
    begun=$(date +%s%3N)
    if etcdctl --command-timeout=290s put storage/n $n >/dev/null; then echo $n >/run/written; else echo $n >>/run/failed; fi
    took=$(($(date +%s%3N) - begun)); n=$((n + 1))
    [ $took -le $longest ] || longest=$took; echo $longest >/run/longest; sleep 0.05
done'";

/// Ends the writer once it gets on. etcd holds what it has acknowledged last. Returns how many writes failed.
fn end_writer(stage: &Stage, what: &str) -> Result<usize> {
    stage.wait_until("n=$(cat /run/written); sleep 2; [ $(cat /run/written) -gt $n ]")?;
    let failed = stage.node.ok(
        "systemctl stop writer.service; [ $(etcdctl get --print-value-only storage/n) -ge $(cat /run/written) ]
         touch /run/failed; cat /run/longest; wc --lines </run/failed",
    )?;
    let [longest, failed] = failed.split_whitespace().collect::<Vec<_>>()[..] else { bail!("{failed}") };
    println!("        {what}: {failed} writes failed, the longest waited {longest} ms");
    Ok(failed.parse()?)
}

/// `plan` must have this step, with these values.
fn plans(stage: &Stage, id: &str, values: &[(&str, Value)]) -> Result<()> {
    let plan = verbs::plan(&stage.node, "plan")?;
    let is_it = |step: &&Value| step["step"] == id && values.iter().all(|(key, value)| step[key] == *value);
    match plan["steps"].as_array().and_then(|steps| steps.iter().find(is_it)) {
        Some(step) => println!("        planned: {step}"),
        None => bail!("{id} with {values:?} is not planned: {plan}"),
    }
    Ok(())
}

/// Runs `apply`, which must take these steps.
fn takes(stage: &Stage, ids: &[&str]) -> Result<()> {
    let taken = verbs::taken(&stage.node, "apply")?;
    println!("        apply: {taken:?}");
    match ids.iter().find(|id| !taken.has_step(id)) {
        Some(id) => bail!("`apply` should have taken the step {id}: {taken:?}"),
        None => Ok(()),
    }
}

/// Checks how many sessions and disks of the LUN there are, and that there is no node record.
fn has_sessions(stage: &Stage, sessions: usize) -> Result<()> {
    let seen = stage.node.ok(
        "ls -d /sys/class/iscsi_session/session* | wc -l; ls -d /sys/class/iscsi_session/session*/device/target*/*/block/* | wc -l
         find /var/lib/iscsi/nodes /etc/iscsi/nodes -name etcd-lun 2>/dev/null | wc -l",
    )?;
    let seen: Vec<_> = seen.split_whitespace().collect();
    let sessions = sessions.to_string();
    if seen != [sessions.as_str(), sessions.as_str(), "0"] {
        bail!("sessions, disks and records are {seen:?}, not {sessions}, {sessions} and 0");
    }
    Ok(())
}

/// With a multipath map the sessions follow the portals of the config, while etcd runs and a client writes.
fn portals(stage: &mut Stage) -> Result<()> {
    // A map over a single path too, so that another one can come.
    stage.node.ok(
        "printf 'defaults {\\n find_multipaths no\\n user_friendly_names yes\\n}\\n' >/etc/multipath.conf && systemctl start multipathd",
    )?;
    stage.configure(&at(&[Path::A]))?;
    stage.apply()?;
    stage.is_on_lun()?;
    has_sessions(stage, 1)?;
    let before = main_pid(stage)?;
    stage.node.ok(WRITER)?;

    stage.configure(&at(&[Path::A, Path::B]))?;
    carries(&finding(stage, "portals")?, &[&Path::B.portal()])?;
    plans(stage, "log-in", &[("portals", json!([Path::B.portal()]))])?;
    takes(stage, &["log-in", "attach-lun"])?;
    has_sessions(stage, 2)?;
    plans_nothing(&stage.node)?;

    // As after a run that was killed before it logged out, and a portal that is in the config again.
    stage.node.ok("multipathd del path $(ls /sys/class/iscsi_session/session2/device/target*/*/block)")?;
    carries(&finding(stage, "paths")?, &["etcd-lun apply"])?;
    takes(stage, &["add-path"])?;
    paths::works(stage, 2)?;
    plans_nothing(&stage.node)?;

    // As after a run that was killed between log-in and scan.
    stage.node.ok(
        "disk=$(ls /sys/class/iscsi_session/session2/device/target*/*/block) && multipathd del path $disk &&
         echo 1 >/sys/block/$disk/device/delete",
    )?;
    takes(stage, &["attach-lun"])?;
    has_sessions(stage, 2)?;
    paths::works(stage, 2)?;
    plans_nothing(&stage.node)?;

    stage.configure(&at(&[Path::B]))?;
    carries(&finding(stage, "portals")?, &[&Path::A.portal(), "etcd-lun apply"])?;
    plans(stage, "remove-path", &[("sid", 1.into())])?;
    plans(stage, "log-out", &[("sid", 1.into())])?;
    takes(stage, &["remove-path", "log-out"])?;
    has_sessions(stage, 1)?;
    plans_nothing(&stage.node)?;

    // A portal that does not answer is not waited for, and the only path that works is not taken away.
    stage.bed.net.cut(Path::A, Cut::Drop)?;
    stage.configure(&at(&[Path::A]))?;
    let taken = verbs::taken(&stage.node, "apply")?;
    if !taken.is_empty() {
        bail!("`apply` should leave the only path that works alone: {taken:?}");
    }
    has_sessions(stage, 1)?;
    stage.bed.net.repair()?;
    plans(stage, "log-in", &[("portals", json!([Path::A.portal()]))])?;
    takes(stage, &["log-in", "log-out"])?;
    has_sessions(stage, 1)?;

    // The path that stays in the config has just been lost.
    stage.configure(&at(&[Path::A, Path::B]))?;
    stage.apply()?;
    stage.bed.net.cut(Path::B, Cut::Drop)?;
    stage.configure(&at(&[Path::B]))?;
    let output = stage.agent("apply")?;
    println!("        after B was cut: {}{}", output.stdout, output.stderr);
    has_sessions(stage, 2)?;
    stage.bed.net.repair()?;
    stage.wait_until("[ $(grep -l LOGGED_IN /sys/class/iscsi_session/session*/state | wc -l) = 2 ]")?;
    paths::works(stage, 2)?;
    takes(stage, &["log-out"])?;
    has_sessions(stage, 1)?;
    if end_writer(stage, "portals added and removed")? > 0 {
        bail!("a write failed");
    }
    stage.is_on_lun()?;
    if main_pid(stage)? != before {
        bail!("etcd was restarted");
    }
    Ok(())
}

/// What a person types to have the session's next connection go to another portal.
const REDIRECT: &str =
    "iptables -t nat -A OUTPUT -d 10.77.0.1 -p tcp --dport 3260 -j DNAT --to-destination 10.78.0.1:3260
    iptables -t nat -A POSTROUTING -d 10.78.0.1 -p tcp --dport 3260 -j MASQUERADE";

/// Without multipath the session's portal dies for good. A person sends the connection to another portal, and etcd goes on.
fn portal_dies(stage: &mut Stage) -> Result<()> {
    stage.configure(&at(&[Path::A, Path::B]))?;
    stage.apply()?;
    has_sessions(stage, 1)?;
    let before = main_pid(stage)?;
    stage.node.ok(WRITER)?;
    stage.bed.net.cut(Path::A, Cut::Drop)?;
    stage.wait_until("! grep -q LOGGED_IN /sys/class/iscsi_session/session*/state")?;
    carries(&finding(stage, "session")?, &[&Path::A.portal(), "FAILED"])?;
    stage.node.ok(REDIRECT)?;
    stage.wait_until_within(
        "grep -q LOGGED_IN /sys/class/iscsi_session/session*/state",
        Duration::from_secs(90),
    )?;
    println!("{}", stage.node.ok("iscsiadm -m session -P 1 | grep Portal; cat /sys/class/iscsi_connection/*/address; ss -tn dport = 3260; journalctl -u iscsid --no-pager | tail -n 8")?);
    has_sessions(stage, 1)?;
    // etcd itself gives up a write after seven seconds, so some may have failed. None that it has acknowledged is missing.
    end_writer(stage, "the portal of the session died")?;
    stage.is_on_lun()?;
    if main_pid(stage)? != before {
        bail!("etcd was restarted");
    }
    // The next boot needs nothing of this: it logs in at the first portal that works.
    stage.configure(&at(&[Path::B]))?;
    carries(&finding(stage, "portals")?, &[&Path::A.portal()])?;
    plans_nothing(&stage.node)?;
    stage.node.reboot()?;
    stage.node.ok("etcd-lun apply")?;
    stage.is_on_lun()
}

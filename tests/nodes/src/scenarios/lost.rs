//! The kernel loses etcd's LUN while it is mounted: another program logs our session out. etcd serves again by itself, within
//! seconds. And iscsid refuses the log-out where the config asks for it.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::carries;
use super::health::{failing, finding};
use crate::host;
use crate::scene::{self, LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::target::{IQN, Lun, Offer, blank, fingerprint};
use crate::verbs;

/// An emulated node is slow.
const LIMIT: Duration = Duration::from_secs(180);

/// The command of a CSI driver (NetApp/trident#119). It names no interface.
pub fn log_out() -> String {
    format!(
        "cd /sys/class/iscsi_connection; for one in *; do
         iscsiadm -m node -T {IQN} -p $(cat $one/persistent_address):$(cat $one/persistent_port) -u; done"
    )
}

/// What the service has said since a moment, without systemd's own lines.
fn said(stage: &Stage, since: &str) -> Result<String> {
    stage.node.ok(&format!(
        "journalctl --sync; journalctl --since=@{since} --no-pager -o cat -u etcd-lun-lost.service -t etcd-lun"
    ))
}

/// systemd knows the path to the LUN, by udev's rule.
fn is_watched(stage: &Stage) -> Result<()> {
    let known = stage.node.ok("systemctl list-units --no-legend 'etcd-lun-path@*' | wc -l")?;
    if known != "1" {
        bail!(
            "systemd knows {known} paths to the LUN: {}",
            stage.node.run("udevadm info -e | grep -B9 -A9 etcd-lun-path")?
        );
    }
    Ok(())
}

/// The steps that the service has begun since a moment, and what it has logged as an error, each on a line. journald does not know
/// the unit of a process that has ended before journald asks for it: the last entries of a run may have none.
fn acts(stage: &Stage, since: &str) -> Result<String> {
    stage.node.ok(&format!(
        "journalctl --sync; journalctl --since=@{since} --no-pager -o json -t etcd-lun |
             jq --raw-output 'select((._SYSTEMD_UNIT // \"etcd-lun-lost.service\") == \"etcd-lun-lost.service\")
                 | select(.STEP or (.PRIORITY // \"6\") <= \"3\") | .STEP // .MESSAGE'"
    ))
}

fn is_quiet(stage: &Stage, since: &str, after: &str) -> Result<()> {
    if !acts(stage, since)?.is_empty() {
        let said = said(stage, since)?;
        bail!("after {after} etcd-lun-lost.service should have nothing to do: {said}");
    }
    Ok(())
}

/// etcd serves from the LUN again, by the service alone.
fn serves_again(stage: &Stage, since: &str) -> Result<()> {
    let serves = "etcdctl put beside/again yes >/dev/null 2>&1";
    if let Err(error) = stage.wait_until_within(serves, LIMIT) {
        bail!("{error}: {}", said(stage, since)?);
    }
    println!(
        "        etcd serves again {} s after the loss",
        stage.node.ok(&format!("echo $(($(date +%s) - {since}))"))?
    );
    comes_back(stage, since)?;
    let acts = acts(stage, since)?;
    let steps = ["log-in", "unmount-shut-down", "mount-data"];
    if let Some(step) = steps.iter().find(|step| !acts.contains(*step)) {
        bail!("etcd-lun-lost.service should do the step {step}: {}", said(stage, since)?);
    }
    stage.has_kept("beside/lost")?;
    carries(&finding(stage, "shared-target")?, &["mounted etcd's LUN anew", "logged the session out"])
}

/// Waits until our session is there again, with its disk, and the service has ended.
fn comes_back(stage: &Stage, since: &str) -> Result<()> {
    let back = "grep -q LOGGED_IN /dev/null $(grep -l etcd-lun /sys/class/iscsi_session/*/ifacename | sed s/ifacename/state/) &&
        ls /dev/disk/by-path/*:etcd-lun-1 &&
        [ \"$(systemctl show --property ActiveState --value etcd-lun-lost.service)\" = inactive ]";
    if let Err(error) = stage.wait_until_within(back, LIMIT) {
        let state = stage.node.run(
            "systemctl status 'etcd-lun-path@*' etcd-lun-lost.service; grep . /sys/class/iscsi_session/*/{state,ifacename}",
        )?;
        bail!("{error}: {}\n{state}", said(stage, since)?);
    }
    Ok(())
}

/// A fourth loss within an hour: everything says what is left for a person. Then a person does it.
fn is_for_a_person(stage: &Stage) -> Result<()> {
    let since = stage.node.ok("date +%s")?;
    stage.node.ok(&log_out())?;
    stage.wait_until(&format!(
        "journalctl --since=@{since} -o cat -u etcd-lun-lost.service -t etcd-lun | grep mounted-anew-often"
    ))?;
    carries(&finding(stage, "mount")?, &["/var/lib/etcd", "etcd-lun apply"])?;
    let metrics = stage.node.ok(
        "etcd-lun health --prometheus /run/lost.prom >/dev/null; grep ^etcd_lun_shut_down /run/lost.prom",
    )?;
    if !metrics.ends_with(" 1") {
        bail!("the metric should say so too: {metrics}");
    }
    stage.apply()?;
    stage.is_on_lun()?;
    stage.has_kept("beside/lost")?;
    // A day passes.
    stage
        .node
        .ok("rm /run/etcd-lun/mounted-anew.json; systemctl reset-failed etcd-lun-lost.service || true")
        .map(drop)
}

pub(super) fn logged_out(stage: &mut Stage) -> Result<()> {
    super::beside::offer(stage)?;
    stage.configure(&Wanted::default())?;
    stage.node.ok(RULE)?;
    stage.node.ok(&super::beside::driver())?;
    stage.apply()?;
    stage.is_on_lun()?;
    is_watched(stage)?;
    stage.node.ok("etcdctl put beside/lost yes")?;

    // Nothing of this is a loss: a log-out from another target, and events of our own disk.
    let begun = stage.node.ok("date +%s")?;
    stage.node.ok(&format!(
        "systemctl stop beside; iscsiadm -m node -T {} -u; rm -rf /var/lib/iscsi/nodes/* /var/lib/iscsi/send_targets/*
         udevadm trigger --settle --action=change /sys/class/block/$(basename $(readlink -f /dev/disk/by-label/etcd-lun)); sleep 6",
        crate::target::BESIDE
    ))?;
    is_quiet(stage, &begun, "a log-out from another target")?;
    stage.is_on_lun()?;

    let since = stage.node.ok("date +%s")?;
    let took = stage.node.ok(&format!(
        "{}; begun=$(date +%s%N)
         for i in $(seq 300); do
             journalctl --since=@{since} -q -o cat _SYSTEMD_UNIT=etcd-lun-lost.service STEP=log-in | grep -q . && break; sleep 0.1
         done
         echo $((($(date +%s%N) - begun) / 1000000))",
        log_out()
    ))?;
    let took = took.lines().last().unwrap_or_default().to_owned();
    println!("        the loss was noticed after {took} ms");
    if took.parse::<u64>()? > 60_000 {
        bail!("the loss was noticed too late: {}", said(stage, &since)?);
    }
    serves_again(stage, &since)?;
    stage.is_on_lun()?;

    // The target is away too. The service tries on until it is back.
    let since = stage.node.ok("date +%s")?;
    stage.node.ok(&log_out())?;
    stage.target.stop();
    stage.wait_until(&format!(
        "journalctl --since=@{since} -o cat -u etcd-lun-lost.service -t etcd-lun |
             grep -E '^error.*: in step (log-in|attach-lun): '"
    ))?;
    stage.target.restart()?;
    serves_again(stage, &since)?;

    // No event: without udev's rule systemd does not know the path. The health check of the timer finds the loss.
    let since = stage.node.ok("date +%s")?;
    stage.node.ok("systemctl stop 'etcd-lun-path@*'; sleep 6")?;
    is_quiet(stage, &since, "the end of the watch")?;
    stage.node.ok(&format!("{}; sleep 6", log_out()))?;
    is_quiet(stage, &since, "a log-out that nobody watches")?;
    stage.node.ok("systemctl start etcd-lun-health.service")?;
    serves_again(stage, &since)?;

    is_for_a_person(stage)?;
    is_refused(stage)?;

    // A reboot and a rollback log out too.
    let since = stage.node.ok("date +%s")?;
    stage.node.ok(&format!("systemctl enable --quiet etcd.service; {}", scene::AT_BOOT))?;
    stage.node.reboot()?;
    super::boot::wait_for(&stage.node, "etcd.service", "active", crate::scene::LIMIT)?;
    stage.is_on_lun()?;
    is_watched(stage)?;
    super::health::is_well(stage)?;
    let rollback = stage.agent("rollback")?;
    if rollback.code != 0 {
        bail!("the rollback should have succeeded: {rollback}");
    }
    stage.node.ok("sleep 6")?;
    stage.is_untouched()?;
    is_quiet(stage, &since, "a reboot and a rollback")
}

/// Puts one key after the other, until one is not acknowledged.
const WRITER: &str = "rm -f /run/acked; systemctl reset-failed writer 2>/dev/null
    systemd-run --quiet --unit=writer sh -c 'n=1; while etcdctl put /live/$n $n >/dev/null; do echo $n >>/run/acked; n=$((n+1)); done'
    until [ -s /run/acked ]; do sleep 0.1; done; sleep 1";

/// The udev rule, as a person puts it into place.
pub const RULE: &str = "etcd-lun render udev >/etc/udev/rules.d/90-etcd-lun.rules; udevadm control --reload";

/// Somebody's volume lies behind the number of our LUN while etcd writes: the target announces that (3F/0E), or it was away and
/// comes back with it (29/00). Nothing is written to it any more once that was noticed, etcd is down, and has every key on the
/// right one. Its WWID is made of `volume`, ours of 1.
pub(super) fn beneath_the_mount(stage: &mut Stage, live: bool, volume: u32) -> Result<()> {
    let (ours, other, spare) = (stage.lun(), stage.lun_file("other"), stage.lun_file("spare"));
    blank(&other, LUN_SIZE)?;
    blank(&spare, 64 << 20)?;
    host::ok(Command::new("mkfs.ext4").arg("-q").arg(&other), scene::LIMIT)?;
    let ran = "journalctl --sync; journalctl -u etcd-lun-lost.service --since=@$SINCE -o cat | grep -q";
    let since = stage.node.ok("date +%s")?;
    // Another LUN is new: the target announces the same.
    stage.target.map(Lun::new(if live { 8 } else { 10 }, spare.clone()))?;
    stage.node.ok("etcdctl put /live/quiet yes")?;
    stage.wait_until(&format!("SINCE={since}; {ran} Finished"))?;
    stage.is_on_lun()?;

    stage.node.ok(WRITER)?;
    let since = stage.node.ok("date +%s")?;
    let wrong = Lun { volume, ..Lun::new(1, other.clone()) };
    let acknowledged = if live {
        // While the target has no LUN 1 no command may come.
        let count = stage.node.ok("fsfreeze --freeze /var/lib/etcd; wc -l </run/acked")?;
        stage.target.exchange(wrong)?;
        stage.target.map(Lun::new(9, spare))?;
        stage.node.ok("fsfreeze --unfreeze /var/lib/etcd").map(|_| count)?
    } else {
        stage.target.stop();
        let count = stage.node.ok("wc -l </run/acked")?;
        stage.target.offer(Offer { luns: vec![wrong], ..stage.target.offered().clone() })?;
        count
    };
    stage.wait_until(&format!("sleep 2; SINCE={since}; {ran} 'another volume beneath the mount'"))?;
    let before = fingerprint(&other)?;
    // The kernel says this when a disk is removed. XFS shuts down at the next write of its log, up to 30 s later.
    let took = stage.node.ok(&format!(
        "sleep 30; ! timeout 5 etcdctl put /live/late yes >/dev/null 2>&1 &&
             journalctl -k --since=@{since} -o short-unix | awk '
                 /LUN assignments|Power-on/ && !a {{ a = $1 }} /XFS .* shut down|Failing path|Synchronizing SCSI cache/ && a && !b {{ b = $1 }} END {{ print b - a }}'"
    ))?;
    // The run that attaches the other volume as a new disk has refused it too.
    stage.wait_until(&format!("SINCE={since}; {ran} status=3/"))?;
    println!("        another volume was noticed after {took} s, {acknowledged} keys are acknowledged");
    // An emulated node is slow.
    if !(0.0..30.0).contains(&took.parse::<f64>()?) || fingerprint(&other)? != before {
        bail!("it took {took} s, or the other volume was written to after that: {}", said(stage, &since)?);
    }
    let right = Lun::new(1, ours);
    if live {
        stage.target.exchange(right)?;
    } else {
        stage.target.offer(Offer { luns: vec![right], ..stage.target.offered().clone() })?;
    }
    stage.apply()?;
    stage.is_on_lun()?;
    stage.node.ok(&format!(
        "[ \"$(etcdctl get --prefix /live/ --print-value-only | grep -v yes | sort -n | head -n {acknowledged})\" = \"$(seq {acknowledged})\" ] &&
             etcdctl del --prefix /live/"
    ))
    .map(drop)
}

/// Restarts iscsid, and waits until it has taken over the session: it logs in again first.
fn restart_iscsid(stage: &Stage) -> Result<()> {
    let since = stage.node.ok("date +%s")?;
    stage.node.ok("systemctl restart iscsid")?;
    stage.wait_until(&format!(
        "journalctl -u iscsid --since=@{since} --no-pager | grep -q 'is operational after recovery'"
    ))
}

/// With `target.safe_logout` iscsid refuses the log-out, and the node's own iscsid.conf stays as it is. Without the key all is as
/// before.
fn is_refused(stage: &Stage) -> Result<()> {
    let own = "sha256sum /etc/iscsi/iscsid.conf; cat /proc/mounts | grep -c iscsid.conf; true";
    let before = stage.node.ok(own)?;
    // A record of another program's, by which `--logoutall` finds the session's target.
    let plant = format!("iscsiadm -m node -T {IQN} -p 10.77.0.1:3260,1 -o new");
    stage.node.ok(&plant)?;
    carries(&finding(stage, "shared-target")?, &["target.safe_logout = true"])?;
    stage.configure(&Wanted { target: "safe_logout = true\n".into(), ..Wanted::default() })?;
    restart_iscsid(stage)?;
    let since = stage.node.ok("date +%s")?;
    let one = stage.node.run(&log_out())?;
    let all = stage.node.run("iscsiadm -m node --logoutall=all")?;
    println!("        with safe_logout: {} and {}, {}", one.code, all.code, all.both().trim());
    // ISCSI_ERR_BUSY
    if one.code != 28 {
        bail!("iscsid should refuse the log-out with 28: {one}");
    }
    stage.node.ok("etcdctl put beside/refused yes")?;
    stage.is_on_lun()?;
    is_quiet(stage, &since, "a log-out that iscsid refused")?;
    let (found, after) = (failing(stage)?, stage.node.ok(own)?);
    if found.contains("shared-target") || after != before {
        bail!(
            "the node's own iscsid.conf should be the same, and the check be ok: {found:?}, {before}, {after}"
        );
    }
    let planned = verbs::planned(&stage.node, "plan")?;
    if planned.has_step("log-in") || planned.has_step("log-out") {
        bail!("nothing is to be done because of the key: {planned:?}");
    }
    stage.configure(&Wanted::default())?;
    stage.node.ok(
        "rm -r /etc/systemd/system/iscsid.service.d/50-etcd-lun.conf /etc/systemd/system/etcd-lun-iscsid.service
         systemctl daemon-reload",
    )?;
    restart_iscsid(stage)?;
    finding(stage, "shared-target").context("without the key iscsid does not refuse a log-out")?;
    stage.node.ok(&format!("iscsiadm -m node -T {IQN} -o delete; rm -rf /var/lib/iscsi/nodes/*"))?;
    stage.is_on_lun()
}

/// The same in the service's domain. udev's rule came with the object.
pub(super) fn comes_back_confined(stage: &Stage) -> Result<()> {
    is_watched(stage)?;
    stage.node.ok("etcdctl put beside/lost yes")?;
    let since = stage.node.ok("date +%s")?;
    stage.node.ok(&log_out())?;
    serves_again(stage, &since)?;
    let said = said(stage, &since)?;
    if !said.contains("system_u:system_r:etcd_lun_t:s0") {
        bail!("etcd-lun-lost.service should have done it in its domain: {said}");
    }
    stage.node.ok("rm /run/etcd-lun/mounted-anew.json").map(drop)
}

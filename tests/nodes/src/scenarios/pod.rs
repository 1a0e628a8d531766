//! etcd as a static pod under the kubelet's stand-in.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use plan::{ProtocolStep, Step};

use super::{Declined, boot, check_one_of, failed, has, held, unnamed, warns};
use crate::etcd;
use crate::host;
use crate::image::ETCD_POD;
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

const MANIFEST: &str = "/etc/kubernetes/manifests/etcd-pod.yaml";
const PARKED: &str = "/etc/kubernetes/etcd-lun-parked/etcd-pod.yaml";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("pod/agent-killed-while-etcd-is-stopped", killed),
        Scenario::new("pod/operator-writes-a-manifest-meanwhile", operator),
        Scenario::new("pod/sidecar-writes-in-its-grace-time", sidecar),
    ]
}

/// Lets the kubelet's stand-in run etcd from now on.
pub fn hand_over(stage: &Stage) -> Result<()> {
    stage.configure(&Wanted::default().of_pod())?;
    stage.node.ok(&format!(
        "systemctl disable --quiet --now etcd.service; mkdir -p /etc/kubernetes/manifests; chmod 700 /etc/kubernetes/manifests
         install -m 600 /{ETCD_POD} {MANIFEST}; systemctl enable --quiet --now kubelet.service"
    ))?;
    serves(stage)
}

/// Checks that etcd answers and has all its keys.
pub(super) fn serves(stage: &Stage) -> Result<()> {
    let now = host::poll(boot::static_pod::STARTS, Duration::from_secs(1), || {
        Ok(etcd::hash_at(&stage.node, stage.before.revision).ok())
    })?
    .context("the static pod's etcd does not answer")?;
    if now != stage.before {
        bail!("etcd's keys changed: {} before, {now} now", stage.before);
    }
    Ok(())
}

/// Checks that etcd runs from the LUN in new containers that see the LUN. Its manifest must be complete and
/// in place, and there must never have been two manifests.
pub fn is_on_lun(stage: &Stage, manifest: &str) -> Result<()> {
    let mount =
        stage.node.ok("findmnt --noheadings --output FSTYPE,OPTIONS --mountpoint /var/lib/etcd | xargs")?;
    if !mount.starts_with("xfs ") || !mount.contains("prjquota") {
        bail!("/var/lib/etcd is not the LUN: {mount}");
    }
    serves(stage)?;
    manifest_is(stage, manifest)?;
    // The container etcd-rev writes this file every ten seconds, in its own mount namespace.
    let seen = host::poll(Duration::from_secs(30), Duration::from_secs(2), || {
        let age = "test -n \"$(find /var/lib/etcd/revision.json -newermt '-15 seconds')\"";
        Ok((stage.node.run(age)?.code == 0).then_some(()))
    })?;
    seen.context("no container writes to the LUN: the containers see the directory below the mount")?;
    super::health::is_well(stage)
}

pub(super) fn manifest_is(stage: &Stage, manifest: &str) -> Result<()> {
    stage.node.ok(&format!("cmp {manifest} {MANIFEST} && test ! -e {PARKED}"))?;
    boot::static_pod::had_one_manifest(&stage.node)
}

/// The kubelet's stand-in has one file per container.
const NO_CONTAINER: &str = "test -z \"$(ls /run/kubelet-stand-in)\"";

/// The run is killed while the manifest is parked, and the service starts at once. Another container of the pod still runs
/// out its grace period: the service waits for it.
fn killed(stage: &mut Stage) -> Result<()> {
    stage.node.ok(&format!("touch {DEAF}"))?;
    hand_over(stage)?;
    held::at_the_last_copy(stage, "apply", scene::LIMIT, || {
        stage.node.ok(&format!("test -e {PARKED} && pkill -KILL -x etcd-lun"))
    })?;
    let etcd = verbs::json(&stage.node, "status")?["node"]["etcd"]["known"].take();
    if etcd["stopped_by_us"] != true || etcd["running"] != false {
        bail!("`status` does not say that etcd-lun has stopped etcd: {etcd}");
    }
    // The next boot starts this service.
    stage.node.ok("systemctl start etcd-lun.service")?;
    is_on_lun(stage, &format!("/{ETCD_POD}"))
}

/// Several guards can detect first that somebody has started etcd: the wait for etcd's end, the check that etcd is stopped, the
/// copy, or its proof. The name depends on the guard where etcd's process is found.
const CAUGHT: &[Declined] = &[
    failed("manifest-returned", &[MANIFEST]),
    failed("being-written", &[]),
    failed("copy-differs", &["/var/lib/etcd"]),
    failed("etcd-started-meanwhile", &[]),
    unnamed(&["etcd (pid", "/var/lib/etcd"]),
];

fn operator(stage: &mut Stage) -> Result<()> {
    hand_over(stage)?;
    let newer = "/run/etcd-pod-8.yaml";
    stage
        .node
        .ok(&format!("sed 's/revision: \"7\"/revision: \"8\"/' /{ETCD_POD} >{newer}; chmod 600 {newer}"))?;
    let (output, _) = held::at_the_last_copy(stage, "apply", scene::LIMIT, || {
        // As the installer pod does: it writes another file and renames it.
        stage.node.ok(&format!(
            "test -e {PARKED} && cp -p {newer} {MANIFEST}.tmp && mv {MANIFEST}.tmp {MANIFEST}"
        ))?;
        stage.wait_until("pgrep -x etcd >/dev/null")
    })?;
    check_one_of(&output, CAUGHT)
        .context("`apply` did not fail because of the etcd that was started meanwhile")?;
    serves(stage)?;
    manifest_is(stage, newer)?;
    if stage.node.run("findmnt --mountpoint /var/lib/etcd")?.code == 0 {
        bail!("the LUN was mounted over a running etcd");
    }
    // A container with etcd's name in another pod, as of a hosted control plane, is nobody to wait for.
    let other = "0".repeat(64);
    stage.node.ok(&format!(
        "systemd-run --quiet --unit other-pod sleep infinity
         echo etcd $(systemctl show --value --property MainPID other-pod) of-another >/run/kubelet-stand-in/{other}"
    ))?;
    stage.apply()?;
    stage.node.ok(&format!("systemctl stop other-pod && rm /run/kubelet-stand-in/{other}"))?;
    is_on_lun(stage, newer)
}

/// While this file exists, nothing but the kubelet ends the container `etcdctl`.
const DEAF: &str = "/run/kubelet-stand-in-deaf";

/// The grace period of the pod's containers, in seconds.
const GRACE: f32 = 30.0;

/// The file into which the pod's other container writes. It is there before, so that only its content changes.
const NOTE: &str = "/var/lib/etcd/member/note";

/// A container that takes its whole grace period writes to the data directory after the copy was proven. It leaves size and
/// modification time as they were. Its bytes must be where etcd runs then. Without such a write the proof counts, and with
/// OpenShift's container the move saves most of the grace period that a plain restart of the pod takes.
fn sidecar(stage: &mut Stage) -> Result<()> {
    stage.node.ok(&format!("touch {DEAF}"))?;
    hand_over(stage)?;
    stage.node.ok(&format!("printf first >{NOTE}; chmod 600 {NOTE}"))?;
    let restart = away(stage, || {
        stage.node.ok(&format!("mv {MANIFEST} /run/etcd-pod.yaml"))?;
        stage.wait_until(NO_CONTAINER)?;
        stage.node.ok(&format!("mv /run/etcd-pod.yaml {MANIFEST}"))?;
        serves(stage)
    })?;
    let moved = away(stage, || {
        found_out(stage, "etcd-lun apply", "other")?;
        is_on_lun(stage, &format!("/{ETCD_POD}"))
    })?;
    holds(stage, "other")?;
    // Another pod, with OpenShift's container.
    stage.node.ok(&format!(
        "rm {DEAF}; mv {MANIFEST} /run/etcd-pod.yaml; until {NO_CONTAINER}; do sleep 0.5; done; mv /run/etcd-pod.yaml {MANIFEST}"
    ))?;
    serves(stage)?;
    let mut waited = None;
    let returned = away(stage, || {
        let output = stage.agent("rollback")?;
        if output.code != 0 || warns(&output, "/var/lib/etcd") {
            bail!("nobody wrote, so the proof counts: {output}");
        }
        let of_others = output.stdout.split("its pod's other containers ").nth(1);
        waited = of_others.and_then(|text| text.split(',').next()?.parse::<f32>().ok());
        serves(stage)
    })?;
    holds(stage, "other")?;
    if waited.is_none_or(|waited| waited > GRACE / 2.0) {
        bail!("`rollback` waited {waited:?} s for the pod's containers, which should be asked to end");
    }
    println!(
        "        the member was away for {restart:.1} s by a plain restart of its pod, {returned:.1} s by `rollback`, {moved:.1} s by an `apply` that copied again"
    );
    Ok(())
}

/// Runs a command, and writes from the container while the command waits for the container's end. The command must notice the
/// write, and warn that it copies again. An emulated node may take longer for copy and proof than the grace period. So the
/// kubelet's stand-in, which ends the container, is stopped meanwhile.
fn found_out(stage: &Stage, command: &str, text: &str) -> Result<()> {
    let waits = Step::Protocol(ProtocolStep::AwaitPodEnd { manifest: MANIFEST.parse()? }).to_string();
    let (output, written) = stage.node.run_while(command, scene::LIMIT, || {
        let script = format!(
            "set -e; main=$(systemctl show --property MainPID --value kubelet.service)
             until [ \"$(cut -d ' ' -f 1 /run/kubelet-stand-in/* 2>/dev/null | xargs)\" = etcdctl ]; do sleep 0.3; done
             kill -STOP $main
             until grep -qF \"{waits}\" /run/etcd-lun/run; do sleep 0.3; done
             nsenter --mount --target $(sed -n 's/^etcdctl \\([0-9]*\\) .*/\\1/p' /run/kubelet-stand-in/*) sh -ec 'cp -p {NOTE} /tmp/note.before
             printf {text} | dd of={NOTE} conv=notrunc status=none; touch -r /tmp/note.before {NOTE}'
             kill -CONT $main"
        );
        stage.node.run_within(&script, scene::LIMIT)
    })?;
    if written.code != 0 {
        bail!("the container did not write: {written}");
    }
    if output.code != 0 || !warns(&output, "/var/lib/etcd") || !has(&output.stderr, "member/note") {
        bail!("the write in the container's grace period was not found: {output}");
    }
    Ok(())
}

fn holds(stage: &Stage, text: &str) -> Result<()> {
    let found = stage.node.ok(&format!("cat {NOTE}"))?;
    if found != text {
        bail!("{NOTE} holds {found:?}, and the container wrote {text:?}: its bytes are lost");
    }
    Ok(())
}

/// The seconds for which etcd did not answer while `act` ran: the longest time between two answers.
fn away(stage: &Stage, act: impl FnOnce() -> Result<()>) -> Result<f32> {
    let ask = format!(
        "rm -f /run/ask-no-more /run/answers; (until [ -e /run/ask-no-more ]; do
        curl -fsm1 -o /dev/null http://127.0.0.1:{}/health && date +%s.%N >>/run/answers; sleep 0.3; done) >/dev/null 2>&1 &
        while [ ! -s /run/answers ]; do sleep 0.2; done",
        etcd::PLAIN
    );
    stage.node.ok(&ask)?;
    act()?;
    let longest = "NR > 1 && $1 - last > longest { longest = $1 - last } { last = $1 } END { print longest }";
    let seconds = stage.node.ok(&format!("touch /run/ask-no-more; sleep 2; awk '{longest}' /run/answers"))?;
    seconds.parse().with_context(|| format!("{seconds:?} is no time"))
}

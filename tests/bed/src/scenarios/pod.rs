//! etcd as a static pod under the kubelet's stand-in. It is migrated by hand, from the node and from a debug
//! pod.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{boot, check, failed};
use crate::etcd;
use crate::host;
use crate::image::ETCD_POD;
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;

const MANIFEST: &str = "/etc/kubernetes/manifests/etcd-pod.yaml";
const PARKED: &str = "/etc/kubernetes/etcd-lun-parked/etcd-pod.yaml";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("pod/from-a-debug-pod", from_a_debug_pod),
        Scenario::new("pod/agent-killed-while-etcd-is-stopped", killed),
        Scenario::new("pod/operator-writes-a-manifest-meanwhile", operator),
    ]
}

fn wanted() -> Wanted {
    Wanted { etcd: "runtime = \"static-pod\"\n".into(), ..Wanted::default() }
}

/// Lets the kubelet's stand-in run etcd from now on.
pub(super) fn hand_over(stage: &Stage) -> Result<()> {
    stage.configure(&wanted())?;
    stage.node.ok(&format!(
        "systemctl disable --quiet --now etcd.service; mkdir -p /etc/kubernetes/manifests; chmod 700 /etc/kubernetes/manifests
         install -m 600 /{ETCD_POD} {MANIFEST}; systemctl enable --quiet --now kubelet.service"
    ))?;
    serves(stage)
}

/// Checks that etcd answers and has all its keys.
pub(super) fn serves(stage: &Stage) -> Result<()> {
    let now = host::poll(Duration::from_secs(90), Duration::from_secs(1), || {
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
fn is_on_lun(stage: &Stage, manifest: &str) -> Result<()> {
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

/// Runs a command as `oc debug node/X -- chroot /host` does: in a mount namespace of its own, in which the
/// host's root is mounted on /host without propagation.
const DEBUG_POD: &str = "unshare --mount --propagation private sh -c '
mkdir -p /run/pod && mount -t tmpfs pod /run/pod && mkdir /run/pod/host && mount --rbind / /run/pod/host && mount --make-rprivate /run/pod
exec chroot /run/pod/host \"$@\"' sh";

fn from_a_debug_pod(stage: &mut Stage) -> Result<()> {
    hand_over(stage)?;
    let output =
        stage.node.run_within(&format!("{DEBUG_POD} /usr/local/bin/etcd-lun apply"), scene::LIMIT)?;
    if output.code != 0 {
        bail!("`etcd-lun apply` from a debug pod failed: {output}");
    }
    is_on_lun(stage, &format!("/{ETCD_POD}"))?;
    let again = stage.apply()?;
    if !again.stdout.contains("Nothing to do") {
        bail!("the second apply did something: {again}");
    }
    let status = stage.node.ok(&format!("{DEBUG_POD} /usr/local/bin/etcd-lun status"))?;
    if !status.contains("joined PID 1's mount namespace") {
        bail!("`status` does not say that it joined the host's namespace: {status}");
    }
    let json = stage.node.ok(&format!("{DEBUG_POD} /usr/local/bin/etcd-lun status --json"))?;
    if !json.contains("\"joined_host_namespace\": true") {
        bail!("`status --json` does not say that it joined the host's namespace: {json}");
    }
    Ok(())
}

/// Waits until the manifest is parked and the pod's containers have ended.
fn stopped(stage: &Stage) -> Result<()> {
    stage.wait_until(&format!("test -e {PARKED} && ! pgrep -x etcd >/dev/null"))
}

/// Stops the final copy until `/var/held/closed` is removed, so that a scenario can interfere with it. The
/// final copy is the one while etcd is stopped; the pre-copy runs while etcd still writes.
pub(super) fn hold_the_copy(stage: &Stage) -> Result<()> {
    // The script runs the real rsync. It waits only while etcd does not run.
    stage.node.ok("mkdir -p /var/held && cat >/var/held/rsync <<'X'
#!/bin/sh
pgrep -x etcd >/dev/null || while [ -e /var/held/closed ]; do sleep 0.2; done
exec /var/held/real \"$@\"
X
         cp /usr/bin/rsync /var/held/real; chmod 755 /var/held/rsync; touch /var/held/closed
         mount --bind /var/held/rsync /usr/bin/rsync")?;
    Ok(())
}

fn killed(stage: &mut Stage) -> Result<()> {
    hand_over(stage)?;
    hold_the_copy(stage)?;
    stage.node.run_while("etcd-lun apply", scene::LIMIT, || {
        stopped(stage)?;
        stage.node.ok("pkill -KILL -x etcd-lun; sleep 1; rm /var/held/closed").map(drop)
    })?;
    let status = stage.agent("status")?;
    if !status.stdout.contains("its manifest parked") || !status.stdout.contains("stopped by etcd-lun") {
        bail!("`status` does not say where the manifest is: {status}");
    }
    // The next boot starts this service.
    stage.node.ok("systemctl start etcd-lun.service")?;
    is_on_lun(stage, &format!("/{ETCD_POD}"))
}

fn operator(stage: &mut Stage) -> Result<()> {
    hand_over(stage)?;
    hold_the_copy(stage)?;
    let newer = "/run/etcd-pod-8.yaml";
    stage
        .node
        .ok(&format!("sed 's/revision: \"7\"/revision: \"8\"/' /{ETCD_POD} >{newer}; chmod 600 {newer}"))?;
    let (output, ()) = stage.node.run_while("etcd-lun apply", scene::LIMIT, || {
        stopped(stage)?;
        // As the installer pod does: it writes another file and renames it.
        stage.node.ok(&format!(
            "cp -p {newer} {MANIFEST}.tmp && mv {MANIFEST}.tmp {MANIFEST}; while ! pgrep -x etcd >/dev/null; do sleep 0.2; done; rm /var/held/closed"
        ))?;
        Ok(())
    })?;
    check(&output, failed(&["in step"]))?;
    // Several guards can detect this first: the wait for etcd's end, the check that etcd is stopped, the
    // copy, or its proof.
    let caught = [
        "was written again",
        "somebody started it",
        "has files open in /var/lib/etcd though etcd is stopped",
        "deleted while they were copied",
        "differs from /var/lib/etcd",
    ];
    if !caught.iter().any(|why| output.stderr.contains(why)) {
        bail!("`apply` did not fail because of the etcd that was started meanwhile: {output}");
    }
    serves(stage)?;
    manifest_is(stage, newer)?;
    if stage.node.run("findmnt --mountpoint /var/lib/etcd")?.code == 0 {
        bail!("the LUN was mounted over a running etcd");
    }
    stage.apply()?;
    is_on_lun(stage, newer)
}

//! etcd as a static pod, under the kubelet's stand-in, moved by hand: from the node, and from a debug pod.

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

/// From now on the kubelet's stand-in runs etcd.
pub(super) fn hand_over(stage: &Stage) -> Result<()> {
    stage.configure(&wanted())?;
    stage.node.ok(&format!(
        "systemctl disable --quiet --now etcd.service; mkdir -p /etc/kubernetes/manifests; chmod 700 /etc/kubernetes/manifests
         install -m 600 /{ETCD_POD} {MANIFEST}; systemctl enable --quiet --now kubelet.service"
    ))?;
    serves(stage)
}

/// etcd answers, with all its keys.
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

/// etcd runs from the LUN, in new containers that see it; its manifest is whole and in its place, and never were there
/// two.
fn is_on_lun(stage: &Stage, manifest: &str) -> Result<()> {
    let mount =
        stage.node.ok("findmnt --noheadings --output FSTYPE,OPTIONS --mountpoint /var/lib/etcd | xargs")?;
    if !mount.starts_with("xfs ") || !mount.contains("prjquota") {
        bail!("/var/lib/etcd is not the LUN: {mount}");
    }
    serves(stage)?;
    manifest_is(stage, manifest)?;
    // etcd-rev writes its file every ten seconds, in the namespace of its container.
    let seen = host::poll(Duration::from_secs(30), Duration::from_secs(2), || {
        let age = "test -n \"$(find /var/lib/etcd/revision.json -newermt '-15 seconds')\"";
        Ok((stage.node.run(age)?.code == 0).then_some(()))
    })?;
    seen.context("no container writes to the LUN: they see what is beneath the mount")?;
    super::health::is_well(stage)
}

pub(super) fn manifest_is(stage: &Stage, manifest: &str) -> Result<()> {
    stage.node.ok(&format!("cmp {manifest} {MANIFEST} && test ! -e {PARKED}"))?;
    boot::static_pod::never_two(&stage.node)
}

/// As `oc debug node/X -- chroot /host`: a mount namespace of its own, in which the host's root is mounted on /host
/// without propagation.
const DEBUG_POD: &str = "unshare --mount --propagation private sh -c '
mkdir -p /run/pod && mount -t tmpfs pod /run/pod && mkdir /run/pod/host && mount --rbind / /run/pod/host && mount --make-rprivate /run/pod
exec chroot /run/pod/host \"$@\"' sh";

fn from_a_debug_pod(stage: &mut Stage) -> Result<()> {
    hand_over(stage)?;
    let output =
        stage.node.run_within(&format!("{DEBUG_POD} /usr/local/bin/etcd-lun apply"), scene::LIMIT)?;
    if output.code != 0 {
        bail!("from a debug pod: {output}");
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

/// Waits until the manifest is parked and the pod's containers have gone.
fn stopped(stage: &Stage) -> Result<()> {
    stage.comes_to(&format!("test -e {PARKED} && ! pgrep -x etcd >/dev/null"))
}

/// What makes the copy that counts long enough to meddle with: it can't be in the pre-copy, for etcd is writing it.
pub(super) fn hold_the_copy(stage: &Stage) -> Result<()> {
    // rsync is real; it only begins late when etcd doesn't run.
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
    // What the next boot does.
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
        // As the installer pod does: written aside, then renamed.
        stage.node.ok(&format!(
            "cp -p {newer} {MANIFEST}.tmp && mv {MANIFEST}.tmp {MANIFEST}; while ! pgrep -x etcd >/dev/null; do sleep 0.2; done; rm /var/held/closed"
        ))?;
        Ok(())
    })?;
    check(&output, failed(&["in step"]))?;
    // By whichever guard comes first: the wait for etcd's end, that etcd is at rest, the copy itself, or its proof.
    let caught = [
        "was written anew",
        "somebody started it",
        "has files open in /var/lib/etcd though etcd is stopped",
        "deleted while they were copied",
        "is not what is in /var/lib/etcd",
    ];
    if !caught.iter().any(|why| output.stderr.contains(why)) {
        bail!("not for the etcd that was started meanwhile: {output}");
    }
    serves(stage)?;
    manifest_is(stage, newer)?;
    if stage.node.run("findmnt --mountpoint /var/lib/etcd")?.code == 0 {
        bail!("the LUN was mounted over a running etcd");
    }
    stage.apply()?;
    is_on_lun(stage, newer)
}

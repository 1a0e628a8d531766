//! Checks of the pod that the real kubelet runs.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::etcd::{self, KeyHash};
use crate::host;
use crate::image::ETCD_POD;
use crate::node::Node;
use crate::stage::{FENCE_CONTENT, Stage};

pub(super) const MANIFEST: &str = "/etc/kubernetes/manifests/etcd-pod.yaml";
const PARKED: &str = "/etc/kubernetes/etcd-lun-parked/etcd-pod.yaml";
/// Where containerd keeps a directory for each container that runs, also for the pod's own (its sandbox).
const CONTAINERS: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
/// The containers of the pod that mount the data directory. `etcd-readyz` does not.
const WITH_DATA: [&str; 4] = ["etcd", "etcdctl", "etcd-metrics", "etcd-rev"];
/// A grace period of 30 s, and the starts of eight containers, each a second or more in an emulated node.
pub(super) const LIMIT: Duration = Duration::from_secs(400);

/// The hash of the keys that the disk of a node with the kubelet has from the beginning.
pub(in crate::scenarios) fn keys(node: &Node) -> Result<KeyHash> {
    let text = node.read("/root/etcd-keys.json")?;
    let answer: serde_json::Value = serde_json::from_str(&text)?;
    let revision = answer[0]["HashKV"]["header"]["revision"].as_u64();
    revision
        .and_then(|revision| KeyHash::parse(revision, &text))
        .with_context(|| format!("no hash in {text}"))
}

/// Waits until the pod's etcd answers.
pub(in crate::scenarios) fn serves(stage: &Stage) -> Result<()> {
    // etcdctl takes seconds of an emulated processor. It is not started before etcd listens.
    let answers = "ss --no-header --listening --tcp --numeric 'sport = 2379' | grep -q . &&
         etcdctl --command-timeout 10s endpoint health >/dev/null 2>&1";
    stage.wait_until_within(answers, LIMIT).context("the pod's etcd does not answer")
}

/// Checks that etcd serves the same keys from the LUN in containers that see the LUN, that the manifest is in its
/// place, and that nothing lies beneath the mount.
pub(in crate::scenarios) fn is_on_lun(stage: &Stage, before: KeyHash) -> Result<()> {
    let node = &stage.node;
    serves(stage)?;
    has_keys(stage, before)?;
    let device = node.ok("findmnt --noheadings --raw --output MAJ:MIN,FSTYPE --mountpoint /var/lib/etcd")?;
    if !device.contains("xfs") {
        bail!("/var/lib/etcd is not on the LUN: {device:?}");
    }
    see(stage, &device)?;
    let beneath = node.ok(
        "unshare --mount sh -c 'umount /var/lib/etcd && lsattr -d /var/lib/etcd | cut -d\" \" -f1 &&
         find /var/lib/etcd -mindepth 1 \"(\" -type f -empty -printf \"%f(empty) \" -o -printf \"%f \" \")\"'",
    )?;
    let (flags, content) = beneath.split_once('\n').unwrap_or_default();
    if !flags.contains('i') || content.trim() != FENCE_CONTENT {
        bail!("the directory beneath the mount holds data, or is not immutable: {beneath:?}");
    }
    manifest_is_back(stage)
}

/// Checks that etcd serves the same keys from the local disk, in containers that see it.
pub(super) fn is_local(stage: &Stage, before: KeyHash) -> Result<()> {
    serves(stage)?;
    has_keys(stage, before)?;
    manifest_is_back(stage)?;
    if stage.node.run("findmnt --mountpoint /var/lib/etcd")?.code == 0 {
        bail!("the LUN is mounted");
    }
    see(stage, &stage.node.ok("findmnt --noheadings --raw --output MAJ:MIN,FSTYPE --target /var/lib/etcd")?)
}

/// Checks that each container that mounts the data directory has this device there.
fn see(stage: &Stage, device: &str) -> Result<()> {
    for name in WITH_DATA {
        // A container may just be starting. It has no findmnt, so its mount table is read from outside.
        let inside = host::poll(LIMIT, Duration::from_secs(2), || {
            let mounts = stage.node.run(&format!(
                "pid=$({}) && awk '$5 == \"/var/lib/etcd\" {{ print $3 }}' /proc/$pid/mountinfo",
                process_of(name)
            ))?;
            let seen = mounts.stdout.trim().to_string();
            Ok((!seen.is_empty()).then_some(seen))
        })?
        .with_context(|| format!("the container {name} does not run"))?;
        if !device.starts_with(&format!("{inside} ")) {
            bail!("the container {name} sees {inside} at /var/lib/etcd, the host {device}");
        }
    }
    Ok(())
}

/// A command that prints the process number of a container's first process.
fn process_of(container: &str) -> String {
    format!(
        "id=$(crictl ps --label io.kubernetes.container.name={container} -q) && cat {CONTAINERS}/$id/init.pid"
    )
}

/// The process number of a container's first process.
pub(super) fn process(stage: &Stage, container: &str) -> Result<String> {
    stage.node.ok(&process_of(container))
}

pub(super) fn manifest_is_back(stage: &Stage) -> Result<()> {
    stage.node.ok(&format!("cmp {MANIFEST} /{ETCD_POD} && test ! -e {PARKED}")).map(drop)
}

fn has_keys(stage: &Stage, before: KeyHash) -> Result<()> {
    let now = etcd::hash_at(&stage.node, before.revision)?;
    if now != before {
        bail!("etcd's keys changed: {before} before, {now} now");
    }
    Ok(())
}

/// Waits until the manifest is parked and etcd has ended.
pub(super) fn is_parked(stage: &Stage) -> Result<()> {
    stage
        .wait_until_within(&format!("test -e {PARKED} && ! pgrep -x etcd >/dev/null"), LIMIT)
        .context("the program did not stop the pod's etcd")
}

/// Waits until no container of the pod is left.
pub(super) fn has_ended(stage: &Stage) -> Result<()> {
    stage.wait_until_within(&format!("[ -z \"$(ls {CONTAINERS})\" ]"), LIMIT)
}

/// Checks that a killed run has left the manifest parked, and that `status` says so.
pub(super) fn was_left_parked(stage: &Stage) -> Result<()> {
    stage.node.ok(&format!("test -e {PARKED} && test ! -e {MANIFEST}"))?;
    let status = stage.agent("status")?;
    if !status.stdout.contains("its manifest parked") || !status.stdout.contains("stopped by etcd-lun") {
        bail!("`status` does not say where the manifest is: {status}");
    }
    Ok(())
}

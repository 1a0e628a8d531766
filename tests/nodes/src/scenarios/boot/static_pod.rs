//! etcd as a static pod, which the kubelet's stand-in runs.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{EtcdRunner, NODES, delivered, node, pool, ran_before_etcd};
use crate::etcd::hash_at;
use crate::host;
use crate::image::ETCD_POD;
use crate::node::Node;
use crate::stage::Stage;
use crate::suite::Scenario;

const MANIFEST: &str = "/etc/kubernetes/manifests/etcd-pod.yaml";

/// How long OpenShift's pod may take to serve in an emulated node: init containers, a look at the members, and up to a minute
/// until no socket of its ports is left.
pub(in crate::scenarios) const STARTS: Duration = Duration::from_secs(240);

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("boot/static-pod", static_pod)]
}

fn static_pod(stage: &mut Stage) -> Result<()> {
    let wanted = pool().of_pod();
    let disk = delivered(stage, &wanted, EtcdRunner::StaticPod)?;
    stage.offer_luns(NODES.len())?;
    stage.change_node(node(stage, NODES[0], &disk)?);
    stage.node.power_on()?;
    let took = ran_before_etcd(&stage.node)?;
    runs_on_lun(stage)?;
    println!("        migrated at the boot in {:.1} s", took.as_secs_f32());
    Ok(())
}

/// Checks that the pod's etcd serves the same keys from the LUN, that the other containers with the data see the LUN, and
/// that there is one manifest.
pub(in crate::scenarios) fn runs_on_lun(stage: &Stage) -> Result<()> {
    let node = &stage.node;
    host::poll(STARTS, Duration::from_secs(1), || {
        Ok((node.run("etcdctl --command-timeout 5s endpoint health")?.code == 0).then_some(()))
    })?
    .context("the pod's etcd does not answer")?;
    let now = hash_at(node, stage.before.revision)?;
    if now != stage.before {
        bail!("etcd's keys changed: {} before, {now} now", stage.before);
    }
    let device = node.ok("findmnt --noheadings --output MAJ:MIN,FSTYPE --mountpoint /var/lib/etcd")?;
    if !device.contains("xfs") {
        bail!("/var/lib/etcd is not on the LUN: {device:?}");
    }
    for name in ["etcd", "etcd-metrics", "etcdctl", "etcd-rev"] {
        let id = container(node, name)?;
        let inside = node.ok(&format!(
            "read -r _ pid _ </run/kubelet-stand-in/{id} && nsenter --mount --pid --target $pid \
             findmnt --noheadings --first-only --output MAJ:MIN,FSTYPE --target /var/lib/etcd"
        ))?;
        if inside != device {
            bail!("the container {name} sees {inside} at /var/lib/etcd, the host {device}");
        }
    }
    node.ok(&format!("cmp {MANIFEST} /{ETCD_POD} && ls /etc/kubernetes/manifests | grep -c . | grep -qx 1"))?;
    had_one_manifest(node)
}

/// Checks the journal of the kubelet's stand-in, which reports when there are two manifests of etcd.
pub(in crate::scenarios) fn had_one_manifest(node: &Node) -> Result<()> {
    let said = node.said("kubelet.service")?;
    if said.contains("TWO etcd manifests") {
        bail!("there were two manifests at the same time: {said}");
    }
    Ok(())
}

fn container(node: &Node, name: &str) -> Result<String> {
    // The files of the kubelet's stand-in.
    node.ok(&format!("cd /run/kubelet-stand-in && grep -l '^{name} ' * || true"))
}

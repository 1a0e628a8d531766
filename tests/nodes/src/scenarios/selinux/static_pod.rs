//! etcd as a static pod of the kubelet's stand-in, on a node that enforces SELinux: the confined service has the manifest moved
//! by its hands.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::boot::{self, NODES};
use super::{audit, installed, node, portal, ran_in_its_domain, writes_metrics};
use crate::delivery::{self, EtcdRunner, Root};
use crate::image::ETCD_POD;
use crate::stage::{FENCE_CONTENT, Stage};

/// The service tries again every 20 s, the pod's containers take their grace period of 30 s to end, and an emulated node that
/// audits everything is slow.
const COMES_BACK: Duration = Duration::from_secs(400);

/// The first boot has a portal with unusual options and a manifest that a killed run has parked: the service migrates the
/// data and puts the manifest back. At the second boot the target is away: etcd fails against the fence. When the target
/// is back, the service ends that pod and starts it again on the LUN.
pub(super) fn migrated_then_late(stage: &mut Stage) -> Result<()> {
    let wanted = portal::wanted().of_pod();
    let disk = boot::delivered(stage, &wanted, EtcdRunner::StaticPod)?;
    let disk = delivery::change(&stage.bed, "parked", &disk, |root: &Root| {
        root.run(
            &format!(
                "cd /etc/kubernetes; mkdir --mode 0700 etcd-lun-parked; install -m 600 /{ETCD_POD} etcd-lun-parked/
                 rm manifests/etcd-pod.yaml"
            ),
            &[],
        )?;
        root.label("/etc/kubernetes")
    })?;
    let disk = installed(stage, &portal::delivered(stage, &disk)?, &wanted)?;
    let _names = portal::NameServer::serve(stage)?;
    portal::offer(stage)?;
    stage.change_node(node(stage, &disk, &wanted)?);
    stage.node.power_on()?;
    let took = boot::ran_before_etcd(&stage.node)?;
    boot::static_pod::runs_on_lun(stage)?;
    ran_in_its_domain(&stage.node)?;
    println!("        migrated at the boot, with the manifest put back, in {:.1} s", took.as_secs_f32());
    stage.node.ok("grep -q redhat:master0 /sys/class/iscsi_session/*/initiatorname")?;
    stage.node.ok("! test -e /etc/kubernetes/etcd-lun-parked")?;
    writes_metrics(&stage.node)?;
    audit::nothing_denied(&stage.node)?;
    late_lun(stage)
}

fn late_lun(stage: &mut Stage) -> Result<()> {
    stage.node.power_off()?;
    stage.target.stop();
    stage.node.power_on()?;
    boot::wait_for(&stage.node, "kubelet.service", "active", COMES_BACK)?;
    // etcd's container has started and has ended. Not by the unit: on a busy machine the container's process is gone before
    // journald looks which unit it belonged to.
    let tried = "journalctl --sync; journalctl -b -o cat -t kubelet-stand-in | grep -q 'cannot access data directory\\|not a directory'";
    stage.wait_until_within(tried, COMES_BACK).context("the pod's etcd did not start against the fence")?;
    let seen = stage.look()?;
    if !seen.mount.is_empty() || !seen.is_fenced() || seen.content != FENCE_CONTENT {
        bail!("the directory below the mount point holds data, or is not immutable: {seen:?}");
    }
    stage.target.restart()?;
    stage
        .wait_until_within("etcdctl --command-timeout 5s endpoint health", COMES_BACK)
        .context("etcd did not come back with the target")?;
    boot::static_pod::runs_on_lun(stage).context("after a boot without the target")?;
    ran_in_its_domain(&stage.node)?;
    println!(
        "        at the boot without the target {} stayed behind the fence until the target was back",
        NODES[0]
    );
    super::super::lost::comes_back_confined(stage)?;
    boot::static_pod::runs_on_lun(stage).context("after a log-out by another program")?;
    audit::nothing_denied(&stage.node)
}

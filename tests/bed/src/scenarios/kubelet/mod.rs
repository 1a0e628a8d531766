//! etcd as a static pod of the real kubelet: OpenShift's manifest, in containers that containerd runs.
//!
//! The node is a copy of the bed's node with a kubelet (see `crate::kubelet`). Its etcd has a member's data from the
//! beginning and talks TLS. The program is put in by hand, like its config.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use super::{boot, check, failed, health, held, rollback};
use crate::delivery::{self, Root};
use crate::etcd::KeyHash;
use crate::host;
use crate::image::ETCD_POD;
use crate::kubelet;
use crate::node::Node;
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::vm::Options;

pub(super) mod boots;
mod client;
mod meanwhile;
pub(super) mod pod;

use client::Client;
use pod::MANIFEST;

/// Longer than the program's own limits for the end of a pod and for the start of one.
const RUN: Duration = Duration::from_secs(900);

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("kubelet/migrated-by-hand-and-booted", migrated),
        Scenario::new("kubelet/cut-short-and-rolled-back", cut_short),
        Scenario::new("kubelet/refused-written-by-a-sidecar-target-lost", meanwhile::meanwhile),
    ]
}

/// Beside etcd run a kubelet, a container runtime and a shim for the pod.
pub(super) const MEMORY_MIB: u32 = 2048;

/// What a config needs for the pod. The program finds the pod's certificates by its defaults, which are OpenShift's.
pub(super) fn wanted() -> Wanted {
    Wanted {
        etcd: "runtime = \"static-pod\"\n".into(),
        cluster: "serve_timeout = \"5min\"\n".into(),
        ..Wanted::default()
    }
}

/// A new disk of a node with the kubelet and with the object for a config. etcd's manifest is parked, as a killed run
/// leaves it.
pub(super) fn delivered(stage: &Stage, wanted: &Wanted) -> Result<PathBuf> {
    let object = boot::object(stage, wanted)?;
    delivery::deliver(&stage.bed, "delivered-kubelet", &kubelet::disk(&stage.bed)?, &object, |root: &Root| {
        root.run(
            &format!(
                "cd /etc/kubernetes; mkdir --mode 0700 etcd-lun-parked; install -m 600 /{ETCD_POD} etcd-lun-parked/"
            ),
            &[],
        )?;
        root.label("/etc/systemd /etc/kubernetes")
    })
}

/// Boots the node, starts the pod and puts the program in. Returns the hash of all keys.
fn begin(stage: &mut Stage) -> Result<KeyHash> {
    let disk = kubelet::disk(&stage.bed)?;
    let options = Options { memory_mib: MEMORY_MIB, ..Options::default() };
    stage.change_node(Node::off(&stage.bed, "kubelet", &disk, options)?);
    stage.node.power_on()?;
    scene::install(&stage.node, &stage.binary)?;
    scene::configure_with_units(&stage.node, &wanted())?;
    stage.node.ok(&format!(
        "systemctl --quiet enable etcd-lun.service; install -m 600 /{ETCD_POD} /etc/kubernetes/aside.yaml
         mv /etc/kubernetes/aside.yaml {MANIFEST}"
    ))?;
    pod::serves(stage)?;
    pod::keys(&stage.node)
}

/// Takes the manifest out and puts it in again when the pod has ended, as an administrator restarts etcd. Returns how
/// long no write was acknowledged.
fn restarted(stage: &Stage, client: &Client) -> Result<Duration> {
    let since = SystemTime::now();
    stage.node.ok(&format!("mv {MANIFEST} /etc/kubernetes/aside.yaml"))?;
    pod::has_ended(stage)?;
    stage.node.ok(&format!("mv /etc/kubernetes/aside.yaml {MANIFEST}"))?;
    acknowledged_again(stage, client, since)
}

/// Waits until the client's writes are acknowledged again after a gap.
fn acknowledged_again(stage: &Stage, client: &Client, since: SystemTime) -> Result<Duration> {
    pod::serves(stage)?;
    // The client tries again within 4 s.
    let gap = host::poll(Duration::from_secs(60), Duration::from_secs(2), || {
        let gap = client.gap_since(since).ok();
        Ok(gap.filter(|gap| *gap > Duration::from_secs(2)))
    })?;
    gap.context("etcd answers, but it acknowledges no write of the client")
}

/// Runs a command as `oc debug node/X -- chroot /host` does: in a mount namespace of its own, in which the
/// host's root is mounted on /host without propagation.
const DEBUG_POD: &str = "unshare --mount --propagation private sh -c '
mkdir -p /run/pod && mount -t tmpfs pod /run/pod && mkdir /run/pod/host && mount --rbind / /run/pod/host && mount --make-rprivate /run/pod
exec chroot /run/pod/host \"$@\"' sh";

/// A migration by hand from a debug pod, beside a plain restart of the pod. Then a boot.
fn migrated(stage: &mut Stage) -> Result<()> {
    let before = begin(stage)?;
    let client = Client::begin(stage)?;
    let restart = restarted(stage, &client)?;
    let since = SystemTime::now();
    let output = stage.node.run_within(&format!("{DEBUG_POD} /usr/local/bin/etcd-lun apply"), RUN)?;
    if output.code != 0 {
        bail!("`etcd-lun apply` from a debug pod should have succeeded: {output}");
    }
    let moved = acknowledged_again(stage, &client, since)?;
    pod::is_on_lun(stage, before)?;
    let kept = client.has_every_key(stage)?;
    println!(
        "        no write was acknowledged for {:.0} s while etcd moved, and for {:.0} s while its pod was restarted; \
         {kept} writes are there",
        moved.as_secs_f32(),
        restart.as_secs_f32()
    );
    let plan = stage.agent("plan")?;
    if plan.code != 0 || !plan.stdout.to_lowercase().contains("nothing to do") {
        bail!("the plan after the migration is not empty: {plan}");
    }
    let status = stage.node.ok(&format!("{DEBUG_POD} /usr/local/bin/etcd-lun status"))?;
    if !status.contains("joined PID 1's mount namespace") {
        bail!("`status` does not say that it joined the host's namespace: {status}");
    }
    let json = stage.node.ok(&format!("{DEBUG_POD} /usr/local/bin/etcd-lun status --json"))?;
    if !json.contains("\"joined_host_namespace\": true") {
        bail!("`status --json` does not say that it joined the host's namespace: {json}");
    }
    health::is_well(stage)?;
    // `kubelet/enforcing-without-the-target` boots without the target.
    boots::finds_the_manifest_parked(stage, before)?;
    client.has_every_key(stage).map(drop)
}

/// A run that is interrupted while the manifest is parked starts etcd again by itself. After one that is killed
/// there, the service of the next boot goes on. Then a rollback that fails after its commit point, and one that finishes
/// it.
fn cut_short(stage: &mut Stage) -> Result<()> {
    let before = begin(stage)?;
    let client = Client::begin(stage)?;
    let (output, _) = held::at_the_last_copy(stage, "apply", RUN, || {
        pod::is_parked(stage)?;
        stage.node.ok("pkill -INT -x etcd-lun")
    })?;
    check(&output, failed(&["interrupted"]))?;
    pod::is_local(stage, before).context("after SIGINT")?;

    held::at_the_last_copy(stage, "apply", RUN, || {
        pod::is_parked(stage)?;
        stage.node.ok("pkill -KILL -x etcd-lun")
    })?;
    pod::was_left_parked(stage)?;
    // The next boot starts this service, when no container of the pod is left.
    pod::has_ended(stage)?;
    let service = stage.node.run_within("systemctl start etcd-lun.service", RUN)?;
    if service.code != 0 {
        bail!("the service did not go on after SIGKILL: {service}");
    }
    pod::is_on_lun(stage, before).context("after SIGKILL")?;
    client.has_every_key(stage)?;

    rollback::stuck_after_the_commit(stage)?;
    let output = stage.node.run_within("etcd-lun rollback", RUN)?;
    if output.code != 0 {
        bail!("`etcd-lun rollback` should have succeeded: {output}");
    }
    pod::is_local(stage, before).context("after the rollback")?;
    let health = stage.agent("health")?;
    if !health.stdout.contains("on purpose") {
        bail!("`health` does not report the rollback: {health}");
    }
    client.has_every_key(stage).map(drop)
}

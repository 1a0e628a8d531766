//! Something older comes back. The node's disk comes back from a snapshot, at a moment when etcd has acknowledged writes on the LUN
//! since: the next boot must neither change the LUN nor let etcd start, and a person gets the newer data back. And etcd's own
//! backup is restored onto the LUN.

use anyhow::{Context, Result, bail};

use super::health::finding;
use super::{boot, carries, check, held, pod, refused};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::fingerprint;
use crate::verbs;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("restored/root-disk", root_disk), Scenario::new("restored/backup", backup)]
}

/// The steps of `cluster-restore.sh` up to its new pod, restated (openshift/cluster-etcd-operator at b4786ae, June 2026,
/// `bindata/etcd/cluster-restore.sh` and `etcd-common-tools`). `discover-etcd-initial-cluster` has archived a member before
/// (openshift/etcd `openshift-tools/pkg/discover-etcd-initial-cluster/initial-cluster.go`).
const EMPTY: &str = "set -o errexit
    mkdir -p /home/core/assets/manifests-stopped /var/lib/etcd-backup/extra-data-dir-contents
    mv /etc/kubernetes/manifests/etcd-pod.yaml /home/core/assets/manifests-stopped/
    until [ -z \"$(ls /run/kubelet-stand-in)\" ]; do sleep 1; done
    [ ! -d /var/lib/etcd/member ] || mv /var/lib/etcd/member /var/lib/etcd/member-removed-archive-1
    [ ! -f /var/lib/etcd/revision.json ] || mv /var/lib/etcd/revision.json /var/lib/etcd-backup/
    find /var/lib/etcd -mindepth 1 -maxdepth 1 | while read -r entry; do mv \"$entry\" /var/lib/etcd-backup/extra-data-dir-contents/; done";

/// The steps of `cluster-restore.sh` with `ETCD_ETCDCTL_RESTORE`, restated, up to the one that ends it.
const SCRIPT: &str = "set -o errexit
    mv /etc/kubernetes/manifests/etcd-pod.yaml /home/core/assets/manifests-stopped/
    until [ -z \"$(ls /run/kubelet-stand-in)\" ]; do sleep 1; done
    mv /var/lib/etcd/member /var/lib/etcd-backup/
    rm -rf /var/lib/etcd
    echo the next step";

const NOT_PERMITTED: &str = "Operation not permitted";

/// What docs/recovery.md says then, and what the new pod does. The node's etcdctl is of a release that has no etcdutl beside it.
const REST: &str = "set -o errexit
    find /var/lib/etcd -mindepth 1 -delete
    etcdctl snapshot restore /home/core/backup/snapshot_1.db --data-dir=/var/lib/etcd/restore
    mv /var/lib/etcd/restore/member /var/lib/etcd/member
    rmdir /var/lib/etcd/restore
    sync -f /var/lib/etcd
    mv /home/core/assets/manifests-stopped/etcd-pod.yaml /etc/kubernetes/manifests/";

/// A snapshot of the real etcd, from the time of the copy, is restored while the LUN is mounted, in both ways of the script. etcd-lun
/// says what is missing meanwhile, notices nothing afterwards, and the next boot goes on with it. Without the LUN the fence stays.
fn backup(stage: &mut Stage) -> Result<()> {
    pod::hand_over(stage)?;
    let applied = held::apply(stage, &["catch-up"], |node, _| {
        node.ok("mkdir -p /home/core/backup && etcdctl snapshot save /home/core/backup/snapshot_1.db")
            .map(drop)
    })?;
    if applied.code != 0 {
        bail!("a backup during the copy should not disturb it: {applied}");
    }
    let is_restored = |stage: &Stage| -> Result<()> {
        pod::is_on_lun(stage, &format!("/{}", crate::image::ETCD_POD))?;
        stage.node.ok("test -z \"$(etcdctl get /after/backup --print-value-only)\"")?;
        verbs::plans_nothing(&stage.node).context("after a restore")
    };
    stage.node.ok("etcdctl put /after/backup yes")?;
    stage.node.run_within(EMPTY, scene::LIMIT)?;
    carries(&finding(stage, "etcd")?, &["etcd-pod.yaml is absent"])?;
    verbs::plans_nothing(&stage.node).context("in the middle of a restore")?;
    // The new pod ends if there is anything (`bindata/etcd/restore-pod.yaml`).
    stage.node.ok("test -z \"$(ls -A /var/lib/etcd)\"")?;
    stage.node.ok(REST)?;
    is_restored(stage)?;

    stage.node.ok("etcdctl put /after/backup yes")?;
    let ended = stage.node.run_within(SCRIPT, scene::LIMIT)?;
    if !ended.both().contains(NOT_PERMITTED) || ended.stdout.contains("the next step") {
        bail!("the operator's script should end at the mount point: {ended}");
    }
    stage.node.ok(REST)?;
    is_restored(stage)?;

    stage.node.ok(scene::AT_BOOT)?;
    stage.node.reboot()?;
    is_restored(stage)?;
    stage.node.ok("mv /etc/kubernetes/manifests/etcd-pod.yaml /run/
         until [ -z \"$(ls /run/kubelet-stand-in)\" ]; do sleep 1; done
         systemctl stop var-lib-etcd.mount; mv /run/etcd-pod.yaml /etc/kubernetes/manifests/")?;
    let ended = stage.node.run_within(EMPTY, scene::LIMIT)?;
    if !ended.both().contains("'/var/lib/etcd/member'") || !ended.both().contains(NOT_PERMITTED) {
        bail!("the operator's script should end at the fence: {ended}");
    }
    carries(&finding(stage, "mount")?, &["etcd-lun apply"])?;
    stage.apply()?;
    stage.node.ok("mv /home/core/assets/manifests-stopped/etcd-pod.yaml /etc/kubernetes/manifests/")?;
    is_restored(stage)
}

/// Moments of the node's disk that come back.
const UNTOUCHED: &str = "before-the-migration";
const BEGUN: &str = "after-a-failed-attempt";
const MOVED: &str = "after-the-migration";

/// etcd would be away for longer than the config allows: the attempt ends with the record written and the filesystem made.
const TOO_LONG: &str = "/etc/etcd-lun/config.d/90-switch.toml";

fn root_disk(stage: &mut Stage) -> Result<()> {
    stage.configure(&Wanted::default())?;
    // `claim` waits for longer than two of these.
    stage.node.ok(&format!(
        "mkdir -p /etc/etcd-lun/config.d
         printf '[health]\\ninterval = \"15s\"\\n' >/etc/etcd-lun/config.d/80-health.toml
         systemctl enable --quiet etcd.service; {}",
        scene::AT_BOOT
    ))?;
    stage.node.save(UNTOUCHED)?;

    stage.node.ok(&format!("printf '[lun]\\nmax_switch = \"1ms\"\\n' >{TOO_LONG}"))?;
    check(&stage.agent("apply")?, refused("switch-too-long", &["1ms"]))?;
    stage.node.ok(&format!("rm {TOO_LONG}"))?;
    stage.is_untouched()?;
    stage.node.save(BEGUN)?;

    stage.apply()?;
    stage.is_on_lun()?;
    stage.node.save(MOVED)?;

    // Another use of the LUN, and writes that only the LUN has.
    stage.node.ok("systemctl stop etcd.service var-lib-etcd.mount")?;
    stage.apply()?;
    stage.node.ok("etcdctl put acknowledged yes")?;
    stage.node.power_off()?;

    comes_back(stage, MOVED)?;
    comes_back(stage, BEGUN)?;
    comes_back(stage, UNTOUCHED)
}

/// The disk goes back to this moment and the node boots. Then `claim` and `apply` have etcd on its newest data again.
fn comes_back(stage: &mut Stage, moment: &str) -> Result<()> {
    let before = fingerprint(&stage.lun())?;
    stage.node.load(moment)?;
    stage.node.power_cut();
    stage.node.power_on()?;
    boot::wait_for(&stage.node, "etcd-lun.service", "failed", scene::LIMIT)?;
    // A next try may make good what the service cannot do at the first, and etcd has begun meanwhile.
    stage.node.ok("journalctl --sync; ! journalctl -b -o cat -u etcd-lun.service | grep '^error '")?;
    stage.is_down_without_lun()?;
    let start =
        stage.node.run("systemctl reset-failed etcd.service; timeout 45 systemctl start etcd.service")?;
    if start.code == 0 {
        bail!("{moment}: etcd was started on old data: {start}");
    }
    stage.node.ok("systemctl stop etcd.service")?;
    stage.is_down_without_lun()?;
    check(&stage.agent("apply")?, refused("lun-newer", &[&stage.wwid(1), "etcd-lun claim"]))?;
    if fingerprint(&stage.lun())? != before {
        bail!("{moment}: a boot that has found a newer LUN wrote to it");
    }
    let claim = stage.agent("claim")?;
    if claim.code != 0 {
        bail!("{moment}: `claim` should have succeeded: {claim}");
    }
    stage.apply()?;
    stage.is_on_lun()?;
    stage.has_kept("acknowledged")?;
    stage.node.power_off()
}

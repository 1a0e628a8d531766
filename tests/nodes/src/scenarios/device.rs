//! A local disk instead of a target. The config names it by its link, as for a cloud disk. SELinux enforces,
//! which also tests the udev rule that labels the disk by its link.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::bench::measured;
use super::boot::{self, NODES};
use super::health;
use super::selinux::audit;
use super::{check, failed, refused};
use crate::delivery::EtcdRunner;
use crate::host;
use crate::node::Node;
use crate::scene::{LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{blank, fingerprint};
use crate::verbs;
use crate::vm::{Disk, Options, Selinux};

const SERIAL: &str = "etcd0";
const LINK: &str = "/dev/disk/by-id/virtio-etcd0";
/// The serial number of another blank disk. A third disk has the serial number of the first one.
const OTHER: &str = "etcd9";

/// The service gives up after 20 s and tries again 20 s later.
const LIMIT: Duration = Duration::from_secs(120);

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("device/there-gone-another-and-back", |stage| {
        stands_on_its_disk(stage)?;
        stage.node.power_off()?;
        taken_away(stage).context("after the disk was taken away")?;
        another(stage).context("with another disk")?;
        comes_back(stage).context("with the disk back")
    })]
}

/// The config for every node of the pool. It has no entries for single nodes.
fn wanted() -> Wanted {
    Wanted { device: Some(LINK.into()), attach_timeout: "20s".into(), ..Wanted::default() }
}

/// Migrates at the first boot and mounts the disk at the second.
fn stands_on_its_disk(stage: &mut Stage) -> Result<()> {
    let delivered = boot::delivered(stage, &wanted(), EtcdRunner::Unit)?;
    let options = Options { hostname: Some(NODES[0]), selinux: Selinux::Enforcing, ..Options::default() };
    let own = stage.bed.run.dir().join("own-disk");
    blank(&own, LUN_SIZE)?;
    let mut node = Node::off(&stage.bed, "device", &delivered, options)?;
    node.vm().set_disks(vec![Disk { id: "own", file: own, serial: SERIAL, plugged: true }]);
    stage.change_node(node);
    stage.node.power_on()?;
    runs_from_it(stage)?;
    stage.node.ok("etcdctl put /this/node yes")?;
    let uses_nothing_of_iscsi =
        "! systemctl -q is-active iscsid.service && ! iscsiadm -m session 2>/dev/null &&
        ! test -e /etc/systemd/system/etcd-lun-shutdown.service";
    stage.node.ok(uses_nothing_of_iscsi)?;
    let record = stage.node.ok("jq --raw-output .wwid /var/lib/etcd-lun/authority.json")?;
    if record != format!("virtio.{SERIAL}") {
        bail!("the record should name virtio.{SERIAL}, but names {record}");
    }
    looks_well(stage)?;
    stage.node.reboot()?;
    runs_from_it(stage)?;
    boot::nothing_to_do(stage)
}

fn runs_from_it(stage: &Stage) -> Result<()> {
    let took = boot::ran_before_etcd(&stage.node)?;
    stage.is_on_disk()?;
    let label = stage.node.ok(&format!("stat --dereference --format %C {LINK}"))?;
    if label.split(':').nth(2) != Some("etcd_lun_device_t") {
        bail!("{LINK} should have the type etcd_lun_device_t, but is labelled {label}");
    }
    let failed = stage.node.ok("systemctl list-units --failed --no-legend --plain")?;
    if !failed.is_empty() {
        bail!("a unit failed: {failed}");
    }
    nothing_denied(&stage.node)?;
    println!(
        "        etcd is on the disk after the boot, in {:.1} s; SELinux denied nothing",
        took.as_secs_f32()
    );
    Ok(())
}

/// At the first boot udev sees the disk before the module is installed. udev cannot set the module's label
/// then, and the audit log shows that attempt. The service that installs the module labels the disk. So this
/// is not a denial.
fn nothing_denied(node: &Node) -> Result<()> {
    let mut denials = audit::denials(node)?;
    denials.retain(|line| {
        !line.contains("op=setxattr invalid_context=\"system_u:object_r:etcd_lun_device_t:s0\"")
    });
    if !denials.is_empty() {
        bail!("SELinux denied {} times:\n{}", denials.len(), denials.join("\n"));
    }
    Ok(())
}

/// The output must not mention a target. The speed of an emulated disk is not checked.
fn looks_well(stage: &Stage) -> Result<()> {
    let rows = health::rows(stage)?;
    if !health::failing(stage)?.is_empty() || rows.iter().any(|row| row.check == "session") {
        bail!("unexpected result of `health` with a local disk: {rows:?}");
    }
    let status = stage.agent("status")?;
    let named = status.stdout.contains(&format!("virtio.{SERIAL}"));
    if status.code != 0 || !named || status.stdout.contains("initiator") {
        bail!("unexpected result of `status` with a local disk: {status}");
    }
    measured(&stage.agent("bench --writes 100 --json")?, &[("/var/lib/etcd", 100)])?;
    let config = stage.agent("config check --json")?;
    if config.code != 0 || !config.stdout.contains(LINK) || config.stdout.contains("portals") {
        bail!("unexpected result of `config check` with a local disk: {config}");
    }
    Ok(())
}

/// A boot without the disk: the fence keeps etcd down, the node comes up, and the service names the missing
/// link.
fn taken_away(stage: &mut Stage) -> Result<()> {
    let file = |name: &str| stage.bed.run.dir().join(name);
    let mut disks = vec![Disk { id: "own", file: file("own-disk"), serial: SERIAL, plugged: false }];
    for (id, serial) in [("other", OTHER), ("alike", SERIAL)] {
        blank(&file(id), LUN_SIZE)?;
        disks.push(Disk { id, file: file(id), serial, plugged: false });
    }
    stage.node.vm().set_disks(disks);
    stage.node.power_on()?;
    stage.is_down_without_lun()?;
    stage.node.ok("systemctl is-active kubelet.service crio.service")?;
    let told = host::poll(LIMIT, Duration::from_secs(2), || {
        let said = stage.node.said("etcd-lun.service")?;
        Ok(failed("device-absent", &[LINK]).is_in(&said).is_ok().then_some(()))
    })?;
    told.with_context(|| format!("etcd-lun.service does not say that {LINK} is missing"))
}

/// A disk with another serial number is refused because of that. A disk with the right serial number is
/// refused because of its content.
fn another(stage: &mut Stage) -> Result<()> {
    let before = [file(stage, "other")?, file(stage, "alike")?];
    plug(stage, "other", OTHER)?;
    stage.node.ok(&format!("sed s/{SERIAL}/{OTHER}/ /etc/etcd-lun/config.toml >/run/other.toml"))?;
    let plan = stage.agent("--config /run/other.toml plan")?;
    let wrong_disk = ["/dev/disk/by-id/virtio-etcd9", "virtio.etcd9", "virtio.etcd0"];
    check(&plan, refused("wrong-lun", &wrong_disk))?;
    plug(stage, "alike", SERIAL)?;
    boot::wait_for(&stage.node, "etcd-lun.service", "failed", LIMIT)?;
    refused("not-the-truth", &["virtio.etcd0", "blank"])
        .is_in(&stage.node.said("etcd-lun.service")?)
        .context("etcd-lun.service does not report that the disk is blank")?;
    stage.is_down_without_lun()?;
    if before != [file(stage, "other")?, file(stage, "alike")?] {
        bail!("etcd-lun wrote to a disk that is not this node's");
    }
    stage.node.vm().unplug("alike")?;
    stage.wait_until(&format!("! test -e {LINK}"))
}

fn file(stage: &Stage, name: &str) -> Result<String> {
    fingerprint(&stage.bed.run.dir().join(name))
}

fn plug(stage: &mut Stage, id: &str, serial: &str) -> Result<()> {
    stage.node.vm().plug(id)?;
    stage.wait_until(&format!("test -e /dev/disk/by-id/virtio-{serial}"))
}

/// After the refusal an administrator starts the service. Then etcd is rolled back to the local disk.
fn comes_back(stage: &mut Stage) -> Result<()> {
    plug(stage, "own", SERIAL)?;
    stage.node.run_within("systemctl restart etcd-lun.service", LIMIT)?;
    boot::wait_for(&stage.node, "etcd.service", "active", LIMIT)?;
    stage.is_on_disk()?;
    stage.has_kept("/this/node")?;
    nothing_denied(&stage.node)?;
    let back = stage.agent("rollback")?;
    if back.code != 0 {
        bail!("`etcd-lun rollback` should have succeeded: {back}");
    }
    stage.is_untouched()?;
    stage.has_kept("/this/node")?;
    verbs::stays_rolled_back(&stage.node, "apply --boot")
}

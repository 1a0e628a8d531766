//! The real Ignition delivers one object to every node of the pool. Each node that the object lists uses its
//! own LUN.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::super::{check, failed, is_said, lets_go, refused};
use super::{EtcdRunner, NODES, delivered, initiator, node, pool, ran_before_etcd, wait_for};
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::fingerprint;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("boot/one-object-for-the-pool", one_object_for_the_pool)]
}

/// A node of the pool boots, and its host name comes late: DHCP sets it 20 s after the service began. Until then neither
/// the service nor etcd may give up. The last node of the list is used here. The first one boots in `boot/target-off` and
/// other scenarios.
fn one_object_for_the_pool(stage: &mut Stage) -> Result<()> {
    unlisted(stage)?;
    stage.offer_luns(NODES.len())?;
    not_yet(stage)?;
    let wanted = Wanted { attach_timeout: "3min".into(), ..pool() };
    let disk = delivered(stage, &wanted, EtcdRunner::Unit)?;
    let number = NODES.len() - 1;
    let blank = fingerprint(&stage.lun_file(number + 1))?;
    let before = others(stage, number)?;
    stage.change_node(node(stage, "localhost", &disk)?);
    // Not until the boot is complete: the kubelet is ordered after the service, which waits for the name.
    stage.node.power_on_until(None)?;
    stage.wait_until("journalctl -b --no-pager -o cat -u etcd-lun.service | grep -q '`localhost`'")?;
    stage.node.ok(&format!("sleep 5; ! systemctl -q is-active etcd.service; hostname {}", NODES[number]))?;
    wait_for(&stage.node, "etcd-lun.service", "active", COMES)?;
    wait_for(&stage.node, "etcd.service", "active", COMES)?;
    migrated_by_itself(stage, number)?;
    stage.node.power_off()?;
    if before != others(stage, number)? || fingerprint(&stage.lun_file(number + 1))? == blank {
        bail!("{} wrote to another node's LUN, or did not write to its own LUN", NODES[number]);
    }
    Ok(())
}

/// Longer than a migration in an emulated node.
const COMES: Duration = Duration::from_secs(120);

/// The content of the other nodes' LUNs.
fn others(stage: &Stage, number: usize) -> Result<Vec<String>> {
    (0..NODES.len())
        .filter(|other| *other != number)
        .map(|other| fingerprint(&stage.lun_file(other + 1)))
        .collect()
}

fn migrated_by_itself(stage: &Stage, number: usize) -> Result<()> {
    let took = ran_before_etcd(&stage.node)?;
    stage.is_on_lun()?;
    let name = stage.node.ok("cat /sys/class/iscsi_session/*/initiatorname")?;
    if name != initiator(number) {
        bail!("the session has the initiator name {name}");
    }
    let failed = stage.node.ok("systemctl list-units --failed --no-legend --plain")?;
    if !failed.is_empty() {
        bail!("a unit failed: {failed}");
    }
    println!("        {}: migrated at the boot in {:.1} s", NODES[number], took.as_secs_f32());
    Ok(())
}

/// A node without an entry must report that and stay unchanged. The service goes on trying, because the node's name or
/// the config may change.
fn unlisted(stage: &Stage) -> Result<()> {
    stage.configure(&pool())?;
    stage.node.ok("hostname master-3; systemctl start --no-block etcd-lun.service")?;
    // It names the node and those that are listed. At a boot it is an error, because the entry may come.
    let names = [&NODES[..], &["master-3"]].concat();
    is_said(&stage.node, "etcd-lun.service", COMES, failed("no-node-entry", &names))?;
    wait_for(&stage.node, "etcd-lun.service", "activating", COMES)?;
    if super::Unit::of(&stage.node, "etcd-lun.service")?.get("ExecMainStatus") != "1" {
        bail!("etcd-lun.service gave up on a node that is not listed");
    }
    stage.node.ok("systemctl stop etcd-lun.service")?;
    if stage.node.run("ls /sys/class/iscsi_session | grep .")?.code == 0 {
        bail!("a node that is not listed logged in");
    }
    stage.is_untouched().map(drop)
}

/// A node that is not moved yet: its boot looks at its LUN and ends well, its health is good, and by hand it refuses.
fn not_yet(stage: &Stage) -> Result<()> {
    let node = &stage.node;
    stage.configure(&pool())?;
    node.ok(&format!(
        "hostname {0}; sed -i '/hostname = \"{0}\"/a migrate = false' /etc/etcd-lun/config.toml; \
         systemctl start etcd-lun.service; etcd-lun health; journalctl --sync
         journalctl --boot --unit etcd-lun.service | grep 'session [0-9]* is gone'",
        NODES[0]
    ))?;
    wait_for(node, "etcd-lun.service", "active", COMES)?;
    lets_go(stage).context("after a boot that only looks")?;
    check(&stage.agent("apply")?, refused("migration-off", &[NODES[0]]))?;
    stage.is_untouched().map(drop)
}

//! Disks that something else connects: `[device]` with the link of an NVMe/TCP namespace, and with that of a map of multipathd,
//! whose paths the administrator has made. etcd-lun sees a map of Fibre Channel paths by the same link; here its paths are iSCSI.

use anyhow::{Result, bail};

use super::health;
use crate::net;
use crate::scene::{INITIATOR, LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{Lun, Offer};

/// The UUID of the namespace. Its link has it.
const UUID: &str = "6f1d9c1e-0f0c-4c5c-9a5e-4b3f0a7d2e11";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("device/nvme-over-tcp", |stage| {
            stage.node.put("/root/connect", 0o755, include_bytes!("../../guest/nvme-over-tcp"))?;
            stage.node.ok(&format!("truncate --size {LUN_SIZE} /var/namespace; /root/connect {UUID}"))?;
            there_and_back(stage, &format!("/dev/disk/by-id/nvme-uuid.{UUID}"))
        }),
        Scenario::new("device/a-map-of-multipathd", |stage| {
            let lun = stage.lun();
            stage.target.stop();
            stage.target.offer(Offer::open(vec![Lun::new(1, lun)]))?;
            stage.node.put("/root/attach", 0o755, include_bytes!("../../guest/attach"))?;
            let link = stage.node.ok(&format!(
                "set -e; printf 'defaults {{\n find_multipaths no\n user_friendly_names yes\n}}\n' >/etc/multipath.conf
                 systemctl restart multipathd; /root/attach {} {INITIATOR} >/dev/null; multipath -v0; udevadm settle
                 ls /dev/disk/by-id/dm-uuid-mpath-*",
                net::Path::A.portal()
            ))?;
            there_and_back(stage, &link)
        }),
    ]
}

/// Moves etcd to the disk and back.
fn there_and_back(stage: &Stage, link: &str) -> Result<()> {
    stage.configure(&Wanted { device: Some(link.into()), ..Wanted::default() })?;
    stage.apply()?;
    stage.is_on_disk()?;
    stage.node.ok("etcdctl put /on/the/disk yes")?;
    println!(
        "        the record names {}",
        stage.node.ok("jq --raw-output .wwid /var/lib/etcd-lun/authority.json")?
    );
    // This node's units are not those of a boot.
    let found = health::failing(stage)?;
    if found.iter().any(|check| check != "units") {
        bail!("`health` with etcd on {link}: {found:?}");
    }
    stage.node.ok("systemctl stop etcd.service var-lib-etcd.mount; systemctl reset-failed etcd.service")?;
    stage.apply()?;
    stage.is_on_disk()?;
    let rollback = stage.agent("rollback")?;
    if rollback.code != 0 {
        bail!("`rollback` from {link}: {rollback}");
    }
    stage.has_kept("/on/the/disk")
}

//! Boots on the map: the first one migrates the data onto it, another one finds one path only.

use anyhow::{Context, Result};

use super::super::boot as boots;
use super::client::Client;
use super::{
    add, as_promised, is_on_map, is_well, names_missing, never_shut_down, promise, settings, wanted, works,
};
use crate::delivery::{self, EtcdRunner, Root};
use crate::net::{Cut, Path};
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenario() -> Scenario {
    Scenario::new("paths/boot", boot)
}

/// The path that is cut when the node boots.
const CUT: Path = Path::B;

fn boot(stage: &mut Stage) -> Result<()> {
    let two = wanted(stage);
    let wanted = Wanted { portals: two.portals, target: two.target, wwid: two.wwid, ..boots::pool() };
    let settings = settings(stage);
    let disk = boots::delivered(stage, &wanted, EtcdRunner::Unit)?;
    let disk = delivery::change(&stage.bed, "paths", &disk, |root: &Root| {
        let enable = "echo enable multipathd.service >/etc/systemd/system-preset/10-bed.preset";
        root.run(&format!("{settings}{enable}"), &[])
    })?;
    stage.offer_luns(boots::NODES.len())?;
    stage.change_node(boots::node(stage, boots::NODES[0], &disk)?);
    stage.node.power_on()?;
    on_map_before_etcd(stage, 2).context("the boot that migrates")?;
    is_well(stage)?;
    let client = Client::begin(stage)?;
    let (took, waited) = client.during(|| {
        stage.node.power_off()?;
        stage.bed.net.cut(CUT, Cut::Drop)?;
        stage.node.power_on()?;
        boots::ran_before_etcd(&stage.node)
    })?;
    println!("        a boot with one path: etcd-lun.service took {:.0} s; {waited}", took.as_secs_f64());
    on_map_before_etcd(stage, 1).context("the boot with one path")?;
    names_missing(stage, CUT)?;
    let promise = promise(stage)?;
    let ((), waited) = client.during(|| {
        stage.bed.net.repair()?;
        add(stage, CUT)?;
        works(stage, 2)
    })?;
    as_promised("the other path comes", &waited, promise)?;
    is_well(stage)?;
    client.end()?;
    never_shut_down(stage)
}

/// Checks that etcd started on the map after etcd-lun, and that so many paths work.
fn on_map_before_etcd(stage: &Stage, paths: usize) -> Result<()> {
    boots::ran_before_etcd(&stage.node)?;
    is_on_map(stage)?;
    works(stage, paths)
}

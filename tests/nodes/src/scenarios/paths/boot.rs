//! Boots on the map: the first one migrates the data onto it, another one finds one path only; and a shutdown without any.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::boot as boots;
use super::client::Client;
use super::{
    BOTH, OWN, add, as_promised, is_on_map, is_well, names_missing, never_shut_down, promise, wanted, works,
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
    let wanted = pool(stage);
    let disk = boots::delivered(stage, &wanted, EtcdRunner::Unit)?;
    // What `mpathconf --enable` writes on a Red Hat node, whose unit the object brings.
    let disk = delivery::change(&stage.bed, "paths", &disk, |root: &Root| root.run(OWN, &[]))?;
    stage.offer_luns(boots::NODES.len())?;
    stage.change_node(boots::node(stage, boots::NODES[0], &disk)?);
    stage.node.power_on()?;
    let took = boots::ran_before_etcd(&stage.node)?;
    println!("        the boot that migrates: etcd-lun.service took {:.0} s", took.as_secs_f64());
    on_map(stage, 2).context("the boot that migrates")?;
    is_well(stage)?;
    let client = Client::begin(stage)?;
    let (took, waited) = client.during(|| {
        stage.node.power_off()?;
        stage.bed.net.cut(CUT, Cut::Drop)?;
        stage.node.power_on()?;
        boots::ran_before_etcd(&stage.node)
    })?;
    println!("        a boot with one path: etcd-lun.service took {:.0} s; {waited}", took.as_secs_f64());
    on_map(stage, 1).context("the boot with one path")?;
    names_missing(stage, CUT)?;
    let promise = promise(stage, Cut::Drop)?;
    let ((), waited) = client.during(|| {
        stage.bed.net.repair()?;
        add(stage, CUT)?;
        works(stage, 2)
    })?;
    as_promised("the other path comes", &waited, promise)?;
    is_well(stage)?;
    let (took, waited) = client.during(|| {
        stage.node.ok(NEVER_TAKEN)?;
        let took = shut_down_without_paths(stage)?;
        stage.bed.net.repair()?;
        stage.node.power_on()?;
        boots::ran_before_etcd(&stage.node)?;
        Ok(took)
    })?;
    println!("        a shutdown without any path took {:.0} s; {waited}", took.as_secs_f64());
    on_map(stage, 1).context("the boot with a path that multipathd does not take")?;
    stage
        .node
        .ok("rm /etc/multipath/conf.d/never.conf /etc/udev/rules.d/99-never.rules; multipathd reconfigure")?;
    on_map(stage, 2).context("after the boot")?;
    client.end()?;
    never_shut_down(stage)
}

/// Lets udev say of the second disk that multipath has it, and multipathd not take it.
const NEVER_TAKEN: &str = "printf 'blacklist {\\n devnode \"^sdb$\"\\n}\\n' >/etc/multipath/conf.d/never.conf
    echo 'KERNEL==\"sdb\", ENV{DM_MULTIPATH_DEVICE_PATH}=\"1\"' >/etc/udev/rules.d/99-never.rules; sync";

/// Without any path the map queues etcd's writes for an hour. A shutdown must not wait for that.
pub(in super::super) fn shut_down_without_paths(stage: &mut Stage) -> Result<Duration> {
    for path in BOTH {
        stage.bed.net.cut(path, Cut::Drop)?;
    }
    works(stage, 0)?;
    let begun = Instant::now();
    stage.node.power_off()?;
    Ok(begun.elapsed())
}

/// The config of the pool, with two portals and each node's WWID.
pub(in super::super) fn pool(stage: &Stage) -> Wanted {
    let pool = boots::pool();
    let mut number = 1;
    let with_wwid = |line: &str| {
        let is_lun = line.starts_with("lun = ");
        number += u32::from(is_lun);
        if is_lun { format!("{line}\nwwid = {:?}\n", stage.wwid(number)) } else { format!("{line}\n") }
    };
    let more = pool.more.lines().map(with_wwid).collect();
    Wanted { attach_timeout: pool.attach_timeout, more, ..wanted(stage) }
}

/// Checks that etcd serves from the map, and that so many paths work.
fn on_map(stage: &Stage, paths: usize) -> Result<()> {
    is_on_map(stage)?;
    works(stage, paths)
}

//! The node's etcd as one of three members, while a client writes to all of them. At the end of each scenario
//! the client's history is checked: no member lacks a write that was acknowledged, no read went back, and all
//! members have the same data.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::boot::static_pod::runs_on_lun;
use super::{held, pod, rollback};
use crate::cluster::certificates::{BUNDLE, ON_NODE, Purpose, file};
use crate::cluster::{Cluster, judge};
use crate::delivery::EtcdRunner;
use crate::host;
use crate::image::HOSTNAME;
use crate::net::{Machine, Path};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;

/// How long the target is away. Then etcd on the node must have lost its leadership, and the others must have
/// written for a while.
const AWAY: Duration = Duration::from_secs(30);

/// A config with which etcd-lun can ask the other members. For a unit there is no default for certificates.
fn wanted() -> Wanted {
    let path = |file: &str| format!("{ON_NODE}/{file}");
    let cluster = format!(
        "client_url = \"https://{}:2379\"\nca = {:?}\ncert = {:?}\nkey = {:?}\n",
        Path::Management.address(Machine::Node),
        path(BUNDLE),
        path(&file(Purpose::Peer, HOSTNAME, "crt")),
        path(&file(Purpose::Peer, HOSTNAME, "key"))
    );
    Wanted { cluster, ..Wanted::default() }
}

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("cluster/power-cut", power_cut),
        Scenario::new("cluster/migrate-and-roll-back", migrate_and_roll_back),
        Scenario::new("cluster/target-lost", target_lost),
    ]
}

/// By hand, with the others up. Each time the node's member is the leader, which is the worst case.
fn migrate_and_roll_back(stage: &mut Stage) -> Result<()> {
    stage.configure(&wanted())?;
    let cluster = Cluster::around(&stage.bed, &stage.node, EtcdRunner::Unit)?;
    cluster.lead()?;
    let client = cluster.client()?;
    let (migration, _) = cluster.during(&client, "the migration", || {
        stage.apply()?;
        stage.is_on_lun()
    })?;
    cluster.lead()?;
    let (rollback, _) = cluster.during(&client, "the rollback", || {
        let output = stage.agent("rollback")?;
        if output.code != 0 {
            bail!("`etcd-lun rollback` should have succeeded: {output}");
        }
        stage.is_untouched()
    })?;
    judge(client, &[migration, rollback]).map(drop)
}

/// The power fails while the migration has stopped etcd, and after the commit point of a rollback. Each time
/// the boot finishes what was begun.
fn power_cut(stage: &mut Stage) -> Result<()> {
    stage.configure(&wanted())?;
    stage.node.ok(scene::AT_BOOT)?;
    let cluster = Cluster::around(&stage.bed, &stage.node, EtcdRunner::Unit)?;
    let client = cluster.client()?;
    let (migration, ()) = cluster.during(&client, "a migration with a power cut", || {
        held::stays_at_the_last_copy(&stage.node, "apply")?;
        stage.node.power_cut();
        stage.node.power_on()?;
        stage.wait_until("etcdctl --command-timeout 2s endpoint health")?;
        stage.is_on_lun()
    })?;
    let (back, _) = cluster.during(&client, "a rollback with a power cut", || {
        rollback::stuck_after_the_commit(stage)?;
        stage.node.power_cut();
        stage.node.power_on()?;
        stage.wait_until("etcdctl --command-timeout 2s endpoint health")?;
        stage.is_untouched()
    })?;
    judge(client, &[migration, back]).map(drop)
}

/// The target is away for a while after the migration of a static pod. The others go on, and so does the
/// node's member when the target is back.
fn target_lost(stage: &mut Stage) -> Result<()> {
    pod::hand_over(stage)?;
    let cluster = Cluster::around(&stage.bed, &stage.node, EtcdRunner::StaticPod)?;
    cluster.lead()?;
    let client = cluster.client()?;
    let (migration, ()) = cluster.during(&client, "the migration", || {
        stage.apply()?;
        runs_on_lun(stage)
    })?;
    cluster.lead()?;
    let (outage, ()) = cluster.during(&client, "an outage of the target", || {
        stage.target.stop();
        std::thread::sleep(AWAY);
        stage.target.restart()?;
        serves_again(stage)
    })?;
    runs_on_lun(stage)?;
    let (from, to) = (outage.from, outage.to);
    let silent = judge(client, &[migration, outage])?.history.longest_gap(from, to);
    if silent > AWAY / 2 {
        bail!("the other members did not go on: no write was acknowledged for {:.1} s", silent.as_secs_f32());
    }
    Ok(())
}

/// Waits until the node's member accepts writes itself.
fn serves_again(stage: &Stage) -> Result<()> {
    host::poll(Duration::from_secs(120), Duration::from_secs(1), || {
        let output = stage.node.run("etcdctl --command-timeout 5s put /after/the/outage yes")?;
        Ok((output.code == 0).then_some(()))
    })?
    .context("the node's member does not accept writes after the target came back")
}

//! The day of an update, and the way back, on a pool of three nodes in three virtual machines.
//!
//! A script stands in for the Machine Config Daemon: it writes an object on a running node. The bed stands in for the operator: it
//! reboots one node after the other, and drains none. `$ETCD_LUN_BED_EARLIER` names the program of before. In its copy a key of the new
//! config has another name: it does not know that key. Without the variable there is no such scenario: three nodes at once take two
//! processors a quarter of an hour.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::boot::{self, NODES};
use crate::cluster::client::{Client, Endpoint};
use crate::cluster::pool::{self, Pool};
use crate::cluster::seat::Seat;
use crate::cluster::{Span, during, judge};
use crate::delivery::{EtcdRunner, ignition_of, write_on};
use crate::desk::Desk;
use crate::host;
use crate::node::Node;
use crate::object;
use crate::registry::{Pushed, Registry};
use crate::scene::{LIMIT, PROGRAM, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

const PID: &str = "systemctl show --property MainPID --value etcd.service";

pub(super) fn scenarios() -> Vec<Scenario> {
    let Some(program) = std::env::var_os("ETCD_LUN_BED_EARLIER").map(PathBuf::from) else {
        return Vec::new();
    };
    vec![Scenario::new("update/of-a-pool", move |stage| of_a_pool(stage, &program))]
}

/// A program, and the object that brings it.
struct Release {
    program: Pushed,
    file: String,
    ignition: String,
}

impl Release {
    /// The program renders its object itself.
    fn make(stage: &Stage, registry: &Registry, wanted: &Wanted, program: &Path) -> Result<Self> {
        let program = registry.push(program)?;
        let dir = stage.bed.run.dir().join(&program.sum);
        let object = object::by_image(&dir, &program.program, wanted, &program)?;
        let file = format!("{}/object.yaml", dir.display());
        fs::write(&file, &object)?;
        Ok(Self { program, file, ignition: ignition_of(&object)?.to_string() })
    }

    fn is_in_place(&self, node: &Node) -> Result<()> {
        node.ok(&format!("echo {}  {PROGRAM} | sha256sum --check", self.program.sum)).map(drop)
    }
}

fn of_a_pool(stage: &mut Stage, program: &Path) -> Result<()> {
    // The first node of the pool has its addresses.
    stage.node.power_cut();
    stage.offer_luns(NODES.len())?;
    let mut registry = Registry::start(&stage.bed)?;
    let cluster = format!("client_url = \"http://127.0.0.1:2379\"\n{}", pool::questions());
    let before = Wanted { cluster, attach_timeout: "5min".into(), ..boot::pool() };
    let wanted = Wanted { max_switch: Some("50s".into()), ..before.clone() };
    let one = Release::make(stage, &registry, &before, &earlier(stage, program)?)?;
    let mut two = Release::make(stage, &registry, &wanted, &stage.binary)?;
    // Every unit and every drop-in begins with this section.
    two.ignition = two.ignition.replace(r"[Unit]\n", r"[Unit]\nAfter=of-version-two.target\n");
    let pool = Pool::boot(&stage.bed, EtcdRunner::Unit, |node, seat| {
        registry.introduce(node)?;
        pool::link_certificate(node, seat)?;
        write_on(node, &one.ignition)?;
        // Its etcd begins on the LUN.
        node.ok("systemctl daemon-reload; systemctl start --no-block etcd-lun")?;
        boot::wait_for(node, "etcd-lun.service", "active", LIMIT)?;
        node.ok("findmnt /var/lib/etcd").map(drop)
    })?;
    let desk = Desk::new(&stage.bed, &stage.binary, &wanted, &pool.names())?;
    let endpoints = pool.seats.iter().map(Seat::endpoint).collect();
    let mut day = Day { pool, endpoints, spans: Vec::new() };
    let played = day.play(&mut registry, &desk, &one, &two);
    if played.is_err() {
        day.pool.collect("update")?;
    }
    played
}

struct Day {
    pool: Pool,
    endpoints: Vec<Endpoint>,
    spans: Vec<Span>,
}

impl Day {
    fn play(&mut self, registry: &mut Registry, desk: &Desk, one: &Release, two: &Release) -> Result<()> {
        let client = Client::begin(&self.pool.namespace, &self.endpoints, &NODES)?;
        // The first node has the program beforehand, the second one has not, and the registry is away.
        Desk::says(&desk.run("fetch", &[&two.file, "--node", NODES[0]])?, 0, &["fetched"])?;
        registry.stop();
        Desk::says(&desk.run("fetch", &[&two.file])?, 1, &["was there", "COULD NOT", "connection refused"])?;
        self.change(&client, 0, two, two)?;
        self.change(&client, 1, two, one)?;
        is_cared_for(&self.pool.nodes[1])?;
        registry.restart()?;
        let second = &self.pool.nodes[1];
        let etcd = second.ok(PID)?;
        host::poll(LIMIT, Duration::from_secs(2), || Ok(two.is_in_place(second).ok()))?
            .context("the second node does not get the new program by itself")?;
        if second.ok(PID)? != etcd {
            bail!("etcd was down once more for the new program");
        }
        self.change(&client, 2, two, two)?;
        self.is_well()?;
        // The way back needs no registry, and the older program reads what the newer one has written.
        registry.stop();
        for at in 0..NODES.len() {
            self.change(&client, at, one, one).context("on the way back")?;
        }
        self.is_well()?;
        self.pool.nodes[2].ok("etcd-lun rollback && ! findmnt /var/lib/etcd")?;
        judge(client, &self.spans).map(drop)
    }

    /// A node gets an object and boots. Its member serves when the boot is complete, by this program.
    fn change(&mut self, client: &Client, at: usize, to: &Release, by: &Release) -> Result<()> {
        let Self { pool, endpoints, spans } = self;
        let (node, name) = (&mut pool.nodes[at], NODES[at]);
        write_on(node, &to.ignition)?;
        // The program may not know the config that is there now. The second verb ends each shutdown.
        node.ok("etcd-lun mark && etcd-lun let-go")?;
        let (span, ()) = during(client, &pool.namespace, endpoints, "the boot", name, || {
            node.reboot()?;
            node.ok("etcdctl --command-timeout 30s endpoint health && findmnt /var/lib/etcd").map(drop)
        })?;
        spans.push(span);
        by.is_in_place(node)
    }

    /// An emulated disk may be too slow.
    fn is_well(&self) -> Result<()> {
        let rows = r#"[.health.rows[] | select(.outcome != "ok" and .check != "iowait")]"#;
        let is_well = format!("etcd-lun health --json | jq --exit-status '{rows} == []'");
        self.pool.nodes.iter().try_for_each(|node| node.ok(&is_well).and_then(|_| verbs::plans_nothing(node)))
    }
}

/// What looks after a moved node works with the program of before, which does not know the config, and so does another boot.
fn is_cared_for(node: &Node) -> Result<()> {
    node.ok("systemctl show -p After etcd-lun.service etcd.service | grep -c of-version-two | grep -x 2")?;
    node.ok("journalctl -b -u etcd-lun.service | grep 'takes the copy of the last one.*max_switch'")?;
    node.ok("systemctl start etcd-lun-health.service && systemctl start etcd-lun-lost.service")?;
    node.ok("etcd-lun status && etcd-lun health --json | jq --exit-status .health")?;
    node.ok("systemctl restart etcd-lun.service && findmnt /var/lib/etcd").map(drop)
}

/// The program of before. A comparison with a name may have its first eight bytes as a number.
fn earlier(stage: &Stage, program: &Path) -> Result<PathBuf> {
    let path = stage.bed.run.dir().join("program.earlier");
    fs::copy(program, &path)?;
    let mut program = fs::read(&path)?;
    while let Some(at) = program.windows(8).position(|bytes| bytes == b"max_swit") {
        program[at + 6] = b'o';
    }
    fs::write(&path, program)?;
    Ok(path)
}

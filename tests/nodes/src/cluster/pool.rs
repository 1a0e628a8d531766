//! Three nodes in three virtual machines, whose etcds are one cluster, and a target with a LUN for each.

use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result};

use super::certificates::{self, BUNDLE, Certificates, ON_NODE, Purpose};
use super::namespace;
use super::node::{ANSWERS, prepare};
use super::seat::Seat;
use crate::bed::Bed;
use crate::delivery::{self, EtcdRunner};
use crate::etcd;
use crate::image::{ETCD_POD, networks};
use crate::net::{Machine, Path as Network};
use crate::node::Node;
use crate::scenarios::boot::NODES;
use crate::target::{self, Lun, Offer, Target};
use crate::vm::Options;
use crate::{scene, suite};

/// How many keys the cluster has.
pub const KEYS: usize = 2000;

/// The node's certificate and key for questions to etcd, without the ending.
const OWN: &str = "/etc/etcd-lun/peer";

/// The nodes and their places in the cluster.
#[derive(Debug)]
pub struct Pool {
    /// The nodes, in the order of [`NODES`].
    pub nodes: Vec<Node>,
    /// Their members.
    pub seats: Vec<Seat>,
    /// The network namespace of the target and of the nodes' links.
    pub namespace: PathBuf,
}

impl Pool {
    /// Boots the nodes, calls `ready` for each of them before its etcd is a member, and writes the keys.
    pub fn boot(
        bed: &Rc<Bed>,
        runner: EtcdRunner,
        ready: impl Fn(&Node, &Seat) -> Result<()>,
    ) -> Result<Self> {
        let seats: Vec<Seat> = NODES
            .iter()
            .zip(Machine::NODES)
            .map(|(name, machine)| Seat::new(name, &Network::Management.address(machine)))
            .collect();
        let names: Vec<(&str, &str)> =
            seats.iter().map(|seat| (seat.name.as_str(), seat.address.as_str())).collect();
        let certificates = Certificates::make(&bed.run.dir().join("certificates"), &names)?;
        let disk = disk(bed)?;
        let mut nodes = Vec::new();
        for ((name, machine), seat) in NODES.iter().zip(Machine::NODES).zip(&seats) {
            let options = Options { hostname: Some(name), machine, ..Options::default() };
            let mut node = Node::off(bed, name, &disk, options)?;
            node.power_on()?;
            ready(&node, seat)?;
            prepare(&node, runner, seat, &certificates, &seats)?;
            println!("bed: {name} has booted");
            nodes.push(node);
        }
        // No etcd is ready before another one runs.
        nodes.iter().try_for_each(|node| node.ok(&begin(runner)).map(drop))?;
        nodes.iter().try_for_each(|node| node.ok(ANSWERS).map(drop))?;
        let (node, seat) = nodes.first().zip(seats.first()).context("there is no node")?;
        etcd::put_keys_at(node, &seat.endpoint().address, KEYS)?;
        Ok(Self { nodes, seats, namespace: namespace(bed) })
    }

    /// Keeps what shows the cause of a failure.
    pub fn collect(&self, what: &str) -> Result<()> {
        for (node, seat) in self.nodes.iter().zip(&self.seats) {
            let dir = suite::failure_dir().join(format!("{what}-{}", seat.name));
            node.collect(&dir)?;
            println!("bed: evidence: {}", dir.display());
        }
        Ok(())
    }

    /// The names and the addresses of the nodes.
    pub fn names(&self) -> Vec<(&str, String)> {
        self.seats.iter().map(|seat| (seat.name.as_str(), seat.address.clone())).collect()
    }
}

/// The script that starts etcd, now and at each boot.
fn begin(runner: EtcdRunner) -> String {
    match runner {
        EtcdRunner::Unit => {
            "systemctl enable --quiet etcd.service; systemctl start --no-block etcd.service".into()
        }
        EtcdRunner::StaticPod => format!(
            "systemctl disable --quiet --now etcd.service; mkdir -p /etc/kubernetes/manifests; chmod 700 /etc/kubernetes/manifests
             install -m 600 /{ETCD_POD} /etc/kubernetes/manifests/
             systemctl enable --quiet kubelet.service; systemctl start --no-block kubelet.service"
        ),
    }
}

/// One target with these LUNs, of this size in bytes.
pub fn offer(bed: &Rc<Bed>, numbers: RangeInclusive<u32>, size: u64) -> Result<Target> {
    let luns: Vec<Lun> =
        numbers.map(|number| Lun::new(number, bed.run.dir().join(format!("lun{number}")))).collect();
    luns.iter().try_for_each(|lun| target::blank(&lun.file, size))?;
    Target::start(bed, Offer { chap: Some(scene::chap()), ..Offer::open(luns) })
}

/// The lines of the table `cluster` for these nodes. Each has its own certificate in the same place.
pub fn questions() -> String {
    format!("ca = \"{ON_NODE}/{BUNDLE}\"\ncert = \"{OWN}.crt\"\nkey = \"{OWN}.key\"\n")
}

/// Gives the node's certificate and key the names that [`questions`] has for all nodes.
pub fn link_certificate(node: &Node, seat: &Seat) -> Result<()> {
    let link = |ending| {
        format!("ln -s {ON_NODE}/{} {OWN}.{ending}", certificates::file(Purpose::Peer, &seat.name, ending))
    };
    node.ok(&format!("mkdir -p /etc/etcd-lun && {} && {}", link("crt"), link("key"))).map(drop)
}

/// A disk like the image's, with the addresses of all three nodes.
fn disk(bed: &Bed) -> Result<PathBuf> {
    delivery::change(bed, "pool", &bed.image.disk, |root| {
        for (path, text) in Machine::NODES.iter().flat_map(|machine| networks(*machine)) {
            fs::write(root.path(&path), text)?;
        }
        Ok(())
    })
}

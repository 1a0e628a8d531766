//! Boots of nodes to which one rendered object was delivered. The nodes do almost everything themselves.
//!
//! Each scenario has nodes of its own. A delivered disk takes long to make, so it is made once in a run and
//! copied.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::delivery::{self, EtcdRunner, Root};
use crate::host;
use crate::node::{Node, since_start};
use crate::object;
use crate::registry::Pushed;
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;
use crate::vm::Options;

mod gone;
mod pool;
pub(super) mod static_pod;

pub(super) use gone::reboots_with_target_gone;

pub(super) fn scenarios() -> Vec<Scenario> {
    [pool::scenarios(), gone::scenarios(), static_pod::scenarios()].into_iter().flatten().collect()
}

/// The nodes that the object lists, in the order of their LUNs.
pub const NODES: [&str; 3] = ["master-0", "master-1", "master-2"];

const LIMIT: Duration = Duration::from_secs(120);

/// One config for three nodes. The time-out for an unreachable target is short, because many boots wait for
/// it.
pub fn pool() -> Wanted {
    let entry = |number: usize| {
        let name = NODES[number];
        format!(
            "\n[[node]]\nhostname = {name:?}\ninitiator = {:?}\nlun = {}\n",
            initiator(number),
            number + 1
        )
    };
    Wanted { attach_timeout: "40s".into(), more: entry(1) + &entry(2), ..Wanted::default() }
}

fn initiator(number: usize) -> String {
    format!("iqn.1994-05.com.redhat:master{number}")
}

/// An image that no registry has. The nodes have a copy of the program, except in `delivery/*`.
const NOWHERE: &str =
    "registry.invalid/etcd-lun@sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// The MachineConfig for a config.
pub fn object(stage: &Stage, wanted: &Wanted) -> Result<String> {
    let dir = stage.bed.run.dir().join("render");
    let secrets = dir.to_str().context("the run's directory is not UTF-8")?;
    rendered(stage, wanted, &["machineconfig", "--image", NOWHERE, "--secrets-from", secrets])
}

/// The MachineConfig for a config, whose program is in this image.
pub(super) fn object_with(stage: &Stage, wanted: &Wanted, of: &Pushed) -> Result<String> {
    object::by_image(&stage.bed.run.dir().join("render"), &stage.binary, wanted, of)
}

/// The policy module for a config.
pub(super) fn module(stage: &Stage, wanted: &Wanted) -> Result<String> {
    rendered(stage, wanted, &["policy"])
}

fn rendered(stage: &Stage, wanted: &Wanted, what: &[&str]) -> Result<String> {
    object::rendered(&stage.bed.run.dir().join("render"), &stage.binary, wanted, what)
}

/// A new disk with the object, and with the current etcd data of the stage's own node.
pub(super) fn delivered(stage: &Stage, wanted: &Wanted, runs: EtcdRunner) -> Result<PathBuf> {
    let config = blake3::hash(wanted.render().0.as_bytes()).to_hex();
    let name = format!("delivered-{runs:?}-{}", &config[..8]).to_lowercase();
    let disk = stage.bed.run.dir().join(format!("{name}.raw"));
    if disk.exists() {
        return Ok(disk);
    }
    let object = object(stage, wanted)?;
    let agent = stage.binary.clone();
    with_data(stage, &name, &object, runs, move |root| root.keep_program(&agent))
}

/// A new disk with this object, with the current etcd data of the stage's own node, and with what `finish` writes.
pub(super) fn with_data(
    stage: &Stage,
    name: &str,
    object: &str,
    runs: EtcdRunner,
    finish: impl FnOnce(&Root) -> Result<()> + Send,
) -> Result<PathBuf> {
    let data = etcd_data(stage)?;
    delivery::deliver(&stage.bed, name, &stage.bed.image.disk, object, |root: &Root| {
        root.run("base64 --decode | tar -C /var/lib/etcd -xz", data.as_bytes())?;
        root.enable_etcd(runs)?;
        finish(root)?;
        root.label("/etc/systemd /etc/kubernetes /var/lib/etcd")
    })
}

/// The data directory of the stage's own node, as a tar archive in base64.
fn etcd_data(stage: &Stage) -> Result<String> {
    stage.node.ok("systemctl stop etcd.service")?;
    // Not through `Node::run`, because the archive would fill the transcript.
    let tar = stage.node.ssh()?.run("tar -C /var/lib/etcd -cSz . | base64", &[], LIMIT)?;
    if tar.stdout.is_empty() {
        bail!("cannot take etcd's data from the node: {tar}");
    }
    Ok(tar.stdout)
}

/// A node with this host name, off.
pub(super) fn node(stage: &Stage, name: &'static str, disk: &Path) -> Result<Node> {
    Node::off(&stage.bed, name, disk, Options { hostname: Some(name), ..Options::default() })
}

/// The properties of a unit, as systemd reports them.
pub(super) struct Unit(HashMap<String, String>);

impl Unit {
    pub fn of(node: &Node, name: &str) -> Result<Self> {
        let text = node.ok(&format!("systemctl show {name}"))?;
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Ok(Self(lines.map(|(key, value)| (key.to_string(), value.to_string())).collect()))
    }

    pub fn get(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_default()
    }

    /// The time of an event, in microseconds since the kernel's start; 0 if it has not happened.
    pub fn time(&self, what: &str) -> Result<u64> {
        let key = format!("{what}TimestampMonotonic");
        self.get(&key).parse().with_context(|| format!("{key} is {:?}", self.get(&key)))
    }

    fn state(&self) -> String {
        format!("{} ({}, {})", self.get("ActiveState"), self.get("SubState"), self.get("Result"))
    }
}

/// Checks that a later boot only mounted the LUN again.
pub(super) fn nothing_to_do(stage: &Stage) -> Result<()> {
    verbs::plans_nothing(&stage.node).context("after the second boot")?;
    // Each mount counts. The timer counts too, so the number may be higher.
    let activations = activations(&stage.node)?;
    if activations < 2 {
        bail!("{activations} activations are counted at the second boot");
    }
    Ok(())
}

/// Checks that `etcd-lun.service` has finished and that every unit that can start etcd started later. Returns
/// how long the service took.
pub(super) fn ran_before_etcd(node: &Node) -> Result<Duration> {
    let service = Unit::of(node, "etcd-lun.service")?;
    if service.get("ActiveState") != "active" {
        bail!("etcd-lun.service is {}", service.state());
    }
    let done = service.time("ExecMainExit")?;
    for name in ["etcd.service", "crio.service", "kubelet.service"] {
        let unit = Unit::of(node, name)?;
        // The process, and not the unit: one that fails against the fence is never inactive between its starts.
        let begun = unit.time("ExecMainStart")?;
        // Where the kubelet runs etcd, nobody starts etcd.service.
        if begun == 0 && unit.get("UnitFileState") != "enabled" {
            continue;
        }
        if begun < done {
            bail!("{name} started at {begun} us, {} us before etcd-lun.service had finished", done - begun);
        }
    }
    Ok(Duration::from_micros(done - service.time("ExecMainStart")?))
}

/// Waits until a unit is in this state.
pub(super) fn wait_for(node: &Node, name: &str, state: &str, limit: Duration) -> Result<()> {
    let seen = host::poll(limit, Duration::from_secs(1), || {
        Ok((Unit::of(node, name)?.get("ActiveState") == state).then_some(()))
    })?;
    match seen {
        Some(()) => Ok(()),
        None => {
            bail!("{name} is {} after {} s, expected {state}", Unit::of(node, name)?.state(), limit.as_secs())
        }
    }
}

/// When a unit's first start in this boot ended, with or without success, since the kernel's start.
fn first_end(node: &Node, name: &str) -> Result<Duration> {
    node.journal(&format!("UNIT={name}"))?
        .iter()
        .filter(|entry| entry.get("JOB_RESULT").is_some())
        .find_map(since_start)
        .with_context(|| format!("the journal does not show that the start of {name} ended"))
}

/// The record's use counter.
pub(super) fn activations(node: &Node) -> Result<u64> {
    let text = node.ok("jq .activations /var/lib/etcd-lun/authority.json")?;
    text.parse().with_context(|| format!("the record's activations are {text:?}"))
}

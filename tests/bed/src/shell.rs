//! A node for a person: with etcd on its local disk and a target, or after the boot that an object of that person's brought.

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::rc::Rc;

use anyhow::{Context, Result};
use clap::Args;

use crate::bed::Bed;
use crate::delivery::{self, Root, Runs};
use crate::net::{self, Machine};
use crate::node::Node;
use crate::target::{self, Lun, Offer, Target};
use crate::vm::{Options, Selinux};
use crate::{etcd, scene};

const KEYS: usize = 1000;

/// What ssh(1) exits with when the connection is lost: a reboot, or somebody's `poweroff`.
const LOST: i32 = 255;

/// What the node is to be like.
#[derive(Debug, Args)]
pub struct Wish {
    /// The static etcd-lun binary, to be put into the node as /usr/local/bin/etcd-lun; not needed with --object.
    #[arg(long)]
    agent: Option<PathBuf>,
    /// A rendered MachineConfig: Ignition writes it to the node's disk, as the Machine Config Daemon would, and the node boots anew.
    #[arg(long)]
    object: Option<PathBuf>,
    /// What `render target` printed: a second machine is made a target by it, in place of the bed's own.
    #[arg(long)]
    target: Option<PathBuf>,
    /// The file that the script reads the secret of `target.chap` from.
    #[arg(long, requires = "target")]
    chap_file: Option<PathBuf>,
    /// The kubelet's stand-in runs etcd, from a manifest, once the object is there; else etcd.service does.
    #[arg(long, requires = "object")]
    static_pod: bool,
    /// SELinux enforces once the object is there.
    #[arg(long, requires = "object")]
    enforcing: bool,
}

/// Sets the node up and opens a shell in it, and another after each reboot.
pub fn open(bed: &Rc<Bed>, wish: &Wish) -> Result<ExitStatus> {
    // Read before anything that takes long.
    let read = |file: &Option<PathBuf>| {
        let text = |file: &PathBuf| {
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        file.as_ref().map(text).transpose()
    };
    let (object, script, secret) = (read(&wish.object)?, read(&wish.target)?, read(&wish.chap_file)?);
    let _storage = match script {
        Some(script) => Storage::Machine(make_target(bed, &script, secret.as_deref())?),
        None => Storage::Bed(offer(bed)?),
    };
    let mut node = Node::boot(bed, Options::default())?;
    etcd::start(&node)?;
    etcd::put_keys(&node, KEYS)?;
    if let Some(agent) = &wish.agent {
        scene::install(&node, agent)?;
    }
    match object {
        Some(object) => node = deliver(bed, node, &object, wish)?,
        None => {
            scene::configure(&node, &scene::Wanted::default())?;
            println!("bed: a config for the bed's own target is in place, /etc/etcd-lun/config.toml");
        }
    }
    println!("bed: a node with {KEYS} keys in its etcd. Reboot it as you like; leave with ^D.");
    loop {
        let status = node.ssh()?.interactive().status().context("cannot open a shell")?;
        if status.code() != Some(LOST) {
            return Ok(status);
        }
        node.wait_off()?;
        println!("bed: the node boots again");
        node.power_on()?;
    }
}

/// Lasts as long as the shell.
#[expect(dead_code, reason = "held for what is done when it is dropped")]
enum Storage {
    Bed(Target),
    Machine(Node),
}

/// The bed's own target.
fn offer(bed: &Rc<Bed>) -> Result<Target> {
    let file = bed.run.dir().join("lun1");
    target::blank(&file, scene::LUN_SIZE)?;
    let chap = scene::chap();
    println!(
        "bed: {} at {} has LUN 1 for {}; CHAP: {}, {}",
        target::IQN,
        net::Path::A.portal(),
        scene::INITIATOR,
        chap.user,
        chap.secret
    );
    Target::start(bed, Offer { chap: Some(chap), ..Offer::open(vec![Lun::new(1, file)]) })
}

/// A second machine, made a target by the script as its administrator would.
fn make_target(bed: &Rc<Bed>, script: &str, secret: Option<&str>) -> Result<Node> {
    let options = Options { memory_mib: 768, machine: Machine::Lio, ..Options::default() };
    let machine = Node::boot(bed, options)?;
    machine.put("/root/target.sh", 0o600, script.as_bytes())?;
    if let Some(secret) = secret {
        machine.put("/root/chap.secret", 0o600, secret.as_bytes())?;
    }
    let command = if secret.is_some() { "CHAP_FILE=chap.secret sh target.sh" } else { "sh target.sh" };
    println!("target# {command}\n{}", machine.ok(&format!("cd /root; {command} 2>&1"))?);
    println!("bed: its portal is {}:3260", net::Path::A.address(Machine::Lio));
    Ok(machine)
}

/// The node after the boot at which it has the object.
fn deliver(bed: &Rc<Bed>, mut node: Node, object: &str, wish: &Wish) -> Result<Node> {
    node.power_off()?;
    let runs = if wish.static_pod { Runs::StaticPod } else { Runs::Unit };
    let disk = delivery::deliver(bed, "delivered", node.vm().disk(), object, |root: &Root| {
        root.enable_etcd(runs)?;
        root.label("/etc /var")
    })?;
    let selinux = if wish.enforcing { Selinux::Enforcing } else { Selinux::Off };
    let mut node = Node::on(bed, "with-object", &disk, Options { selinux, ..Options::default() });
    println!("bed: the node has the object, and boots");
    node.power_on()?;
    Ok(node)
}

//! A shell in a node: either with etcd on the local disk and a target, or after a boot with the user's
//! MachineConfig.

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::rc::Rc;

use anyhow::{Context, Result};
use clap::Args;

use crate::bed::Bed;
use crate::delivery::{self, EtcdRunner, Root};
use crate::net::{self, Machine};
use crate::node::Node;
use crate::target::{self, Lun, Offer, Target};
use crate::vm::{Options, Selinux};
use crate::{etcd, scene};

const KEYS: usize = 1000;

/// The exit code of ssh(1) when the connection is lost, because of a reboot or a `poweroff`.
const LOST: i32 = 255;

/// The options of `bed shell`.
#[derive(Debug, Args)]
pub struct ShellOptions {
    /// The static etcd-lun binary. The bed copies it into the node. With --object it is the copy that an object with an
    /// image is looking for, so that the node needs no registry.
    #[arg(long)]
    agent: Option<PathBuf>,
    /// A rendered MachineConfig. Ignition writes it to the node's disk in place of the Machine Config Daemon,
    /// and the node boots again.
    #[arg(long)]
    object: Option<PathBuf>,
    /// The output of `render target`. A second machine runs this script and becomes the target, instead of
    /// the bed's own.
    #[arg(long)]
    target: Option<PathBuf>,
    /// The file with the secret of `target.chap`, for the script.
    #[arg(long, requires = "target")]
    chap_file: Option<PathBuf>,
    /// Run etcd as a static pod: the kubelet's stand-in runs it, from a manifest. Without this option
    /// etcd.service runs it.
    #[arg(long, requires = "object")]
    static_pod: bool,
    /// Boot with SELinux enforcing, after the object was put on the disk.
    #[arg(long, requires = "object")]
    enforcing: bool,
}

/// Sets up the node and opens a shell in it. Opens a new one after each reboot.
pub fn open(bed: &Rc<Bed>, options: &ShellOptions) -> Result<ExitStatus> {
    // Files are read first, so that a wrong path fails at once.
    let read = |file: &Option<PathBuf>| {
        let text = |file: &PathBuf| {
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        file.as_ref().map(text).transpose()
    };
    let (object, script, secret) =
        (read(&options.object)?, read(&options.target)?, read(&options.chap_file)?);
    let _storage = match script {
        Some(script) => Storage::Machine(make_target(bed, &script, secret.as_deref())?),
        None => Storage::Bed(offer(bed)?),
    };
    let mut node = Node::boot(bed, Options::default())?;
    etcd::start(&node)?;
    etcd::put_keys(&node, KEYS)?;
    if let Some(agent) = &options.agent {
        scene::install(&node, agent)?;
    }
    match object {
        Some(object) => node = deliver(bed, node, &object, options)?,
        None => {
            scene::configure(&node, &scene::Wanted::default())?;
            println!("bed: /etc/etcd-lun/config.toml is a config for the bed's own target");
        }
    }
    println!("bed: this is a node with {KEYS} keys in its etcd. You may reboot it. Leave the shell with ^D.");
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

/// The storage. It must exist as long as the shell.
#[expect(dead_code, reason = "dropping the value ends the storage")]
enum Storage {
    Bed(Target),
    Machine(Node),
}

/// Starts the bed's own target and prints what a config for it needs.
fn offer(bed: &Rc<Bed>) -> Result<Target> {
    let file = bed.run.dir().join("lun1");
    target::blank(&file, scene::LUN_SIZE)?;
    let chap = scene::chap();
    println!(
        "bed: target {} at portal {} has LUN 1 for initiator {}; CHAP user {}, secret {}",
        target::IQN,
        net::Path::A.portal(),
        scene::INITIATOR,
        chap.user,
        chap.secret
    );
    Target::start(bed, Offer { chap: Some(chap), ..Offer::open(vec![Lun::new(1, file)]) })
}

/// Boots a second machine and runs the script there, as an administrator of the target would.
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

/// Puts the object on the node's disk and boots the node again.
fn deliver(bed: &Rc<Bed>, mut node: Node, object: &str, options: &ShellOptions) -> Result<Node> {
    node.power_off()?;
    let runs = if options.static_pod { EtcdRunner::StaticPod } else { EtcdRunner::Unit };
    let disk = delivery::deliver(bed, "delivered", node.vm().disk(), object, |root: &Root| {
        root.enable_etcd(runs)?;
        options.agent.iter().try_for_each(|agent| root.keep_program(agent))?;
        root.label("/etc /var")
    })?;
    let selinux = if options.enforcing { Selinux::Enforcing } else { Selinux::Off };
    let mut node = Node::on(bed, "with-object", &disk, Options { selinux, ..Options::default() });
    println!("bed: the object is on the node's disk; the node boots");
    node.power_on()?;
    Ok(node)
}

//! The demo: a running node's etcd moves to a LUN, survives a reboot, and cannot start anywhere else. SELinux enforces.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::bed::Bed;
use crate::delivery;
use crate::etcd::{self, KeyHash};
use crate::node::Node;
use crate::object;
use crate::registry::Registry;
use crate::scene::{self, LUN_SIZE, Wanted};
use crate::target::{self, Lun, Offer, Target};
use crate::verbs;
use crate::vm::{Options, Selinux};

const KEYS: usize = 10_000;
/// By this file each boot starts etcd-lun.
const AT_BOOT: &str = "/etc/systemd/system/multi-user.target.d/50-etcd-lun.conf";
const DATA: &str = "/var/lib/etcd";

/// Plays the demo and prints each step. Returns an error if anything is not as expected.
pub fn play(bed: &Rc<Bed>, agent: &Path) -> Result<()> {
    let begun = Instant::now();
    let file = bed.run.dir().join("lun1");
    target::blank(&file, LUN_SIZE)?;
    let offer = Offer {
        chap: Some(scene::chap()),
        discovery_chap: Some(scene::discovery()),
        ..Offer::open(vec![Lun::new(1, file)])
    };
    let _target = Target::start(bed, offer)?;

    heading("A node boots and enforces SELinux, with etcd on its local disk");
    let mut node = Node::boot(bed, Options { selinux: Selinux::Enforcing, ..Options::default() })?;
    etcd::start(&node)?;
    let took = etcd::put_keys(&node, KEYS)?;
    let before = etcd::hash_now(&node)?;
    println!("{KEYS} keys were written in {:.1} s. Hash of all keys: {before}", took.as_secs_f32());
    show(&node, &format!("getenforce | grep Enforcing && findmnt --target {DATA}; ls -A {DATA}"))?;

    heading(
        "The object: config, secrets and units, and an image that has the program. It is rendered on your desk",
    );
    let wanted = Wanted { discovery_chap: Some(scene::discovery()), ..Wanted::default() };
    let registry = Registry::start(bed)?;
    let pushed = registry.push(agent)?;
    let object = object::by_image(&bed.run.dir().join("render"), agent, &wanted, &pushed)?;
    println!("\ndesk$ etcd-lun render machineconfig --secrets-from . --image {}", pushed.image);
    println!("  an object of {} bytes", object.len());
    registry.introduce(&node)?;
    // Debian's policy lets podman have no module loaded, and read no file of another label. On a node of OpenShift CRI-O has loaded
    // the first, and the root is the second.
    node.ok("modprobe -a overlay xfs; restorecon -R /etc/containers /var/lib/kubelet")?;
    delivery::write_on(&node, &delivery::ignition_of(&object)?.to_string())?;
    node.ok("systemctl daemon-reload")?;
    // Each step is done by hand first, to be watched.
    node.ok(&format!("mv {AT_BOOT} /root/at-boot"))?;
    show(&node, "cat /etc/etcd-lun/config.toml /etc/etcd-lun/program; ls -l /etc/etcd-lun")?;

    heading("The node fetches the program from the registry, and accepts it by its sha256");
    show(
        &node,
        "systemctl start etcd-lun-program.service; journalctl --sync; journalctl -o cat -u etcd-lun-program.service",
    )?;
    show(&node, "ls -lR /var/lib/etcd-lun; ls -l /usr/local/bin/etcd-lun")?;

    heading("The program brings its policy module. This compiles the node's policy, once");
    show(&node, "systemctl start etcd-lun-selinux.service; etcd-lun selinux status; getenforce")?;

    heading("What etcd-lun would do, and why");
    show(&node, "etcd-lun plan")?;

    heading("The migration");
    show(&node, "etcd-lun apply")?;
    on_lun(&node, before)?;
    show(&node, "etcd-lun status")?;

    heading("A second apply: there is nothing to do");
    show(&node, "etcd-lun plan")?;
    verbs::plans_nothing(&node)?;
    show(&node, "etcd-lun apply")?;
    on_lun(&node, before)?;

    heading(
        "The LUN unmounted: the directory below is immutable and holds no data, and etcd cannot start there",
    );
    show(&node, "systemctl stop etcd.service var-lib-etcd.mount")?;
    down_without_lun(&node)?;

    heading("A third apply mounts the LUN again. From now on the service does this at every boot");
    show(&node, "etcd-lun apply")?;
    on_lun(&node, before)?;
    node.ok(&format!("mv /root/at-boot {AT_BOOT}"))?;
    show(&node, &format!("cat {AT_BOOT}"))?;
    heading("The node reboots. The service mounts the LUN, and etcd starts");
    node.reboot()?;
    show(
        &node,
        "systemctl is-active etcd-lun.service; journalctl --sync; journalctl -b --no-pager -o cat -u etcd-lun.service",
    )?;
    on_lun(&node, before)?;

    heading(
        "How fast the LUN is, compared with the local disk. It need not be fast enough for etcd: the node is emulated",
    );
    show(&node, "etcd-lun bench --writes 200 --against /var/lib/etcd-lun || [ $? = 4 ]")?;

    heading("The node's health");
    show(&node, "etcd-lun health")?;
    show(
        &node,
        "grep -c ^type= /var/log/audit/audit.log && ! grep -h 'denied.*:etcd_lun' /var/log/audit/audit.log",
    )?;

    println!(
        "\nProven in {} s. etcd with {KEYS} keys moved to an iSCSI LUN that requires CHAP. Its hash is {before} before\n\
         the move, after it, and after a reboot. The LUN is mounted with _netdev and prjquota. Another apply has\n\
         nothing to do. Without the LUN etcd stays down and writes nothing. A boot starts etcd without manual help.\n\
         SELinux enforces, and has denied etcd-lun nothing.",
        begun.elapsed().as_secs()
    );
    Ok(())
}

fn heading(text: &str) {
    println!("\n=== {text}");
}

/// Prints a command, runs it in the node, and prints its output, as a terminal would show it. The command must succeed.
fn show(node: &Node, command: &str) -> Result<String> {
    println!("\nnode# {command}");
    let output = node.run_within(&format!("{{ {command}; }} 2>&1"), scene::LIMIT)?;
    for line in output.stdout.lines() {
        println!("  {line}");
    }
    if output.code != 0 {
        bail!("`{command}` ended with exit code {}", output.code);
    }
    Ok(output.stdout)
}

/// Checks that etcd's data is on the LUN, that the LUN is mounted as promised, and that all keys are there.
fn on_lun(node: &Node, before: KeyHash) -> Result<()> {
    let mount = show(node, &format!("findmnt --mountpoint {DATA} --output TARGET,SOURCE,FSTYPE,OPTIONS"))?;
    let unit = show(node, "systemctl show --property What,Options var-lib-etcd.mount")?;
    if !mount.contains("prjquota") || !mount.contains("xfs") {
        bail!("the mount is not XFS with prjquota");
    }
    if !unit.lines().any(|line| line.starts_with("Options=") && line.contains("_netdev")) {
        bail!("systemd does not see _netdev");
    }
    let listed = show(node, &format!("ls -A {DATA}"))?;
    if listed.trim() != "member" {
        bail!("{DATA} holds more than etcd's data");
    }
    let after = etcd::hash_at(node, before.revision)?;
    println!("\nHash of all keys before: {before}; now: {after}");
    if after != before {
        bail!("the hashes differ");
    }
    Ok(())
}

/// Checks that etcd does not start without the LUN, and that nothing is written below the mount point.
fn down_without_lun(node: &Node) -> Result<()> {
    show(node, "systemctl reset-failed etcd.service; ! systemctl start etcd.service")?;
    show(
        node,
        "journalctl --sync; journalctl -u etcd.service -o cat --no-pager | grep -o 'cannot access data directory[^\"]*' | tail -n 1 | grep .",
    )?;
    let flags = show(node, &format!("systemctl stop etcd.service; lsattr -d {DATA}"))?;
    let listed = show(node, &format!("findmnt --mountpoint {DATA} || find {DATA} -mindepth 1 ! -empty"))?;
    if !flags.split_whitespace().next().is_some_and(|flags| flags.contains('i')) {
        bail!("{DATA} is not immutable");
    }
    if !listed.trim().is_empty() {
        bail!("{DATA} holds data, or something is mounted there");
    }
    show(node, "systemctl reset-failed etcd.service").map(drop)
}

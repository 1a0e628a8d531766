//! The demo: a running node's etcd moves to a LUN, survives a reboot, and can't start anywhere else.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::bed::Bed;
use crate::etcd::{self, KeyHash};
use crate::node::Node;
use crate::scene::{self, LUN_SIZE, Wanted};
use crate::target::{self, Lun, Offer, Target};
use crate::vm::Options;

const KEYS: usize = 10_000;
const DATA: &str = "/var/lib/etcd";

/// Shows it, step by step; an error when anything is off.
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

    heading("A node boots, with etcd on its local disk");
    let mut node = Node::boot(bed, Options::default())?;
    scene::install(&node, agent)?;
    etcd::start(&node)?;
    let took = etcd::put_keys(&node, KEYS)?;
    let before = etcd::hash_now(&node)?;
    println!("{KEYS} keys were put in {:.1} s. Hash of all keys: {before}", took.as_secs_f32());
    show(&node, &format!("findmnt --target {DATA}; ls -A {DATA}"))?;

    heading("Its config: a target with CHAP, for sessions and for discovery");
    scene::configure(&node, &Wanted { discovery_chap: Some(scene::discovery()), ..Wanted::default() })?;
    show(&node, "cat /etc/etcd-lun/config.toml; ls -l /etc/etcd-lun")?;
    show(&node, "etcd-lun render units --into /etc/systemd/system && systemctl daemon-reload")?;

    heading("What would be done, and why");
    show(&node, "etcd-lun plan")?;

    heading("The migration");
    show(&node, "etcd-lun apply")?;
    on_lun(&node, before)?;
    show(&node, "etcd-lun status")?;

    heading("A reboot. etcd is enabled, the LUN is not attached: the fence keeps etcd down");
    node.reboot()?;
    show(&node, "systemctl is-active etcd.service || true")?;
    down_without_lun(&node)?;

    heading("Applied again, by hand: log in, mount, start etcd");
    show(&node, "etcd-lun apply")?;
    on_lun(&node, before)?;
    show(&node, "etcd-lun status")?;

    heading("Applied once more: there is nothing to do");
    let plan = show(&node, "etcd-lun plan")?;
    if !plan.to_lowercase().contains("nothing to do") {
        bail!("the second plan should be empty");
    }
    show(&node, "etcd-lun apply")?;
    on_lun(&node, before)?;

    heading("Unmounted: the directory beneath holds no data and is immutable, and etcd can't start there");
    show(&node, "systemctl stop etcd.service var-lib-etcd.mount")?;
    down_without_lun(&node)?;

    heading("And back; from now on the service does it at every boot");
    show(&node, "etcd-lun apply")?;
    on_lun(&node, before)?;
    show(&node, "systemctl enable etcd-lun.service etcd-lun-health.timer")?;
    node.reboot()?;
    show(
        &node,
        "systemctl is-active etcd-lun.service; journalctl --sync; journalctl -b --no-pager -o cat -u etcd-lun.service",
    )?;
    on_lun(&node, before)?;

    heading("How fast it is, against the local disk. Not asked to be fast enough: the node is emulated");
    show(&node, "etcd-lun bench --writes 200 --against /var/lib/etcd-lun || [ $? = 4 ]")?;

    heading("Its health");
    show(&node, "etcd-lun health")?;

    println!(
        "\nProven in {} s: etcd with {KEYS} keys moved to an iSCSI LUN with CHAP on, its hash is {before} before and \
         after, also after a reboot; it is mounted with _netdev and prjquota, a second apply has nothing to do, \
         without the LUN etcd stays down and writes nothing, and a boot brings it up without anybody.",
        begun.elapsed().as_secs()
    );
    Ok(())
}

fn heading(text: &str) {
    println!("\n=== {text}");
}

/// Runs a command in the node as a person would, and shows it; it must succeed.
fn show(node: &Node, command: &str) -> Result<String> {
    println!("\nnode# {command}");
    let output = node.run_within(command, scene::LIMIT)?;
    for line in output.stdout.lines().chain(output.stderr.lines()) {
        println!("  {line}");
    }
    if output.code != 0 {
        bail!("`{command}` ended with exit code {}", output.code);
    }
    Ok(output.stdout)
}

/// The data is on the LUN, mounted as promised, and complete.
fn on_lun(node: &Node, before: KeyHash) -> Result<()> {
    let mount = show(node, &format!("findmnt --mountpoint {DATA} --output TARGET,SOURCE,FSTYPE,OPTIONS"))?;
    let unit = show(
        node,
        "systemctl show --property What,Options var-lib-etcd.mount; grep ^Options= /etc/systemd/system/var-lib-etcd.mount",
    )?;
    if !mount.contains("prjquota") || !mount.contains("xfs") {
        bail!("the mount is not XFS with prjquota");
    }
    if !unit.lines().any(|line| line.starts_with("Options=") && line.contains("_netdev")) {
        bail!("the mount unit has no _netdev");
    }
    let listed = show(node, &format!("ls -A {DATA}"))?;
    if listed.trim() != "member" {
        bail!("{DATA} holds more than etcd's own");
    }
    let after = etcd::hash_at(node, before.revision)?;
    println!("\nHash of all keys before: {before}; now: {after}");
    if after != before {
        bail!("the hashes differ");
    }
    Ok(())
}

/// etcd doesn't start beneath the mount, and nothing is written there.
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

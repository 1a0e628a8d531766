//! Boots and a shutdown without the target.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{EtcdRunner, NODES, Unit, delivered, first_end, node, pool, ran_before_etcd, wait_for};
use crate::delivery;
use crate::host;
use crate::node::Node;
use crate::scene::{self, Wanted};
use crate::ssh::Ssh;
use crate::stage::Stage;
use crate::suite::Scenario;

/// An attempt of 20 s may just have begun. The next one starts 20 s after its end.
const COMES_BACK: Duration = Duration::from_secs(120);
/// The last key that etcd acknowledged before the target disappeared.
const LAST: &str = "/before/the/end";

pub(super) fn scenarios() -> Vec<Scenario> {
    // The parts run one after the other on the same node.
    vec![
        Scenario::new("boot/target-off", target_off),
        Scenario::new("boot/kubelet-gated", |stage| {
            target_off(stage)?;
            gate_kubelet(stage).context("after the migration, with gate = \"kubelet\"")?;
            gate_by_hand(stage).context("the gate is changed on the node itself")
        }),
    ]
}

fn target_off(stage: &mut Stage) -> Result<()> {
    before_migration(stage).context("before the migration")?;
    gate_etcd(stage).context("after the migration, and at a shutdown")
}

fn before_migration(stage: &mut Stage) -> Result<()> {
    let disk = delivered(stage, &pool(), EtcdRunner::Unit)?;
    stage.offer_luns(NODES.len())?;
    stage.target.stop();
    stage.change_node(node(stage, NODES[0], &disk)?);
    stage.node.power_on()?;
    stage.is_untouched().context("the target is off and etcd is not migrated yet")?;
    is("active", &stage.node, &["kubelet.service"])?;
    names_the_portal(&stage.node)?;
    logins_did_not_wait(&stage.node)?;
    // An attempt in the background must not stop a member that serves. The service leaves that to an
    // administrator or a reboot.
    wait_for(&stage.node, "etcd-lun.service", "failed", COMES_BACK)?;
    stage.is_untouched()?;
    stage.target.restart()?;
    stage.node.ok("systemctl reset-failed etcd-lun.service")?;
    stage.apply()?;
    stage.is_on_lun()?;
    stage.node.ok(&format!(
        "text=$(sed 's/^attach_timeout = .*/attach_timeout = \"{ATTACH_TIMEOUT}min\"/' {CONFIG}) && echo \"$text\" >{CONFIG} && sync
         grep -q '^attach_timeout = \"{ATTACH_TIMEOUT}min' {CONFIG}"
    ))?;
    stage.node.power_off()
}

const CONFIG: &str = "/etc/etcd-lun/config.toml";
/// The default, in minutes.
const ATTACH_TIMEOUT: u64 = 5;

/// The kubelet must not wait for `attach_timeout`: the fence keeps etcd down, and only the kubelet lets anyone repair the
/// node.
fn kubelet_came_soon(node: &Node) -> Result<()> {
    let at = |name: &str| Unit::of(node, name)?.time("ActiveEnter").map(Duration::from_micros);
    let (network, kubelet) = (at("network-online.target")?, at("kubelet.service")?);
    let after = kubelet.saturating_sub(network);
    println!("        the kubelet was up {:.0} s after the network, without the target", after.as_secs_f32());
    if after > Duration::from_secs(60 * ATTACH_TIMEOUT / 2) {
        bail!("the kubelet waited {} s for a target that is gone", after.as_secs());
    }
    Ok(())
}

fn gate_etcd(stage: &mut Stage) -> Result<()> {
    stage.target.stop();
    stage.node.power_on()?;
    is("active", &stage.node, &["kubelet.service", "crio.service"])?;
    kubelet_came_soon(&stage.node)?;
    let kubelet = Unit::of(&stage.node, "kubelet.service")?;
    stage.is_down_without_lun()?;
    names_the_portal(&stage.node)?;
    core_logs_in(stage)?;
    stage.target.restart()?;
    comes_back(stage)?;
    if Unit::of(&stage.node, "kubelet.service")?.get("MainPID") != kubelet.get("MainPID") {
        bail!("the kubelet's stand-in was restarted");
    }
    reboots_with_target_gone(stage)
}

fn gate_kubelet(stage: &mut Stage) -> Result<()> {
    // The node is in use, so the changed object is delivered as the Machine Config Daemon does it.
    let object = super::object(stage, &Wanted { gate: Some("kubelet".into()), ..pool() })?;
    let disk = delivery::deliver(&stage.bed, "gate-kubelet", stage.node.vm().disk(), &object, |_| Ok(()))?;
    stage.change_node(node(stage, NODES[0], &disk)?);
    stage.node.power_on()?;
    core_logs_in(stage)?;
    kubelet_waits_for_the_target(stage)
}

fn kubelet_waits_for_the_target(stage: &mut Stage) -> Result<()> {
    is("inactive", &stage.node, &["kubelet-dependencies.target", "crio.service", "kubelet.service"])?;
    stage.is_down_without_lun()?;
    stage.target.restart()?;
    comes_back(stage)?;
    wait_for(&stage.node, "kubelet.service", "active", COMES_BACK)?;
    ran_before_etcd(&stage.node)?;
    stage.has_kept(LAST)
}

/// Both gates, changed by the config, `render units` and a reload of systemd, and by nothing else. `systemctl disable` does not
/// keep the service from the next boot.
fn gate_by_hand(stage: &mut Stage) -> Result<()> {
    let set = |stage: &Stage, gate: &str| {
        let change = format!(
            "sed -i 's/^gate = .*/gate = \"{gate}\"/' {CONFIG} && grep -q '^gate = \"{gate}' {CONFIG}"
        );
        stage.node.ok(&format!("{change} && {}", scene::AT_BOOT))?;
        stage.node.ok("systemctl disable etcd-lun.service etcd-lun-health.timer; sync")
    };
    set(stage, "etcd")?;
    stage.target.stop();
    stage.node.power_cut();
    stage.node.power_on()?;
    is("active", &stage.node, &["kubelet.service", "crio.service", "etcd-lun-health.timer"])?;
    stage.is_down_without_lun()?;
    names_the_portal(&stage.node)?;
    set(stage, "kubelet")?;
    stage.node.power_cut();
    stage.node.power_on()?;
    kubelet_waits_for_the_target(stage)
}

/// The node must shut down in limited time although its LUN is gone and etcd runs on it. The time-out is an
/// hour while the node runs, and short while it shuts down.
pub(in super::super) fn reboots_with_target_gone(stage: &mut Stage) -> Result<()> {
    // Unwritten data, so that the unmount has to wait for the LUN.
    stage.node.ok(&format!("etcdctl put {LAST} yes"))?;
    let patience = "cat /sys/class/iscsi_session/session*/recovery_tmo";
    stage
        .node
        .ok(&format!("before=$({patience}) && etcd-lun let-go && [ \"$({patience})\" = \"$before\" ]"))
        .context("`let-go` should do nothing on a node that is not shutting down")?;
    stage.target.stop();
    // Long enough for the kernel to notice that the target is gone. The time-out of an hour has then begun.
    std::thread::sleep(Duration::from_secs(20));
    let begun = Instant::now();
    // The connection may break before the command's exit code arrives.
    let _ = stage.node.run("systemctl reboot");
    stage.node.vm().wait_off(Duration::from_secs(180))?;
    println!("        the node shut down in {:.0} s without the target", begun.elapsed().as_secs_f32());
    Ok(())
}

fn is(state: &str, node: &Node, units: &[&str]) -> Result<()> {
    for name in units {
        let unit = Unit::of(node, name)?;
        if unit.get("ActiveState") != state {
            bail!("{name} is {}, expected {state}", unit.state());
        }
    }
    Ok(())
}

/// Checks that the message of a failed attempt names the portal.
fn names_the_portal(node: &Node) -> Result<()> {
    let told = host::poll(COMES_BACK, Duration::from_secs(2), || {
        Ok(node.said("etcd-lun.service")?.lines().any(|line| line.contains("10.77.0.1:3260")).then_some(()))
    })?;
    told.context("etcd-lun.service does not name the portal")
}

/// Checks that logins were allowed before the first attempt ended.
fn logins_did_not_wait(node: &Node) -> Result<()> {
    let open = first_end(node, "systemd-user-sessions.service")?;
    let tried = first_end(node, "etcd-lun.service")?;
    if open > tried {
        bail!("logins had to wait for etcd-lun.service: {open:?} and {tried:?} after the start");
    }
    Ok(())
}

/// A user who is not root logs in while the service keeps trying.
fn core_logs_in(stage: &Stage) -> Result<()> {
    logins_did_not_wait(&stage.node)?;
    let service = || Unit::of(&stage.node, "etcd-lun.service");
    host::poll(COMES_BACK, Duration::from_millis(500), || {
        Ok((service()?.get("SubState") == "start").then_some(()))
    })?
    .context("etcd-lun.service does not try again")?;
    let output = Ssh::as_core(&stage.bed, "id --user --name", Duration::from_secs(20))?;
    if output.code != 0 || output.stdout.trim() != "core" {
        bail!("user core cannot log in while etcd-lun.service runs: {output}");
    }
    // The service is in that attempt, or waits for the next one.
    let service = service()?;
    if service.get("ActiveState") != "activating" {
        bail!("etcd-lun.service is {}, and should be trying", service.state());
    }
    Ok(())
}

/// Waits until etcd runs again. The target is back, so etcd must run on the LUN.
fn comes_back(stage: &Stage) -> Result<()> {
    let begun = Instant::now();
    wait_for(&stage.node, "etcd.service", "active", COMES_BACK)?;
    println!("        etcd ran {:.0} s after the target came back", begun.elapsed().as_secs_f32());
    stage.is_on_lun()
}

//! A LUN with two paths, and multipathd, in the domain.

use anyhow::{Result, bail};

use super::super::boot::{self, NODES};
use super::super::paths::{self, client::Client};
use super::audit::nothing_denied;
use crate::delivery::{self, EtcdRunner, Root};
use crate::net::{Cut, Path};
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenario() -> Scenario {
    Scenario::new("selinux/multipath", multipath)
}

/// A boot migrates the data onto the multipath map. The second boot mounts the map, and then loses one of its paths; at the shutdown, both.
fn multipath(stage: &mut Stage) -> Result<()> {
    let wanted = paths::boot::pool(stage);
    let disk = super::installed(stage, &boot::delivered(stage, &wanted, EtcdRunner::Unit)?, &wanted)?;
    // As on a Red Hat node after `mpathconf --enable`. Debian's policy does not let multipathd make its directory in /etc,
    // which Red Hat's package has.
    let disk = delivery::change(&stage.bed, "multipath", &disk, |root: &Root| {
        root.run(
            "printf 'defaults {\\n find_multipaths yes\\n user_friendly_names yes\\n}\\n' >/etc/multipath.conf
             mkdir -p /etc/multipath; echo enable multipathd.service >/etc/systemd/system-preset/10-bed.preset",
            &[],
        )?;
        root.label("/etc/multipath /etc/multipath.conf /etc/systemd/system-preset")
    })?;
    stage.offer_luns(NODES.len())?;
    stage.change_node(super::node(stage, &disk, &wanted)?);
    stage.node.power_on()?;
    runs_on_the_map(stage, 2)?;
    stage.node.reboot()?;
    runs_on_the_map(stage, 2)?;
    boot::nothing_to_do(stage)?;
    let client = Client::begin(stage)?;
    let ((), waited) = client.during(|| {
        stage.bed.net.cut(Path::B, Cut::Drop)?;
        runs_on_the_map(stage, 1)
    })?;
    println!("        one path is cut: {waited}");
    client.end()?;
    stage.bed.net.repair()?;
    runs_on_the_map(stage, 2)?;
    let took = paths::boot::shut_down_without_paths(stage)?;
    println!("        a shutdown without any path took {:.0} s", took.as_secs_f64());
    stage.bed.net.repair()?;
    stage.node.power_on()?;
    runs_on_the_map(stage, 2)
}

/// Checks that etcd is on the map, which has this number of paths that work, and that nothing was denied.
fn runs_on_the_map(stage: &Stage, count: usize) -> Result<()> {
    let node = &stage.node;
    boot::ran_before_etcd(node)?;
    stage.is_on_lun()?;
    super::ran_in_its_domain(node)?;
    let source = node.ok("findmnt --noheadings --output SOURCE /var/lib/etcd")?;
    let label = node.ok(&format!("stat --dereference --format %C {source}"))?;
    if !source.starts_with("/dev/mapper/mpath") || !label.contains(":etcd_lun_device_t:") {
        bail!("the data is on {source} with the label {label}");
    }
    paths::works(stage, count)?;
    // The run of the timer's service asks for everything that the service of the boot does not ask for.
    node.run("systemctl start etcd-lun-health.service")?;
    nothing_denied(node)?;
    println!("        {source}, {count} of 2 paths work; SELinux denied nothing");
    Ok(())
}

//! A node that another build of the program has migrated, and that gets this one: as an update of the package or of the object does.
//!
//! `ETCD_LUN_BED_EARLIER` names that build, a static program. Without it there is no such scenario.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::scene::{self, PROGRAM, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

pub(super) fn scenarios() -> Vec<Scenario> {
    let Some(program) = std::env::var_os("ETCD_LUN_BED_EARLIER").map(PathBuf::from) else {
        return Vec::new();
    };
    vec![Scenario::new("update/of-a-migrated-node", move |stage| of_a_migrated_node(stage, &program))]
}

/// The program of before migrates and serves over a reboot. Then the node gets this program and its units, and boots: it goes on
/// without a person. Afterwards the way back works, with a key that was written in each part of its life.
fn of_a_migrated_node(stage: &mut Stage, program: &Path) -> Result<()> {
    stage.node.ok(&format!("mv {PROGRAM} {PROGRAM}.new"))?;
    stage.node.copy_in(program, PROGRAM, 0o755)?;
    println!("        {}", stage.node.ok("etcd-lun --version")?.replace('\n', ", "));
    stage.configure(&Wanted::default())?;
    // Builds of before have links in place of drop-ins.
    let enable = "systemctl enable --quiet etcd.service; systemctl enable --quiet etcd-lun.service 2>/dev/null || true";
    stage.node.ok(&format!("{}; {enable}", scene::AT_BOOT))?;
    stage.apply()?;
    stage.is_on_lun()?;
    stage.node.ok("etcdctl put update/before yes")?;
    boot(stage)?;
    let record = "cat /var/lib/etcd-lun/authority.json; getfattr --only-values -n trusted.etcd-lun.stamp /var/lib/etcd";
    println!("        before: {}", stage.node.ok(record)?.replace('\n', " "));

    stage.node.ok(&format!("mv {PROGRAM}.new {PROGRAM}; {}", scene::AT_BOOT))?;
    boot(stage)?;
    stage.has_kept("update/before")?;
    println!("        after: {}", stage.node.ok(record)?.replace('\n', " "));
    let taken = verbs::taken(&stage.node, "apply")?;
    if !taken.is_empty() {
        bail!("the boot left something to do: {taken:?}");
    }
    super::health::is_well(stage)?;
    stage.node.ok("etcdctl put update/after yes")?;
    let rollback = stage.agent("rollback")?;
    if rollback.code != 0 {
        bail!("the rollback should have succeeded: {rollback}");
    }
    stage.is_untouched()?;
    stage.has_kept("update/before")?;
    stage.has_kept("update/after")
}

fn boot(stage: &mut Stage) -> Result<()> {
    stage.node.reboot()?;
    super::boot::wait_for(&stage.node, "etcd-lun.service", "active", scene::LIMIT)?;
    super::boot::wait_for(&stage.node, "etcd.service", "active", scene::LIMIT)?;
    stage.is_on_lun()
}

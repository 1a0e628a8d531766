//! Reboots and power cuts: the same end is reached from everywhere.

use anyhow::bail;

use super::migrate::stays_down;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("power/cut-after-the-migration", |stage| {
        stage.migrate()?;
        let acknowledged = stage.node.ok("etcdctl put /after/migration yes")?;
        stage.node.power_cut();
        stage.node.power_on()?;
        stays_down(stage)?;
        stage.apply()?;
        if stage.node.ok("etcdctl get /after/migration --print-value-only")? != "yes" {
            bail!("a write that was acknowledged ({acknowledged}) is lost");
        }
        stage.is_on_lun()
    })]
}

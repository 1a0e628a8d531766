//! Reboots and power cuts: the same end is reached from everywhere.

use std::time::Duration;

use anyhow::bail;

use super::migrate::stays_down;
use crate::etcd;
use crate::host;
use crate::scene::Wanted;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("power/reboot", |stage| {
            stage.migrate()?;
            stage.node.reboot()?;
            // etcd is enabled, and nothing logs in by itself: the fence alone keeps it down.
            if etcd::is_active(&stage.node)? {
                bail!("etcd runs after a reboot without its LUN");
            }
            stays_down(stage)?;
            stage.apply()?;
            stage.is_on_lun()
        }),
        Scenario::new("power/cut-after-the-migration", |stage| {
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
        }),
        Scenario::new("power/cut-during-the-migration", |stage| {
            stage.configure(&Wanted::default())?;
            let cut = |node: &crate::node::Node| {
                node.ok("setsid etcd-lun apply >/run/apply.out 2>&1 </dev/null &")?;
                // When etcd has stopped, the part that matters begins.
                let stopped = || Ok((!etcd::is_active(node)?).then_some(()));
                host::poll(Duration::from_secs(120), Duration::from_millis(50), stopped)
            };
            if cut(&stage.node)?.is_none() {
                bail!("etcd was never stopped: {}", stage.node.read("/run/apply.out")?);
            }
            stage.node.power_cut();
            stage.node.power_on()?;
            stage.apply()?;
            stage.is_on_lun()
        }),
    ]
}

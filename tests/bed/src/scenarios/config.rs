//! Configs that can't be meant. None of them may lead to a session.

use anyhow::{Result, bail};

use super::{Declined, declines_command, wrong};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    let other = "[[node]]\nhostname = \"master-0.example.com\"\ninitiator = \"iqn.1994-05.com.redhat:other\"\nlun = 2\n";
    vec![
        Scenario::new("config/unknown-key", |stage| {
            let wanted = Wanted { more: "lunn = 1\n".into(), ..Wanted::default() };
            with_config(stage, &wanted, wrong(&["config.toml", "lunn", "expected"]))
        }),
        Scenario::new("config/no-node-entry", |stage| {
            let wanted = Wanted { hostname: "master-7".into(), ..Wanted::default() };
            with_config(stage, &wanted, wrong(&["master-7", "master-0"]))
        }),
        Scenario::new("config/two-node-entries", move |stage| {
            // One entry by the short name, one by machine id: both are this node.
            let id = stage.node.ok("cat /etc/machine-id")?;
            let more = format!(
                "\n{}",
                other.replace("hostname = \"master-0.example.com\"", &format!("machine_id = {id:?}"))
            );
            with_config(stage, &Wanted { more, ..Wanted::default() }, wrong(&["master-0", &id]))
        }),
        Scenario::new("config/no-such-file", |stage| {
            stage.strip()?;
            declines_command(stage, "etcd-lun apply", wrong(&["/etc/etcd-lun/config.toml"]))
        }),
    ]
}

fn with_config(stage: &mut Stage, wanted: &Wanted, how: Declined) -> Result<()> {
    scene::configure(&stage.node, wanted)?;
    declines_command(stage, "etcd-lun apply", how)?;
    declines_command(stage, "etcd-lun config check", how)?;
    if stage.target.sessions()? > 0 {
        bail!("a session was opened with a config that can't be meant");
    }
    Ok(())
}

//! Configs with errors. None of them may lead to a session.

use anyhow::{Context, Result, bail};

use super::{Declined, declines_command, each, wrong};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("config/cannot-be-meant", |stage| {
        let id = stage.node.ok("cat /etc/machine-id")?;
        let unknown = Wanted { more: "lunn = 1\n".into(), ..Wanted::default() };
        let other_node = Wanted { hostname: "master-7".into(), ..Wanted::default() };
        // One entry has the short host name, the other the machine id. Both mean this node.
        let second = format!(
            "\n[[node]]\nmachine_id = {id:?}\ninitiator = \"iqn.1994-05.com.redhat:other\"\nlun = 2\n"
        );
        let both = Wanted { more: second, ..Wanted::default() };
        let cases: [(&str, Wanted, &[&str]); 3] = [
            ("an unknown key", unknown, &["config.toml", "lunn", "expected"]),
            ("no entry for the node", other_node, &["master-7", "master-0"]),
            ("two entries for the node", both, &["master-0", &id]),
        ];
        each(&cases, |(name, wanted, says)| {
            scene::configure(&stage.node, wanted)?;
            declines(stage, "etcd-lun apply", wrong(says)).context(*name)?;
            // On a machine that is no node the config may be right, so all its entries are printed.
            if *name == "no entry for the node" {
                return prints_all_entries(stage).context(*name);
            }
            declines(stage, "etcd-lun config check", wrong(says)).context(*name)
        })?;
        stage.node.ok("rm /etc/etcd-lun/config.toml")?;
        for command in ["etcd-lun apply", "etcd-lun config check"] {
            declines(stage, command, wrong(&["/etc/etcd-lun/config.toml"])).context("no such file")?;
        }
        Ok(())
    })]
}

fn prints_all_entries(stage: &Stage) -> Result<()> {
    let output = stage.agent("config check")?;
    let says = |part: &str| output.stdout.contains(part);
    if output.code != 0 || !says("no node of this config") || !says("master-7") {
        bail!("`config check` should print all entries on a machine that is no node: {output}");
    }
    Ok(())
}

fn declines(stage: &Stage, command: &str, how: Declined) -> Result<()> {
    declines_command(stage, command, how)?;
    if stage.target.sessions()? > 0 {
        bail!("a session was opened with a faulty config");
    }
    Ok(())
}

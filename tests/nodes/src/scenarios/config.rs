//! Configs with errors. None of them may lead to a session.

use anyhow::{Context, Result, bail};

use super::{Declined, declines_command, each, wrong};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

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
        let (entries, values) = (["master-0", "master-7"], ["master-0", &id]);
        let cases: [(&str, Wanted, Declined); 3] = [
            ("an unknown key", unknown, wrong("config-syntax", &["/etc/etcd-lun/config.toml", "lunn"])),
            ("no entry for the node", other_node, wrong("no-node-entry", &entries)),
            ("two entries for the node", both, wrong("several-node-entries", &values)),
        ];
        each(&cases, |(name, wanted, how)| {
            scene::configure(&stage.node, wanted)?;
            opens_no_session(stage, "etcd-lun apply", *how).context(*name)?;
            // On a machine that is no node the config may be right, so all its entries are printed.
            if *name == "no entry for the node" {
                return prints_all_entries(stage).context(*name);
            }
            opens_no_session(stage, "etcd-lun config check", *how).context(*name)
        })?;
        stage.node.ok("rm /etc/etcd-lun/config.toml")?;
        for command in ["etcd-lun apply", "etcd-lun config check"] {
            let how = wrong("no-config", &["/etc/etcd-lun/config.toml"]);
            opens_no_session(stage, command, how).context("no such file")?;
        }
        Ok(())
    })]
}

fn prints_all_entries(stage: &Stage) -> Result<()> {
    let config = verbs::json(&stage.node, "config check")?;
    let mut names = config["nodes"].as_array().into_iter().flatten().map(|node| &node["name"]);
    if !names.any(|name| name == "master-7") {
        bail!("`config check` should print all entries on a machine that is no node: {config}");
    }
    Ok(())
}

fn opens_no_session(stage: &Stage, command: &str, how: Declined) -> Result<()> {
    declines_command(stage, command, how)?;
    if stage.target.sessions()? > 0 {
        bail!("a session was opened with a faulty config");
    }
    Ok(())
}

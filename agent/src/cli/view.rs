//! `plan` and `status`: verbs that only read.

use super::{
    config,
    document::Document,
    exit::Exit,
    output::{OutputFormat, print_json, print_out},
    show,
};
use crate::{
    config::Config,
    host::Host,
    node::Node,
    observe,
    plan::{Goal, Plan},
};
use std::path::Path;

/// What `status` prints.
pub const STATUS: Document<Node> = Document::under("node", "status", "etcd-lun status --json");

/// What `plan` prints.
pub const PLAN: Document<Plan> = Document::under(
    "plan",
    "plan",
    "etcd-lun plan --json, and --dry-run --json of apply, rollback and claim",
);

/// Loads the config and observes the node, and the cluster if that is asked for. This takes no lock and changes nothing.
pub(super) fn look(file: Option<&Path>, with_cluster: bool) -> Result<(Config, Node), Exit> {
    looked(file, with_cluster).map(|(_, config, node)| (config, node))
}

fn looked(file: Option<&Path>, with_cluster: bool) -> Result<(Host, Config, Node), Exit> {
    let (host, identity, config) = config::load_to_look(file)?;
    let mut node = observe::node(&host, &config, identity, observe::Viewpoint::Reader);
    if with_cluster {
        node.cluster = observe::cluster(&host, &config, &node);
        node.answering = observe::answering(&host, &config);
    }
    Ok((host, config, node))
}

/// `plan`
pub(super) fn plan(file: Option<&Path>, goal: Goal, output: OutputFormat) -> Result<(), Exit> {
    let (host, config, mut node) = looked(file, goal.asks_cluster())?;
    if goal.asks_others() {
        node.elsewhere = Some(observe::elsewhere(&host, &config, &node.identity.hostname));
    }
    let plan = goal.plan(&config, &node)?;
    if output.json {
        return print_json(&PLAN, &plan);
    }
    print_out(&match goal {
        _ if !plan.is_empty() => show::plan(&plan, &config, &node, goal),
        Goal::Claim => show::NOTHING_TO_CLAIM.into(),
        Goal::ClaimLocal => show::nothing_to_do(node.rolled_back()),
        Goal::Lun(_) | Goal::Local => show::nothing_to_do(node.rolled_back()),
    });
    Ok(())
}

/// `status`
pub(super) fn status(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (config, node) = look(file, true)?;
    if output.json {
        return print_json(&STATUS, &node);
    }
    print_out(&show::status(&config, &node));
    Ok(())
}

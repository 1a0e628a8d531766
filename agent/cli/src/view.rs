//! `plan` and `status`: verbs that only read.

use super::{
    config,
    document::Document,
    exit::Exit,
    output::{OutputFormat, print_json, print_out},
    show,
};
use ::config::Config;
use node::Node;
use observe::{Asked, Viewpoint};
use plan::{Goal, Plan};
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
pub(super) fn look(file: Option<&Path>, asked: Asked) -> Result<(Config, Node), Exit> {
    let (host, identity, config) = config::load_to_look(file)?;
    let node = observe::node(&host, &config, identity, Viewpoint::Reader, asked);
    Ok((config, node))
}

/// `plan`
pub(super) fn plan(file: Option<&Path>, goal: Goal, output: OutputFormat) -> Result<(), Exit> {
    let (by_hand, elsewhere) = (goal.asks_cluster(), goal.asks_others());
    let (config, node) = look(file, Asked { portals: by_hand, cluster: by_hand, elsewhere })?;
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
    let (config, node) = look(file, Asked::BY_HAND)?;
    if output.json {
        return print_json(&STATUS, &node);
    }
    print_out(&show::status(&config, &node));
    Ok(())
}

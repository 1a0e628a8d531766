//! The verbs that only look: `plan`, `status`.

use super::{Exit, OutputFormat, config, say, say_json, show};
use crate::{config::Config, host::Host, node::Node, observe, plan::Goal};
use std::path::Path;

/// Loads the config and looks at the node. Readers take no lock and change nothing.
pub(super) fn look(file: Option<&Path>) -> Result<(Config, Node), Exit> {
    let (host, identity, config) = config::load_to_look(file)?;
    let node = observe_node(&host, &config, identity);
    Ok((config, node))
}

fn observe_node(host: &Host, config: &Config, identity: crate::node::Identity) -> Node {
    observe::node(host, config, identity, observe::Viewpoint::Reader)
}

/// `plan`
pub(super) fn plan(file: Option<&Path>, goal: Goal, output: OutputFormat) -> Result<(), Exit> {
    let (config, node) = look(file)?;
    let plan = goal.plan(&config, &node)?;
    if output.json {
        return say_json("plan", &plan);
    }
    say(&if plan.is_empty() { show::nothing_to_do(node.rolled_back()) } else { show::plan(&plan) });
    Ok(())
}

/// `status`
pub(super) fn status(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (config, node) = look(file)?;
    if output.json {
        return say_json("node", &node);
    }
    say(&show::status(&config, &node));
    Ok(())
}

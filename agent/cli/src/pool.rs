//! `pool`: the nodes of the config together, from an administrator's machine.

mod fetch;
mod moves;
mod page;
mod reach;

pub(super) use fetch::fetch;
pub(super) use moves::apply;

use super::{
    config,
    document::Document,
    exit::Exit,
    output::{OutputFormat, print_json, print_out},
};
use clap::{Args, Subcommand};
use fetch::FetchOptions;
use health::SaidNode;
use moves::ApplyOptions;
use reach::Reach;
use std::path::Path;

/// What `pool health` prints: the nodes, in the order of the config.
pub(super) const POOL_HEALTH: Document<Vec<SaidNode>> =
    Document::under("nodes", "pool-health", "etcd-lun pool health --json");

/// `pool`
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Run `health` on every node of the config, side by side, and print one table; exit with 4 unless every check is ok
    Health(HealthOptions),
    /// Bring the program of the next object to every node of the config, while the old one goes on running
    #[command(
        after_help = "Each node checks the sha256. With exit code 0 no boot with the object needs a registry."
    )]
    Fetch(FetchOptions),
    /// Move the nodes of the config one after the other, each when the cluster is whole again
    #[command(
        after_help = "It first asks every node for its plan, and changes nothing if one does not answer or refuses. \
                      Then it runs `etcd-lun apply` on one node after the other, each when all members of the \
                      cluster are healthy. It stops at the first failure. Run it again to go on: a node with nothing to \
                      do, or with `migrate = false`, is skipped."
    )]
    Apply(ApplyOptions),
}

/// `pool health`
#[derive(Debug, Args)]
pub(super) struct HealthOptions {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    pub output: OutputFormat,
}

/// `pool health`
pub(super) fn health(file: Option<&Path>, options: &HealthOptions) -> Result<(), Exit> {
    let (host, pool, _) = config::load_pool(file)?;
    let nodes = reach::names(&pool, &options.reach.node)?;
    let said = reach::healths(&host, &options.reach.via, &nodes);
    if options.output.json {
        print_json(&POOL_HEALTH, &said)?;
    } else {
        print_out(&page::table(&said));
    }
    let bad: Vec<_> = said.iter().filter(|node| !node.is_healthy()).map(|node| node.node.as_str()).collect();
    if bad.is_empty() { Ok(()) } else { Err(Exit::Unhealthy(bad.join(", "))) }
}

//! `pool`: the nodes of the config together, from an administrator's machine.

mod moves;
mod page;

pub(super) use moves::apply;

use super::{
    config,
    exit::Exit,
    output::{OutputFormat, print_json, print_out},
};
use crate::{
    config::{ConfigError, Pool},
    health::SaidNode,
    host::{ExecError, Host, Output, exec::one_line, via::Via},
};
use clap::{Args, Subcommand};
use std::{path::Path, time::Duration};

/// `pool`
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Run `health` on every node of the config, side by side, and print one table; exit with 4 unless every check is ok
    Health(HealthOptions),
    /// Move the nodes of the config one after the other, each when the cluster is whole again
    #[command(
        after_help = "First it asks every node for its plan, and changes nothing unless all of them answer and none \
                            refuses. Then it runs `etcd-lun apply` on one node, waits until each member of the cluster is \
                            healthy, and goes on to the next. It stops at the first failure. If you run it again, it goes \
                            on where it ended: a node with nothing to do is left out."
    )]
    Apply(ApplyOptions),
}

/// Which nodes, and how they are reached.
#[derive(Debug, Args)]
struct Reach {
    /// How a command gets to a node, {node} being its name: 'oc debug -q node/{node} -- chroot /host', or 'ssh root@{node}'
    #[arg(long, value_name = "COMMAND")]
    via: Via,
    /// Only this node; may be given several times. Without it, all that the config names
    #[arg(long, value_name = "NAME", add = super::completion::nodes())]
    node: Vec<String>,
}

/// `pool health`
#[derive(Debug, Args)]
pub(super) struct HealthOptions {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    pub output: OutputFormat,
}

/// `pool apply`
#[derive(Debug, Args)]
pub(super) struct ApplyOptions {
    #[command(flatten)]
    reach: Reach,
    /// Do not ask before each node
    #[arg(long)]
    yes: bool,
}

/// How long a node may take to answer. `oc debug` starts a pod first.
const ANSWER_LIMIT: Duration = Duration::from_secs(180);

/// The nodes to ask, by the names that the config has for them.
fn names(pool: &Pool, asked: &[String]) -> Result<Vec<String>, Exit> {
    let known = pool.host_names()?;
    if asked.is_empty() {
        return if known.is_empty() {
            Err(Exit::Usage(
                "no [[node]] entry of the config has a hostname: name the nodes with --node".into(),
            ))
        } else {
            Ok(known)
        };
    }
    let mut names: Vec<String> = Vec::new();
    for name in asked {
        if !known.is_empty() && !known.contains(name) {
            return Err(ConfigError::NoSuchNode { asked: name.clone(), known }.into());
        }
        // It becomes a part of a command line.
        if name.is_empty()
            || name.starts_with('-')
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
        {
            return Err(Exit::Usage(format!("`{name}` is not the name of a node")));
        }
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// What a node has printed; or why it has not answered. A program that prints JSON speaks by it, whatever its exit code: `oc debug`
/// does not pass on exit codes.
fn printed(answer: Result<Output, ExecError>) -> Result<String, String> {
    match answer {
        Ok(output) if output.stdout.trim_start().starts_with('{') => Ok(output.stdout),
        Ok(output) if output.code == 0 => Err("the command printed no JSON".into()),
        Ok(output) => Err(format!("the command exited with {}: {}", output.code, one_line(&output.stderr))),
        Err(error) => Err(one_line(&format!("{:#}", anyhow::Error::from(error)))),
    }
}

/// What each node says of its health.
fn healths(host: &Host, via: &Via, nodes: &[String]) -> Vec<SaidNode> {
    let answers = via.ask_all(host, nodes, &["etcd-lun", "health", "--json"], ANSWER_LIMIT);
    let said = nodes.iter().zip(answers).map(|(node, answer)| {
        let read = printed(answer).and_then(|text| SaidNode::parse(node, &text));
        read.unwrap_or_else(|why| SaidNode::silent(node, why))
    });
    said.collect()
}

/// `pool health`
pub(super) fn health(file: Option<&Path>, options: &HealthOptions) -> Result<(), Exit> {
    let (host, pool, _) = config::load_pool(file)?;
    let nodes = names(&pool, &options.reach.node)?;
    let said = healths(&host, &options.reach.via, &nodes);
    if options.output.json {
        print_json("nodes", &said)?;
    } else {
        print_out(&page::table(&said));
    }
    let bad: Vec<_> = said.iter().filter(|node| !node.is_healthy()).map(|node| node.node.as_str()).collect();
    if bad.is_empty() { Ok(()) } else { Err(Exit::Unhealthy(bad.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_an_answer() {
        let output = |code, stdout: &str, stderr: &str| {
            printed(Ok(Output { code, stdout: stdout.into(), stderr: stderr.into() }))
        };
        assert_eq!(output(1, "{}", "error: non-zero exit code from debug container").unwrap(), "{}");
        assert_eq!(output(0, "hello", "").unwrap_err(), "the command printed no JSON");
        let refused = output(255, "", "ssh: connect to host a port 22:\n Connection refused\n").unwrap_err();
        assert_eq!(
            refused,
            "the command exited with 255: ssh: connect to host a port 22:; Connection refused"
        );
    }
}

//! Which nodes are asked, how they are reached, and what counts as an answer.

use crate::{
    completion,
    exit::Exit,
    values::{FROM_CLUSTER, node_names},
};
use clap::Args;
use config::{ConfigError, Pool, is_host_name};
use health::SaidNode;
use host::{ExecError, Host, Output, exec::one_line, via::Via};
use std::time::Duration;

/// Which nodes, and how they are reached.
#[derive(Debug, Args)]
pub(super) struct Reach {
    /// How a command gets to {node}: 'oc debug -q node/{node} -- chroot /host', or 'ssh root@{node}'
    #[arg(long, value_name = "COMMAND")]
    pub via: Via,
    /// Only this node, or those of `oc get nodes -o name`; may be repeated. Default: all of the config
    #[arg(long, value_name = "NAME", add = completion::nodes())]
    pub node: Vec<String>,
}

/// How long a node may take to answer. `oc debug` starts a pod first.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(180);

/// The nodes to ask, by the names that the config has for them.
pub(super) fn names(pool: &Pool, asked: &[String]) -> Result<Vec<String>, Exit> {
    let known = pool.host_names()?;
    let asked = node_names(asked);
    if asked.is_empty() {
        if let [first, ..] = pool.patterns().as_slice() {
            return Err(Exit::Usage(format!(
                "the config does not name the nodes that {first} matches: name each node with --node, such as {FROM_CLUSTER}"
            )));
        }
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
        // It becomes a part of a command line.
        if !is_host_name(&name) {
            return Err(Exit::Usage(format!("`{name}` is not the name of a node")));
        }
        let is_known = match pool.patterns().is_empty() {
            true => known.is_empty() || known.contains(&name),
            false => pool.knows(&name),
        };
        if !is_known {
            let entries = pool.rows()?.into_iter().map(|row| row.name).collect();
            return Err(ConfigError::NoSuchNode { asked: name, known: entries }.into());
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The document that a node has printed; or why it has not answered. The document counts, whatever the exit code and the lines
/// around it: `oc debug` with a command shows the log of its pod, in which both outputs are mixed, and passes on no exit code
/// (openshift/oc `pkg/cli/debug/debug.go`).
pub(super) fn printed(answer: Result<Output, ExecError>) -> Result<String, String> {
    match answer {
        Ok(output) => document(&output.stdout).ok_or_else(|| match output.code {
            0 => "the command printed no JSON".into(),
            code => format!("the command exited with {code}: {}", one_line(&output.stderr)),
        }),
        Err(error) => Err(one_line(&format!("{:#}", anyhow::Error::from(error)))),
    }
}

/// The first object in the text that begins a line and has a version, as each document of ours.
fn document(text: &str) -> Option<String> {
    let begins = text.match_indices('{').filter(|(at, _)| *at == 0 || text.as_bytes()[at - 1] == b'\n');
    let mut objects = begins.filter_map(|(at, _)| {
        serde_json::Deserializer::from_str(&text[at..]).into_iter::<serde_json::Value>().next()?.ok()
    });
    objects.find(|object| object.get("version").is_some()).map(|object| object.to_string())
}

/// What each node says of its health.
pub(super) fn healths(host: &Host, via: &Via, nodes: &[String]) -> Vec<SaidNode> {
    let answers = via.ask_all(host, nodes, &["etcd-lun", "health", "--json"], ANSWER_LIMIT);
    let said = nodes.iter().zip(answers).map(|(node, answer)| {
        let read = printed(answer).and_then(|text| SaidNode::parse(node, &text));
        read.unwrap_or_else(|why| SaidNode::silent(node, why))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_an_answer() {
        let output = |code, stdout: &str, stderr: &str| {
            printed(Ok(Output { code, stdout: stdout.into(), stderr: stderr.into() }))
        };
        let (ours, failed) = ("{\n  \"version\": 1\n}\n", "error: non-zero exit code from debug container");
        for stdout in [ours.to_owned(), format!("{{odd}}\n{{}}\nwarning: x\n{ours}unhealthy: {{mount}}\n")] {
            assert_eq!(output(1, &stdout, failed).unwrap(), r#"{"version":1}"#, "{stdout}");
        }
        for nothing in ["hello", "", "{}", "x {\"version\": 1}", "{\"version\": 1"] {
            assert_eq!(output(0, nothing, "").unwrap_err(), "the command printed no JSON");
        }
        let refused = output(255, "", "ssh: connect to host a port 22:\n Connection refused\n").unwrap_err();
        assert_eq!(
            refused,
            "the command exited with 255: ssh: connect to host a port 22:; Connection refused"
        );
    }
}

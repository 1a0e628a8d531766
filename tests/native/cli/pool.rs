//! `pool` from an administrator's machine. The nodes are a directory, and a script stands in for ssh. `cargo xtask measure roll` has real nodes.

use crate::{Dir, GOOD, run};
use health::CHECKS;
use std::{fs, os::unix::fs::PermissionsExt as _};
use support::{printed_health, schema};

/// Stands in for ssh: `reach NODE etcd-lun VERB …`. NODE.down: nobody answers. NODE.fails: `apply` fails. What is in NODE.once is
/// said of the health once, then NODE.health. In the same way NODE.now comes before NODE.plan.
const REACH: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 9
node=$1
shift 2
echo "$node $*" >>calls
[ ! -e "$node.down" ] || { echo "ssh: connect to host $node port 22: No route to host" >&2; exit 255; }
case $1 in
plan) if [ -e "$node.now" ]; then cat "$node.now"; rm "$node.now"; else cat "$node.plan"; fi ;;
health) if [ -e "$node.once" ]; then cat "$node.once"; rm "$node.once"; else cat "$node.health"; fi; exit 4 ;;
apply)
    [ ! -e "$node.fails" ] || { echo "refused [lun-not-blank]: LUN 1 holds an ext4 filesystem" >&2; exit 3; }
    echo '{"version":1,"plan":{"steps":[],"horizon":null}}' >"$node.plan"
    ! [ -e "$node.broken" ] || { echo "client_loop: send disconnect: Broken pipe" >&2; exit 255; } ;;
esac
"#;

const STEPS: &str =
    r#"{"version":1,"plan":{"steps":[{"step":"log-in"},{"step":"attach-lun"}],"horizon":"lun"}}"#;
const NOTHING: &str = r#"{"version":1,"plan":{"steps":[],"horizon":null}}"#;
const NODES: [&str; 3] = ["master-0", "master-1", "master-2.example.com"];

struct Nodes(Dir);

impl Nodes {
    /// Three healthy nodes, none of which was moved.
    fn new(test: &str) -> Self {
        let nodes = Self(Dir::new(test));
        nodes.put("reach", REACH);
        fs::set_permissions(nodes.0.0.join("reach"), fs::Permissions::from_mode(0o755)).unwrap();
        for node in NODES {
            nodes.put(&format!("{node}.plan"), STEPS);
            nodes.put(&format!("{node}.health"), &printed_health(&[]));
        }
        nodes
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.0.0.join(name), text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.0.join(name)).unwrap();
    }

    /// Runs the verb. Returns what it printed, and which command each node got.
    fn pool(&self, args: &[&str]) -> (i32, String, String, Vec<String>) {
        self.pool_of(args, &Self::entries())
    }

    /// A config with an entry for each node.
    fn entries() -> String {
        let (head, entry) = GOOD.split_once("[[node]]").unwrap();
        let entries: String = NODES
            .iter()
            .enumerate()
            .map(|(at, node)| {
                let entry = entry.replace("HOST", node).replace("master0", &format!("master{at}"));
                format!("[[node]]{}", entry.replace("lun = 1", &format!("lun = {}", at + 1)))
            })
            .collect();
        format!("{head}{entries}")
    }

    /// The same with this config.
    fn pool_of(&self, args: &[&str], config: &str) -> (i32, String, String, Vec<String>) {
        self.put("config.toml", config);
        self.put("calls", "");
        let config = self.0.0.join("config.toml");
        let via = format!("{} {{node}}", self.0.0.join("reach").display());
        let line = [&["pool"], args, &["--via", &via, "--config", config.to_str().unwrap()]].concat();
        let (code, out, err) = run(&line);
        let calls = fs::read_to_string(self.0.0.join("calls")).unwrap();
        (code, out, err, calls.lines().map(str::to_owned).collect())
    }
}

fn moves(calls: &[String]) -> Vec<&str> {
    calls.iter().filter_map(|call| call.strip_suffix(" apply")).collect()
}

#[test]
fn one_table_of_all_nodes() {
    let nodes = Nodes::new("pool-health");
    let (code, out, err, calls) = nodes.pool(&["health"]);
    assert_eq!((code, calls.len()), (0, 3), "{out}{err}");
    assert!(out.contains(&format!("all {} checks", CHECKS.len())), "{out}");
    assert!(out.ends_with("cluster, as master-0 sees it: as it should be\n"), "{out}");

    nodes.put("master-1.health", &printed_health(&[("session", "there is no session to the target")]));
    nodes.put("master-2.example.com.down", "");
    let (code, out, err, _) = nodes.pool(&["health"]);
    assert_eq!(code, 4);
    assert_eq!(err, "unhealthy: master-1, master-2.example.com\n");
    for line in [
        "session           ok                    FOUND                 no answer",
        "master-1, session: there is no session to the target",
        "master-2.example.com: no answer: the command exited with 255: ssh: connect to host master-2.example.com port 22: No route to host",
    ] {
        assert!(out.lines().any(|found| found == line), "{line}\n{out}");
    }

    let (code, out, _, _) = nodes.pool(&["health", "--json"]);
    assert_eq!(code, 4);
    let printed: serde_json::Value = serde_json::from_str(&out).unwrap();
    schema::check_printed(&schema::schema_of("pool-health"), &printed).unwrap();
    assert_eq!(printed["nodes"][1]["rows"][1]["outcome"], "found");

    let (code, _, _, calls) = nodes.pool(&["health", "--node", "master-0", "--node", "master-0"]);
    assert_eq!((code, calls), (0, vec!["master-0 health --json".to_owned()]));
}

/// Nobody but the cluster knows the names of the nodes.
#[test]
fn the_nodes_of_a_pattern_are_named() {
    let nodes = Nodes::new("pool-pattern");
    let config = GOOD
        .replace("HOST", "master-*")
        .replace("master0", "{hostname}")
        .replace("[target]\n", "[target]\nlun_masking = true\n");
    let (code, _, err, calls) = nodes.pool_of(&["health"], &config);
    assert_eq!((code, calls.len()), (2, 0), "{err}");
    let cure = "name each node with --node, such as `--node \"$(oc get nodes -l node-role.kubernetes.io/master -o name)\"`";
    assert!(err.contains("the nodes that master-* matches") && err.contains(cure), "{err}");
    let printed = "node/master-0\nnode/master-1\nnode/master-2.example.com";
    let (code, out, err, calls) = nodes.pool_of(&["apply", "--yes", "--node", printed], &config);
    assert_eq!((code, moves(&calls)), (0, NODES.to_vec()), "{out}{err}");
    let (code, _, err, calls) = nodes.pool_of(&["health", "--node", "worker-0"], &config);
    assert_eq!((code, calls.len()), (2, 0));
    assert!(err.contains("`worker-0`") && err.contains("the entries are master-*"), "{err}");
}

#[test]
fn one_node_after_the_other() {
    let nodes = Nodes::new("pool-apply");
    nodes.put("master-1.plan", NOTHING);
    // After the first move the member still reads its log.
    nodes.put("master-2.example.com.once", &printed_health(&[("cluster", "1 of 3 voters is not healthy")]));
    let (code, out, err, calls) = nodes.pool(&["apply", "--yes"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "Done: 2 nodes moved, 1 node had nothing to do.\n");
    assert!(err.contains("waiting until the cluster is whole: 1 of 3 voters is not healthy"), "{err}");
    let last = "master-2.example.com";
    let health = format!("{last} health --json");
    // Each node says itself that it is done.
    let (apply, plan) = (format!("{last} apply"), format!("{last} plan --json"));
    let first = ["master-0 health --json", "master-0 apply", "master-0 plan --json"];
    assert_eq!(calls[3..], [&first[..], &[&health, &health, &apply, &plan, &health]].concat());
    let (code, out, _, calls) = nodes.pool(&["apply", "--yes"]);
    assert_eq!((code, out.as_str()), (0, "Done: 0 nodes moved, 3 nodes had nothing to do.\n"));
    assert_eq!(calls.len(), 3, "{calls:?}");
}

#[test]
fn it_stops_at_the_first_failure_and_goes_on_there() {
    let nodes = Nodes::new("pool-stops");
    nodes.put("master-1.fails", "");
    let (code, _, err, calls) = nodes.pool(&["apply", "--yes"]);
    assert_eq!((code, moves(&calls)), (1, vec!["master-0", "master-1"]), "{err}");
    assert!(err.contains("refused [lun-not-blank]: LUN 1 holds an ext4 filesystem"), "{err}");
    let last = err.lines().last().unwrap();
    assert!(last.contains("`etcd-lun apply` on master-1 ended with exit status: 3"), "{last}");
    assert!(last.contains("1 of 3 nodes done, no further node was touched"), "{last}");
    nodes.remove("master-1.fails");
    // The connection breaks, and the run goes on to its end.
    nodes.put("master-1.broken", "");
    let (code, out, err, calls) = nodes.pool(&["apply", "--yes"]);
    assert_eq!((code, moves(&calls)), (0, vec!["master-1", NODES[2]]), "{err}");
    assert!(
        err.contains(
            "master-1: the command ended with exit status: 255, and the node has nothing left to do"
        ),
        "{err}"
    );
    assert_eq!(out, "Done: 2 nodes moved, 1 node had nothing to do.\n");
}

/// A run whose terminal has closed goes on. While its etcd is away, the node refuses a plan, and for the cluster's sake the others
/// do too.
#[test]
fn a_run_that_goes_on_is_waited_for() {
    let nodes = Nodes::new("goes-on");
    let refused = |name: &str| {
        format!(
            r#"{{"version":1,"refused":{{"refusal":"{name}"}},"name":"{name}","message":"refused [{name}]: why"}}"#
        )
    };
    nodes.put("master-0.plan", NOTHING);
    nodes.put("master-1.now", &refused("cluster-unknown"));
    nodes.put("master-1.plan", NOTHING);
    nodes.put("master-2.example.com.now", &refused("no-quorum"));
    let (code, out, err, calls) = nodes.pool(&["apply", "--yes"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("master-1: refused [cluster-unknown]: why")
            && err.contains("a run may be at work there"),
        "{err}"
    );
    assert!(out.contains("Done: 1 node moved, 2 nodes had nothing to do."), "{out}");
    assert_eq!(moves(&calls), ["master-2.example.com"]);
}

/// A pool that is moved node by node: the others have `migrate = false`.
#[test]
fn a_node_that_is_not_moved_yet_is_passed_by() {
    let nodes = Nodes::new("pool-held");
    nodes.put(
        "master-1.plan",
        r#"{"version":1,"refused":{"refusal":"migration-off","entry":"x"},"message":"refused [migration-off]: x"}"#,
    );
    // The config at the desk says that it moves: the node has not got it.
    let (code, _, err, calls) = nodes.pool(&["apply", "--yes"]);
    assert!(code == 1 && err.contains("master-1: the config on the node has `migrate = false`"), "{err}");
    assert_eq!(moves(&calls), [""; 0]);
    let held =
        Nodes::entries().replace("hostname = \"master-1\"", "hostname = \"master-1\"\nmigrate = false");
    let (code, out, err, calls) = nodes.pool_of(&["apply", "--yes"], &held);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("master-1: stays on the local disk (`migrate = false`)"), "{err}");
    assert_eq!(out, "Done: 2 nodes moved, 0 nodes had nothing to do, 1 node not moved yet.\n");
    assert_eq!(moves(&calls), ["master-0", "master-2.example.com"]);
}

#[test]
fn nothing_begins_while_a_node_cannot_be_moved() {
    let nodes = Nodes::new("pool-none");
    let refused =
        r#"{"version":1,"refused":{"refusal":"lun-not-blank"},"message":"refused [lun-not-blank]: why"}"#;
    for (name, text, says) in [
        ("master-2.example.com.down", "", "No route to host"),
        ("master-2.example.com.plan", refused, "refused [lun-not-blank]: why"),
        ("master-2.example.com.plan", "not JSON", "the command printed no JSON"),
    ] {
        nodes.put(name, text);
        let (code, _, err, calls) = nodes.pool(&["apply", "--yes"]);
        assert_eq!((code, calls.len()), (1, 3), "{err}");
        assert!(err.contains(says), "{says}: {err}");
        assert!(err.contains("no node was changed, because master-2.example.com cannot be moved"), "{err}");
        nodes.remove(name);
    }
}

#[test]
fn what_cannot_be_meant() {
    let nodes = Nodes::new("pool-usage");
    let (code, _, err, calls) = nodes.pool(&["apply"]);
    assert_eq!((code, calls.len()), (2, 0));
    assert!(err.contains("standard input is no terminal") && err.contains("--yes"), "{err}");
    let (code, _, err, calls) = nodes.pool(&["health", "--node", "master0"]);
    assert_eq!((code, calls.len()), (2, 0));
    assert!(err.contains("master0") && err.contains("master-0"), "{err}");
    for (via, says) in
        [("ssh root@node", "{node}"), ("ssh '{node}", "quotation mark"), ("{node}", "begin with a program")]
    {
        let (code, _, err) = run(&["pool", "health", "--via", via]);
        assert_eq!(code, 2);
        assert!(err.contains(says), "{via}: {err}");
    }
    let (code, _, err) = run(&["pool", "health"]);
    assert!(code == 2 && err.contains("--via"), "{err}");
}

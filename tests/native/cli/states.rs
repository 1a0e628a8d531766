//! The JSON of nodes in many states is as the schemas say. `tests/model/laws` and `tests/model` check that of many more.

use crate::schemas::checked;
use cli::{Exit, documents};
use node::{Content, Fact, LocalDir, Lun, LunView, Node, Retired};
use plan::{Goal, Occasion};
use serde_json::{Value, json};
use std::time::Duration;
use support::schema::schema_of;
use terms::{Bytes, Span};

/// Facts of every kind: what the record says, what the LUN holds, what is on the local disk, whether etcd runs, what is
/// mounted, and what the cluster says.
fn nodes() -> Vec<Node> {
    use support::{DATA, FOREIGN, OTHER_DATA, OURS, dir, etcd, stamp, xfs};
    let records = [None, Some(support::record()), Some(support::used(2)), Some(support::rolled_back(DATA))];
    let contents = [
        Content::Blank,
        Content::Unfinished { uuid: OURS },
        Content::Foreign { found: "an ext4 filesystem".into() },
        xfs(OURS, None, true),
        xfs(OURS, Some(stamp(1, 2)), true),
        xfs(OURS, Some(stamp(1, 1)), false),
        xfs(FOREIGN, Some(support::foreign_stamp(2)), true),
    ];
    let data = |print| match dir(&["member"], false) {
        LocalDir::Present { entries, barred, immutable, with_state, size, .. } => {
            LocalDir::Present { entries, barred, immutable, fingerprint: Some(print), with_state, size }
        }
        LocalDir::Absent => LocalDir::Absent,
    };
    let locals = [LocalDir::Absent, support::barred(true), data(DATA), data(OTHER_DATA)];
    let states = [("active", Some(Fact::Known(support::cluster(3)))), ("failed", None)];
    let mut nodes = vec![
        support::node(),
        support::migrated(),
        support::with_device(support::migrated()),
        Node::unseen(support::node().identity),
        Node { record: Fact::Unknown("it could not be read".into()), ..support::node() },
    ];
    for record in &records {
        for content in &contents {
            for local in &locals {
                for (state, cluster) in &states {
                    nodes.push(Node {
                        record: Fact::Known(record.clone()),
                        local: Fact::Known(local.clone()),
                        etcd: Fact::Known(etcd(state)),
                        cluster: cluster.clone(),
                        ..support::attached(content.clone())
                    });
                }
            }
        }
    }
    let too_small = Lun { size: Bytes(1 << 20), path_size: Bytes(1 << 20), ..support::lun(Content::Blank) };
    let retired = Retired {
        name: "1".into(),
        ours: true,
        size: Bytes(1 << 30),
        age: Span(Duration::from_millis(1500)),
    };
    nodes.push(Node {
        lun: Fact::Known(LunView::Seen(Box::new(too_small))),
        retired: Fact::Known(vec![retired]),
        rollback_staging: Fact::Known(support::staged(Some(DATA))),
        ..support::node()
    });
    nodes
}

/// The keys whose value is a text that reads as a size or a duration with a unit. Programs cannot compute with it.
fn texts_with_units(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.parse::<Bytes>().is_ok() || text.parse::<Span>().is_ok() => {
            found.push(format!("{at}: {text}"));
        }
        Value::Array(items) => items.iter().for_each(|item| texts_with_units(item, at, found)),
        Value::Object(keys) => {
            for (key, value) in keys {
                texts_with_units(value, &format!("{at}.{key}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_state_of_a_node_is_as_the_schemas_say() {
    let config = support::config();
    let schema = schema_of("status");
    let wanted: Vec<&String> = schema["$defs"]["Node"]["properties"].as_object().unwrap().keys().collect();
    let nodes = nodes();
    assert!(nodes.len() > 200);
    let (mut plans, mut refusals, mut without_cluster, mut units) = (0, 0, 0, Vec::new());
    for node in &nodes {
        let status = documents::STATUS.of(node);
        checked("status", &status);
        let keys: Vec<&String> = status["node"].as_object().unwrap().keys().collect();
        assert_eq!(keys, wanted, "a key of the schema of status is not printed for each state");
        without_cluster += usize::from(status["node"]["cluster"].is_null());
        texts_with_units(&status, "status", &mut units);
        for goal in [Goal::Lun(Occasion::ByHand), Goal::Lun(Occasion::Boot), Goal::Local, Goal::Claim] {
            let (name, printed) = match goal.plan(&config, node) {
                Ok(plan) => {
                    plans += 1;
                    ("plan", documents::PLAN.of(&plan))
                }
                Err(refusal) => {
                    refusals += 1;
                    ("error", documents::failure(&Exit::from(refusal)).unwrap())
                }
            };
            checked(name, &printed);
            texts_with_units(&printed, name, &mut units);
        }
    }
    assert!(plans > 100 && refusals > 100 && without_cluster > 100, "{plans} {refusals} {without_cluster}");
    assert!(units.is_empty(), "texts with a unit in the place of a number: {units:#?}");
    let found = serde_json::to_value(&nodes[nodes.len() - 1]).unwrap();
    assert_eq!(found["lun"]["known"]["seen"]["size_bytes"], 1 << 20, "{found:#}");
    assert_eq!(found["retired"]["known"][0]["age_seconds"], 1.5, "{found:#}");
    assert_eq!(json!(config)["boot"]["attach_timeout"], "5min");
    let mounted = serde_json::to_value(support::migrated()).unwrap();
    assert_eq!(mounted["mount"]["known"]["space"]["free_bytes"], 15_u64 << 30, "{mounted:#}");
}

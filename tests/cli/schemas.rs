//! Every JSON output has a schema `docs/VERB.schema.json`, and is as its schema says.

use crate::{Dir, GOOD, run, schema, support};
use etcd_lun::{
    node::{Content, Fact, LocalDir, Lun, LunView, Node, Retired},
    plan::{Goal, Occasion},
    terms::{Bytes, Span},
};
use serde_json::{Value, json};
use std::{fs, time::Duration};

fn schema_of(name: &str) -> Value {
    let path = format!("{}/../docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
        .unwrap()
}

fn checked(name: &str, value: &Value) {
    schema::check(&schema_of(name), value).unwrap_or_else(|error| panic!("{name}: {error}\n{value:#}"));
    // A reader must accept more keys than there are today, at each level that has keys of ours.
    let mut more = value.clone();
    more["new"] = json!([{ "more": 1 }]);
    schema::check(&schema_of(name), &more).unwrap();
    let mut other = value.clone();
    other["version"] = 2.into();
    assert!(schema::check(&schema_of(name), &other).is_err(), "{name} accepts another version");
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The form of `--json` of a verb that needs a node: its schema, or the schema of errors.
#[test]
fn every_verb_prints_what_its_schema_says() {
    let dir = Dir::new("schemas");
    let config = dir.config(GOOD);
    let other = dir.0.join("other.toml");
    fs::write(&other, GOOD.replace("HOST", "somebody-else")).unwrap();
    let other = other.to_str().unwrap();
    let here = dir.0.to_str().unwrap();
    for (name, args, needs_root) in [
        ("config-check", vec!["config", "check", "--json", "--config", &config], false),
        ("config-check", vec!["config", "check", "--json", "--config", other], false),
        (
            "config-check",
            vec!["config", "check", "--json", "--node", "somebody-else", "--config", other],
            false,
        ),
        ("health-list", vec!["health", "--list", "--json"], false),
        ("status", vec!["status", "--json", "--config", &config], true),
        ("health", vec!["health", "--json", "--config", &config], true),
        ("retired-list", vec!["retired", "list", "--json", "--config", &config], true),
        ("selinux-status", vec!["selinux", "status", "--json", "--config", &config], true),
        ("bench", vec!["bench", here, "--writes", "100", "--json"], false),
        ("error", vec!["config", "check", "--json", "--config", "/nonexistent/config.toml"], false),
        ("error", vec!["apply", "--json", "--bogus"], false),
        ("error", vec!["status", "--json", "--config", "/nonexistent/config.toml"], false),
        ("error", vec!["retired", "list", "--json", "--config", other], false),
        ("error", vec!["retired", "delete", "7", "--json", "--config", &config], false),
    ] {
        if needs_root && !is_root() {
            eprintln!("{args:?}: not run: needs root");
            continue;
        }
        let (code, out, err) = run(&args);
        let value: Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}{err}"));
        // A machine may lack what a verb looks at, such as a disk in place of memory for `bench`. Then it is an error.
        let name = if value.get("error").is_some() { "error" } else { name };
        assert_eq!(name == "error", [1, 2, 3].contains(&code), "{args:?}: {code}: {out}{err}");
        checked(name, &value);
    }
}

/// What depends on the node is taken from facts: a plan, a refusal, and a node of which nothing is known.
#[test]
fn plans_and_refusals_are_as_their_schemas_say() {
    let config = support::config();
    let goal = Goal::Lun(Occasion::ByHand);
    let mut seen = (0, 0);
    let blank = support::attached(etcd_lun::node::Content::Blank);
    let unknown = Node { record: Fact::Unknown("it could not be read".into()), ..support::node() };
    for node in [support::node(), blank, support::migrated(), unknown] {
        for goal in [goal, Goal::Local, Goal::Claim] {
            match goal.plan(&config, &node) {
                Ok(plan) => {
                    seen.0 += 1;
                    checked("plan", &json!({ "version": 1, "plan": plan }));
                }
                Err(refusal) => {
                    seen.1 += 1;
                    let name = refusal.name();
                    let message = format!("refused [{name}]: {refusal}");
                    let printed =
                        json!({ "version": 1, "refused": refusal, "name": name, "message": message });
                    checked("error", &printed);
                }
            }
        }
        checked("status", &json!({ "version": 1, "node": node }));
    }
    assert!(seen.0 > 2 && seen.1 > 2, "{seen:?}");
    let lun = |number: Option<u32>| etcd_lun::apply::luns::VisibleLun {
        number: number.map(etcd_lun::terms::LunNumber),
        address: 16_684,
        method: "flat",
        wwid: number.map(|_| "naa.6001405123456789abcdef0123456789".parse().unwrap()),
        size: number.map(|_| etcd_lun::terms::Bytes(1 << 30)),
        content: "blank".into(),
        is_wanted: true,
    };
    let portal = |problem: Option<String>| etcd_lun::apply::luns::PortalLuns {
        portal: "10.0.0.1".parse().unwrap(),
        luns: vec![lun(Some(300)), lun(None)],
        problem,
    };
    checked("luns", &json!({ "version": 1, "portals": [portal(None), portal(Some("x".into()))] }));
    let retired = Retired { name: "1".into(), ours: true, size: Bytes(1), age: Span(Duration::from_secs(1)) };
    checked("retired-delete", &json!({ "version": 1, "deleted": false, "retired": retired }));
    for verb in ["apply", "rollback", "claim"] {
        let away = Some(etcd_lun::apply::Away { total: 3.1, ..Default::default() });
        let done = etcd_lun::apply::Done { steps: 1, taken: vec!["stop-etcd"], rolled_back: Some(1), away };
        checked(verb, &json!({ "version": 1, verb: done }));
    }
}

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
    let wanted: Vec<&String> =
        schema["properties"]["node"]["properties"].as_object().unwrap().keys().collect();
    let nodes = nodes();
    assert!(nodes.len() > 200);
    let (mut plans, mut refusals, mut without_cluster, mut units) = (0, 0, 0, Vec::new());
    for node in &nodes {
        let status = json!({ "version": 1, "node": node });
        checked("status", &status);
        let keys: Vec<&String> = status["node"].as_object().unwrap().keys().collect();
        assert_eq!(keys, wanted, "docs/status.schema.json names other keys than `status --json` has");
        without_cluster += usize::from(status["node"]["cluster"].is_null());
        texts_with_units(&status, "status", &mut units);
        for goal in [Goal::Lun(Occasion::ByHand), Goal::Lun(Occasion::Boot), Goal::Local, Goal::Claim] {
            let (name, printed) = match goal.plan(&config, node) {
                Ok(plan) => {
                    plans += 1;
                    ("plan", json!({ "version": 1, "plan": plan }))
                }
                Err(refusal) => {
                    refusals += 1;
                    let name = refusal.name();
                    let message = format!("refused [{name}]: {refusal}");
                    ("error", json!({ "version": 1, "refused": refusal, "name": name, "message": message }))
                }
            };
            checked(name, &printed);
            texts_with_units(&printed, name, &mut units);
        }
    }
    assert!(plans > 100 && refusals > 100 && without_cluster > 100, "{plans} {refusals} {without_cluster}");
    texts_with_units(&json!(config), "config", &mut units);
    assert!(units.is_empty(), "texts with a unit in the place of a number: {units:#?}");
    let found = serde_json::to_value(&nodes[nodes.len() - 1]).unwrap();
    assert_eq!(found["lun"]["known"]["seen"]["size_bytes"], 1 << 20, "{found:#}");
    assert_eq!(found["retired"]["known"][0]["age_seconds"], 1.5, "{found:#}");
    assert_eq!(json!(config)["boot"]["attach_timeout_seconds"], 300);
    let mounted = serde_json::to_value(support::migrated()).unwrap();
    assert_eq!(mounted["mount"]["known"]["space"]["free_bytes"], 15_u64 << 30, "{mounted:#}");
}

/// Each size and each duration in a fact has its unit in its key.
#[test]
fn a_number_has_its_unit_in_its_key() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut seen = 0;
    for file in [
        "node/local.rs",
        "node/lun.rs",
        "apply/verbs/luns.rs",
        "plan/refusal/mod.rs",
        "plan/refusal/rollback.rs",
        "plan/refusal/retired.rs",
        "plan/step/mod.rs",
        "plan/step/payload.rs",
        "config/parts.rs",
        "config/timeouts.rs",
    ] {
        let text = fs::read_to_string(format!("{root}/{file}")).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2) {
            let Some((name, kind)) = pair[1].trim_start_matches("pub ").split_once(": ") else { continue };
            let kind = kind.trim_start_matches("Option<").trim_end_matches(',').trim_end_matches('>');
            let unit = match kind {
                "Bytes" => "bytes",
                "Span" => "seconds",
                _ => continue,
            };
            if pair[1].ends_with(',')
                && !name.ends_with(unit)
                && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
            {
                seen += 1;
                let wanted = format!("#[serde(rename = \"{name}_{unit}\")]");
                assert_eq!(pair[0], wanted, "{file}: {}", pair[1]);
            }
        }
    }
    assert!(seen >= 40, "{seen}");
}

/// The check itself finds what is wrong.
#[test]
fn a_value_of_another_form_is_found() {
    let good = json!({ "version": 1, "error": "x", "message": "error: x" });
    checked("error", &good);
    for (pointer, value, said) in
        [("/message", json!(1), ".message: another type"), ("/version", json!(2), ".version: another value")]
    {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(schema::check(&schema_of("error"), &bad).unwrap_err().starts_with(said));
    }
    let neither = json!({ "version": 1, "message": "x" });
    assert!(schema::check(&schema_of("error"), &neither).unwrap_err().contains("none of"));
    let form = json!({ "version": 1, "message": "x", "refused": { "refusal": "No Lun" } });
    assert!(schema::check(&schema_of("error"), &form).unwrap_err().contains("another form"));
}

/// Adds the name of each command below this one that has `--json`.
fn with_json(group: &clap::Command, words: &str, found: &mut Vec<String>) {
    for command in group.get_subcommands() {
        let name = format!("{words}{}", command.get_name());
        if command.get_arguments().any(|option| option.get_long() == Some("json")) {
            found.push(name.clone());
        }
        with_json(command, &format!("{name}-"), found);
    }
}

/// Each verb with `--json` has a schema of its own, and each schema a verb.
#[test]
fn there_is_a_schema_for_each_verb() {
    let dir = format!("{}/../docs", env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> =
        files.filter_map(|name| name.strip_suffix(".schema.json").map(str::to_owned)).collect();
    files.sort();
    let mut wanted = vec!["error".to_owned(), "health-list".to_owned()];
    with_json(&etcd_lun::cli::command(), "", &mut wanted);
    wanted.sort();
    assert_eq!(files, wanted);
}

//! Every JSON output has a schema, and is as its schema says.

use crate::{Dir, GOOD, run};
use apply::{Away, Done};
use cli::{Exit, documents};
use node::{Fact, Node};
use plan::{Goal, Occasion};
use serde_json::{Value, json};
use std::fs;
use support::schema::{self, schema_of};

/// Checks what the program prints.
pub fn checked(name: &str, value: &Value) {
    let schema = schema_of(name);
    schema::check_printed(&schema, value).unwrap_or_else(|error| panic!("{name}: {error}\n{value:#}"));
    let mut more = value.clone();
    add_keys(&mut more);
    schema::check(&schema, &more).unwrap_or_else(|error| panic!("{name}, with more keys: {error}\n{more:#}"));
    let mut other = value.clone();
    other["version"] = 2.into();
    assert!(schema::check(&schema, &other).is_err(), "{name} accepts another version");
}

/// Adds what a later version may print. A reader must accept it, at each level.
fn add_keys(value: &mut Value) {
    match value {
        Value::Object(keys) => {
            keys.values_mut().for_each(add_keys);
            keys.insert("new".into(), json!([{ "more": 1 }]));
        }
        Value::Array(items) => items.iter_mut().for_each(add_keys),
        _ => {}
    }
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
    let blank = support::attached(node::Content::Blank);
    let unknown = Node { record: Fact::Unknown("it could not be read".into()), ..support::node() };
    for node in [support::node(), blank, support::migrated(), unknown] {
        for goal in [goal, Goal::Local, Goal::Claim] {
            match goal.plan(&config, &node) {
                Ok(plan) => {
                    seen.0 += 1;
                    checked("plan", &documents::PLAN.of(&plan));
                }
                Err(refusal) => {
                    seen.1 += 1;
                    checked("error", &documents::failure(&Exit::from(refusal)).unwrap());
                }
            }
        }
        checked("status", &documents::STATUS.of(&node));
    }
    assert!(seen.0 > 2 && seen.1 > 2, "{seen:?}");
    let lun = |number: Option<u32>| apply::luns::VisibleLun {
        number: number.map(terms::LunNumber),
        address: 16_684,
        method: "flat",
        wwid: number.map(|_| "naa.6001405123456789abcdef0123456789".parse().unwrap()),
        size: number.map(|_| terms::Bytes(1 << 30)),
        content: "blank".into(),
        is_wanted: true,
    };
    let portal = |problem: Option<String>| apply::luns::PortalLuns {
        portal: "10.0.0.1".parse().unwrap(),
        luns: vec![lun(Some(300)), lun(None)],
        problem,
    };
    let size = terms::Bytes(1);
    let age = terms::Span(std::time::Duration::from_secs(1));
    let retired = node::Retired { name: "1".into(), ours: true, size, age };
    let deleted = documents::Deleted { deleted: false, retired };
    checked("retired-delete", &documents::RETIRED_DELETE.of(&deleted));
    checked("luns", &documents::LUNS.of(&vec![portal(None), portal(Some("x".into()))]));
    for (name, document) in
        [("apply", documents::APPLY), ("rollback", documents::ROLLBACK), ("claim", documents::CLAIM)]
    {
        for (rolled_back, held, away) in
            [(None, true, None), (Some(1), false, Some(Away { total: 3.1, ..Away::default() }))]
        {
            checked(
                name,
                &document.of(&Done { steps: 1, taken: vec!["stop-etcd"], rolled_back, held, away }),
            );
        }
    }
    let too_large = Exit::TooLarge("it has 2 MB".into());
    checked("error", &documents::failure(&too_large).unwrap());
}

/// The check itself finds what is wrong.
#[test]
fn a_value_of_another_form_is_found() {
    let good = json!({ "version": 1, "error": "x", "name": "internal", "message": "error [internal]: x" });
    checked("error", &good);
    for (pointer, value, said) in
        [("/message", json!(1), ".message: another type"), ("/version", json!(2), ".version: another value")]
    {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(schema::check(&schema_of("error"), &bad).unwrap_err().starts_with(said));
    }
    let neither = json!({ "version": 1, "name": "internal", "message": "x" });
    assert!(schema::check(&schema_of("error"), &neither).unwrap_err().contains("none of"));
    let unknown =
        json!({ "version": 1, "name": "internal", "message": "x", "refused": { "refusal": "No Lun" } });
    assert!(schema::check(&schema_of("error"), &unknown).unwrap_err().contains("none of"));
    let mut more = good;
    more["new"] = json!(1);
    assert!(
        schema::check_printed(&schema_of("error"), &more).unwrap_err().contains("does not name the key new")
    );
    let form = json!({ "version": 1, "checks": [{ "name": "No Lun", "severity": "critical", "protects": "", "limit": "" }] });
    assert!(schema::check(&schema_of("health-list"), &form).unwrap_err().contains("another form"));
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
    let schemas = documents::schemas();
    for (name, schema) in &schemas {
        assert!(
            !schema.to_string().contains("[`"),
            "a link in the source leads nowhere in the schema {name}"
        );
    }
    let mut names: Vec<_> = schemas.into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    let mut wanted = vec!["error".to_owned(), "health-list".to_owned()];
    with_json(&cli::command(), "", &mut wanted);
    wanted.sort();
    assert_eq!(names, wanted);
}

/// A program that runs a verb with `--json` reads JSON in any case, also of a line that cannot be parsed.
#[test]
fn a_wrong_line_with_json_prints_json() {
    let mut names = Vec::new();
    with_json(&cli::command(), "", &mut names);
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        // No command with `--json` has a dash in its name.
        let words: Vec<&str> = name.split('-').collect();
        for wrong in [vec!["--json", "--bogus"], vec!["--bogus", "--json"], vec!["--json", "--json"]] {
            let args = [words.clone(), wrong].concat();
            let (code, out, err) = run(&args);
            assert_eq!(code, 2, "{args:?}: {out}{err}");
            let printed: Value =
                serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?}: {out}{err}"));
            checked("error", &printed);
            assert!(printed["error"].is_string() && !err.is_empty(), "{args:?}: {out}{err}");
        }
    }
}

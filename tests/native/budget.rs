//! The size of the project is within `tests/budget.toml`. A number there may only fall: a commit that raises one says what it buys.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use clap::Command as Verb;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use support::size::{code, is_unit_test, rust};

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The paths below a directory whose names end so.
fn ending(dir: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| match path.is_dir() {
        true => ending(&path, end),
        false => Vec::from_iter(path.to_string_lossy().ends_with(end).then_some(path)),
    };
    entries.flat_map(below).collect()
}

fn lines(paths: &[PathBuf]) -> usize {
    paths.iter().map(|path| fs::read_to_string(path).unwrap().lines().count()).sum()
}

/// The entries of refusals and errors.
fn entries() -> usize {
    let page = fs::read_to_string(tree().join("docs/troubleshooting.md")).unwrap();
    page.lines().filter(|line| line.starts_with("### ")).count()
}

/// The dotted paths of the config's keys that are no tables.
fn keys(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let properties =
        schema.pointer("/items/properties").or(schema.get("properties")).and_then(Value::as_object);
    match properties {
        None => drop(found.insert(path.to_owned())),
        Some(properties) => {
            properties.iter().for_each(|(name, key)| keys(key, &format!("{path}.{name}"), found))
        }
    }
}

/// The commands that have no command below them.
fn verbs(verb: &Verb) -> usize {
    let below = verb.get_subcommands().filter(|below| below.get_name() != "help");
    below.map(verbs).sum::<usize>().max(1)
}

/// The crates of others in the program.
fn crates() -> usize {
    let words =
        ["tree", "--offline", "-p", "etcd-lun", "-e", "normal", "--prefix", "none", "--format", "{p}"];
    let output = Command::new(env!("CARGO")).args(words).current_dir(tree()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // A crate of the workspace shows its folder.
    let others = text.lines().filter(|line| !line.is_empty() && !line.contains("(/"));
    others.map(|line| line.trim_end_matches(" (*)")).collect::<BTreeSet<_>>().len()
}

fn counted() -> BTreeMap<&'static str, usize> {
    let (agent, tests, docs) = (tree().join("agent"), tree().join("tests"), tree().join("docs"));
    let agent = rust(&agent);
    let product = agent.iter().filter(|(path, _)| !is_unit_test(path));
    let mut names = BTreeSet::new();
    keys(&config::schema(), "", &mut names);
    BTreeMap::from([
        ("agent-code", product.map(|(_, text)| code(text).len()).sum()),
        ("tests-rust", rust(&tests).iter().map(|(_, text)| text.lines().count()).sum()),
        ("docs", lines(&ending(&docs, ".md"))),
        ("docs-generated", lines(&ending(&docs, ".schema.json"))),
        ("entries", entries()),
        ("config-keys", names.len()),
        ("verbs", verbs(&cli::command())),
        ("health-checks", health::CHECKS.len()),
        ("crates", crates()),
    ])
}

#[test]
fn the_project_is_within_its_budget() {
    let text = fs::read_to_string(tree().join("tests/budget.toml")).unwrap();
    let budget: BTreeMap<String, usize> = toml::from_str(&text).unwrap();
    let counted = counted();
    assert!(budget.keys().map(String::as_str).eq(counted.keys().copied()), "{budget:?} {counted:?}");
    let mut wrong = Vec::new();
    for (name, is) in counted {
        let may = budget[name];
        if is > may {
            wrong.push(format!("{name} is {is}, and the budget {may}"));
        }
        // The number follows what falls, so that nothing grows back unseen.
        if name == "agent-code" && may * 100 > is * 102 {
            wrong.push(format!("{name} is {is}: lower the budget, which is {may}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}\ncounted: {:#?}", self::counted());
}

//! The map in ARCHITECTURE.md says what the manifests say, its paths exist, only `host` may touch the machine, and no file is too
//! long. That a crate uses only what its manifest names is cargo's work.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

type Names = BTreeSet<String>;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every source of the agent, with its path below `agent/`, without unit tests.
fn agent() -> Vec<(String, String)> {
    let found = support::size::rust(&tree().join("agent"));
    assert!(found.len() > 100, "the sources are not where this test looks");
    found.into_iter().filter(|(path, _)| !support::size::is_unit_test(path)).collect()
}

/// The crates of ours and the others' that each crate of the agent depends on. Ours are named as their directories.
fn manifests() -> BTreeMap<String, (Names, Names)> {
    let read = |dir: PathBuf| {
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).ok()?;
        Some((dir.file_name()?.to_str()?.to_owned(), dependencies(&manifest)))
    };
    fs::read_dir(tree().join("agent")).unwrap().filter_map(|entry| read(entry.unwrap().path())).collect()
}

fn dependencies(manifest: &str) -> (Names, Names) {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names = names.filter_map(|line| Some(line.split(['.', ' ', '=']).next()?.to_owned()));
    let (ours, others): (Names, Names) = names.partition(|name| name.starts_with("etcd-lun-"));
    (ours.iter().map(|name| name["etcd-lun-".len()..].to_owned()).collect(), others)
}

/// The rows of the table below the heading `## Map`: each path, and what may be used there.
fn rows(document: &str) -> Vec<(String, Names)> {
    let table = document.split("\n## Map\n").nth(1).expect("ARCHITECTURE.md has a heading `## Map`");
    let lines =
        table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [path, _, may_use] = cells[..] else { panic!("a row has three cells: {line}") };
        let may_use = may_use.split(',').map(|name| name.trim().trim_matches('`').to_owned());
        let may_use = may_use.filter(|name| !["", "nothing"].contains(&name.as_str())).collect();
        (path.trim_matches('`').to_owned(), may_use)
    };
    lines.skip(2).map(row).collect()
}

/// The differences between the map and the manifests, a line each.
fn differences(rows: &[(String, Names)], manifests: &BTreeMap<String, Names>) -> Vec<String> {
    let mut said = BTreeMap::new();
    for (path, may_use) in rows {
        if let Some(name) = path.strip_prefix("agent/") {
            said.insert(name.trim_end_matches('/').to_owned(), may_use.clone());
        }
    }
    let names: Names = said.keys().chain(manifests.keys()).cloned().collect();
    let differ = names.iter().filter(|name| said.get(*name) != manifests.get(*name));
    differ
        .map(|name| format!("agent/{name}: map {:?}, manifest {:?}", said.get(name), manifests.get(name)))
        .collect()
}

#[test]
fn the_map_and_the_manifests_agree() {
    let rows = rows(&fs::read_to_string(tree().join("ARCHITECTURE.md")).unwrap());
    let uses = manifests().into_iter().map(|(name, (ours, _))| (name, ours)).collect();
    let found = differences(&rows, &uses);
    assert!(found.is_empty(), "ARCHITECTURE.md and the manifests differ:\n{}", found.join("\n"));
    let missing: Vec<_> = rows.iter().filter(|(path, _)| !tree().join(path).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:?}");
}

#[test]
fn each_difference_is_found() {
    let document = "# A\n## Map\n\nWords.\n\n| path | what | may use |\n|---|---|---|\n| `agent/a/` | one | b |\n\
                    | `agent/b/` | two | nothing |\n| `agent/d/` | three | `b` |\n| `tests/` | | |\n\n| x |\n";
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\n# Why.\netcd-lun-b.workspace = true\nserde.workspace = true\n\n\
                    [dev-dependencies]\nnix = { workspace = true }\n";
    let (ours, others) = dependencies(manifest);
    assert_eq!(others, Names::from(["serde".into()]));
    let manifests = BTreeMap::from([
        ("a".to_owned(), ours.clone()),
        ("b".to_owned(), ours),
        ("c".to_owned(), Names::new()),
    ]);
    assert_eq!(
        differences(&rows(document), &manifests),
        [
            "agent/b: map Some({}), manifest Some({\"b\"})",
            "agent/c: map None, manifest Some({})",
            "agent/d: map Some({\"b\"}), manifest None",
        ]
    );
}

/// The map and the manifests could be changed together. This test cannot.
#[test]
fn law_1_what_computes_reaches_nothing_that_reads_or_changes() {
    let manifests = manifests();
    let computes = ["terms", "config", "node", "plan", "health", "bench", "unit", "policy", "delivery"];
    for name in computes {
        let reaches: Vec<_> =
            manifests[name].0.iter().filter(|one| !computes.contains(&one.as_str())).collect();
        assert!(reaches.is_empty(), "{name} uses {reaches:?}");
    }
    let observes = &manifests["observe"].0;
    assert!(!observes.contains("apply") && !observes.contains("cli"), "observe uses {observes:?}");
}

/// `clippy.toml` names the functions of the standard library that reach the machine, and the lint is on in the whole workspace.
#[test]
fn only_host_touches_the_machine() {
    for (name, (_, others)) in manifests() {
        for reaches in ["tokio", "rustix", "zbus"] {
            assert!(name == "host" || !others.contains(reaches), "agent/{name} uses {reaches}");
        }
    }
    let opens = agent().into_iter().filter(|(path, text)| {
        let is_example = path.contains("/examples/");
        !is_example && text.lines().any(|line| line.starts_with("#![") && line.contains("disallowed_methods"))
    });
    let opens: Names = opens.map(|(path, _)| path).collect();
    assert_eq!(opens, Names::from(["cli/src/env.rs".into(), "host/src/lib.rs".into()]));
}

#[test]
fn files_have_one_subject() {
    for (path, text) in agent() {
        let lines = support::size::code(&text).len();
        assert!(lines <= 400, "agent/{path} has {lines} lines of code: more than one subject");
    }
}

/// Paths in ARCHITECTURE.md and in the pages of the design are given from the top, or begin with a crate: `plan/lun.rs` is
/// `agent/plan/src/lun.rs`.
#[test]
fn paths_in_the_documents_exist() {
    let pages = fs::read_dir(tree().join("docs/design")).unwrap().map(|entry| entry.unwrap().path());
    let all = pages.chain([tree().join("ARCHITECTURE.md"), tree().join("docs/rationale.md")]);
    let document: String = all.map(|page| fs::read_to_string(page).unwrap() + "\n").collect();
    let is_path = |text: &&str| {
        text.contains('/')
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter))
            && !text.starts_with(['/', '.'])
    };
    // The texts between backticks, outside of code blocks.
    let named: BTreeSet<_> = document.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(named.len() > 50, "{named:?}");
    let is_there = |path: &&str| {
        let (first, rest) = path.split_once('/').unwrap_or_default();
        let in_crate = tree().join("agent").join(first).join("src").join(rest);
        let beside = [tree().join(path), in_crate, tree().join("packaging").join(path)];
        beside.iter().any(|at| at.exists() || at.with_extension("rs").exists())
    };
    let missing: Vec<_> = named.into_iter().filter(|path| !is_there(path)).collect();
    assert!(missing.is_empty(), "the documents name what is not there: {missing:?}");
}

/// Law 1: what `apply` refuses by itself is what ARCHITECTURE.md lists.
#[test]
fn apply_refuses_by_itself_what_the_document_lists() {
    let document = fs::read_to_string(tree().join("ARCHITECTURE.md")).unwrap();
    let section = document.split("### What `apply` decides\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `apply/"));
    let listed: BTreeMap<String, Names> = rows
        .map(|row| {
            let mut names = row.split('`').skip(1).step_by(2).map(str::to_owned);
            (names.next().unwrap(), names.collect())
        })
        .collect();
    let mut found: BTreeMap<String, Names> = BTreeMap::new();
    for (path, text) in agent() {
        let of_apply = path.split_once("apply/src/").filter(|(_, file)| !file.ends_with("tests.rs"));
        let Some((_, file)) = of_apply else { continue };
        let code = text.split("#[cfg(test)]").next().unwrap();
        let made = code.split("Refusal::").skip(1).filter(|rest| rest.starts_with(char::is_uppercase));
        for rest in made {
            let name = rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap();
            found.entry(format!("apply/{file}")).or_default().insert(name.to_owned());
        }
    }
    assert_eq!(found, listed, "what the sources of `apply` refuse, and what ARCHITECTURE.md says");
}

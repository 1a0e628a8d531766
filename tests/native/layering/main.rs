//! Tests of the architecture, of what cargo cannot say: the map says what the manifests say, no files use each other in a circle,
//! only `host` touches the machine, and how long a file may be.
//!
//! With `ETCD_LUN_TREE=DIR` they check another checkout than the one that they were built from.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod cases;
mod circles;
mod map;
mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use names::{Graph, Source};

fn tree() -> PathBuf {
    env::var_os("ETCD_LUN_TREE").map_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), PathBuf::from)
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The crates of the agent, by name. Each name is that of a directory, too.
fn crates() -> BTreeSet<String> {
    let found: BTreeSet<String> = fs::read_dir(tree().join("agent"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(found.len() > 10, "the crates are not where this test looks: {found:?}");
    found
}

/// Every file of a crate.
fn sources(of: &str) -> Vec<Source> {
    let root = tree().join("agent").join(of).join("src");
    let mut found = Vec::new();
    files(&root, &mut found);
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

fn manifest(of: &str) -> String {
    fs::read_to_string(tree().join("agent").join(of).join("Cargo.toml")).unwrap()
}

/// Who uses what, in each crate.
fn graphs() -> &'static BTreeMap<String, Graph> {
    static GRAPHS: OnceLock<BTreeMap<String, Graph>> = OnceLock::new();
    GRAPHS.get_or_init(|| {
        crates().into_iter().map(|name| (name.clone(), names::graph(&sources(&name)))).collect()
    })
}

/// Cargo holds what the map says: a crate uses those in its manifest, and no others. It does not say when one is named in vain.
#[test]
fn the_map_and_the_manifests_agree() {
    let document = fs::read_to_string(tree().join("ARCHITECTURE.md")).unwrap();
    let rows = map::rows(&document);
    let uses: BTreeMap<_, _> = crates()
        .into_iter()
        .map(|name| (name.clone(), map::dependencies(&manifest(&name), "dependencies").0))
        .collect();
    let mut found = map::differences(&rows, &uses);
    let missing = rows.iter().filter(|row| !tree().join(&row.path).exists());
    found.extend(missing.map(|row| format!("{} is not there", row.path)));
    for (name, graph) in graphs() {
        let (ours, others) = map::dependencies(&manifest(name), "dependencies");
        for one in ours.into_iter().chain(others.iter().map(|one| one.replace('-', "_"))) {
            let is_it = |path: &str| path.split("::").next() == Some(one.as_str());
            if !graph.outside.iter().any(|(_, path)| is_it(path.trim_end_matches('!'))) {
                found.push(format!("agent/{name}/Cargo.toml has {one}, which no file there uses"));
            }
        }
    }
    assert!(found.is_empty(), "the map in ARCHITECTURE.md and the code differ:\n  {}", found.join("\n  "));
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut text = Vec::new();
    let mut all = 0;
    for (name, graph) in graphs() {
        let edges = &graph.files;
        all += edges.len();
        let line = |from: &String, to: &String| {
            let names: Vec<_> =
                edges[&(from.clone(), to.clone())].iter().map(String::as_str).take(6).collect();
            format!("  {name}: {from} -> {to} ({})\n", names.join(", "))
        };
        let found = circles::circles(edges.keys().map(|(from, to)| (from.as_str(), to.as_str())));
        text.extend(found.iter().map(|circle| {
            circle
                .iter()
                .zip(circle.iter().cycle().skip(1))
                .map(|(from, to)| line(from, to))
                .collect::<String>()
        }));
    }
    assert!(all > 200, "the reader of names sees only {all} edges");
    assert!(text.is_empty(), "{} circles of files that use each other:\n{}", text.len(), text.join("\n"));
}

/// What reaches the machine. The crates of others are in the manifest of `host`, and cargo keeps them from the pure crates; of the
/// standard library no manifest says anything.
#[test]
fn only_host_touches_the_machine() {
    let reach = [
        "std::fs",
        "std::process::Command",
        "std::net",
        "std::os::unix",
        "std::os::linux",
        "std::env::var",
        "std::env::var_os",
        "std::env::vars",
        "std::thread",
    ];
    // Types that don't access anything.
    let values = ["std::net::IpAddr", "std::net::Ipv4Addr", "std::net::Ipv6Addr", "std::net::SocketAddr"];
    let prints = ["println!", "eprintln!", "print!", "eprint!", "std::io::stdout", "std::io::stderr"];
    // One place writes and sees that a full disk has taken half an output. `hands` writes to a socket, `env` only compares.
    let may_print = ["output.rs", "hands.rs", "env.rs"];
    let within = |path: &str, what: &str| {
        path.strip_prefix(what).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let mut seen = BTreeSet::new();
    for (layer, (name, path)) in
        graphs().iter().flat_map(|(layer, graph)| graph.outside.iter().map(move |one| (layer, one)))
    {
        let is_value = values.iter().any(|what| within(path, what));
        for what in reach.iter().filter(|what| within(path, what) && !is_value) {
            seen.insert(*what);
            let excused =
                layer == "host" || (layer == "cli" && name == "env.rs" && what.starts_with("std::env::var"));
            assert!(excused, "{layer}/{name} uses {path}");
        }
        let prints = prints.iter().any(|what| within(path, what));
        let may = layer == "cli" && may_print.contains(&name.as_str());
        assert!(!prints || may, "{layer}/{name} prints with {path}");
        let opens = path == "clippy::disallowed_methods";
        let may = layer == "host" && name == "lib.rs" || layer == "cli" && name == "env.rs";
        assert!(!opens || may, "{layer}/{name} opens the fence");
    }
    assert!(
        seen.len() >= 5,
        "of what touches the machine only {seen:?} was seen: the reader of names misses uses"
    );
    for name in crates().iter().filter(|name| *name != "host") {
        let (_, others) = map::dependencies(&manifest(name), "dependencies");
        for reaches in ["tokio", "rustix", "zbus", "sys-mount"] {
            assert!(!others.contains(reaches), "agent/{name}/Cargo.toml has {reaches}");
        }
    }
}

/// The text without comments, empty lines, and items under `#[cfg(test)]`, as rustfmt sets them.
fn code(text: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut lines =
        text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let first = lines.find(|line| !line.trim_start().starts_with("#["));
        if first.is_some_and(|line| !line.ends_with([';', '}', ','])) {
            lines.find(|line| *line == end);
        }
    }
    kept
}

#[test]
fn code_is_what_is_neither_comment_nor_test() {
    let text = "//! A.\n\nuse a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"x\"]\npub fn f() {\n    g();\n}\n\
                fn h() {\n    // Why.\n    #[cfg(test)]\n    if a {\n        b();\n    }\n    i()\n}\n";
    assert_eq!(code(text), ["use a;", "fn h() {", "    i()", "}"]);
}

#[test]
fn files_have_one_subject() {
    for layer in crates() {
        for (name, text) in sources(&layer) {
            let lines = code(&text).len();
            let is_test = name.ends_with("tests.rs") || name.contains("tests/");
            assert!(
                is_test || lines <= 400,
                "{layer}/{name} has {lines} lines of code: more than one subject"
            );
        }
    }
}

/// The map and the manifests could be changed together. This test can't.
#[test]
fn law_1_what_computes_reaches_nothing_that_reads_or_changes() {
    let computes = ["terms", "config", "node", "plan", "health", "bench", "unit", "policy", "delivery"];
    for name in computes {
        let (ours, _) = map::dependencies(&manifest(name), "dependencies");
        let reaches: Vec<_> = ours.iter().filter(|one| !computes.contains(&one.as_str())).collect();
        assert!(reaches.is_empty(), "{name} uses {reaches:?}");
    }
    let (ours, _) = map::dependencies(&manifest("observe"), "dependencies");
    assert!(!ours.contains("apply") && !ours.contains("cli"), "observe uses {ours:?}");
}

/// Every path in ARCHITECTURE.md and in the pages of the design must exist. Paths are given
/// from the top, or begin with a crate: `plan/lun.rs` is `agent/plan/src/lun.rs`.
#[test]
fn paths_in_the_document_exist() {
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

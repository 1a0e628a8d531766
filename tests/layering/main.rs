//! Tests of the architecture: which module may use which, no circles of files that use each other, only `host` touches
//! the machine, and how long a file may be.
//!
//! With `ETCD_LUN_TREE=DIR` they check another checkout than the one that they were built from.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod cases;
mod circles;
mod map;
mod names;

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use names::{Graph, Source};

fn tree() -> PathBuf {
    env::var_os("ETCD_LUN_TREE").map_or(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), PathBuf::from)
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

/// Every file of the agent.
fn sources() -> Vec<Source> {
    let root = tree().join("agent/src");
    let mut found = Vec::new();
    files(&root, &mut found);
    assert!(found.len() > 20, "the sources are not where this test looks");
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

fn graph() -> &'static Graph {
    static GRAPH: OnceLock<Graph> = OnceLock::new();
    GRAPH.get_or_init(|| names::graph(&sources()))
}

fn layer(name: &str) -> &str {
    name.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

#[test]
fn the_map_and_the_code_agree() {
    let document = fs::read_to_string(tree().join("ARCHITECTURE.md")).unwrap();
    let rows = map::rows(&document);
    let modules: BTreeSet<_> = sources().iter().map(|(name, _)| layer(name).to_owned()).collect();
    let modules = modules.into_iter().filter(|module| !["lib", "main"].contains(&module.as_str())).collect();
    let mut found = map::differences(&rows, &modules, &graph().layers);
    let missing = rows.iter().filter(|row| row.module().is_none() && !tree().join(&row.path).exists());
    found.extend(missing.map(|row| format!("{} is not there", row.path)));
    assert!(found.is_empty(), "the map in ARCHITECTURE.md and the code differ:\n  {}", found.join("\n  "));
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let edges = &graph().files;
    assert!(edges.len() > 200, "the reader of names sees only {} edges", edges.len());
    let found = circles::circles(edges.keys().map(|(from, to)| (from.as_str(), to.as_str())));
    let line = |from: &String, to: &String| {
        let names: Vec<_> = edges[&(from.clone(), to.clone())].iter().map(String::as_str).take(6).collect();
        format!("  {from} -> {to} ({})\n", names.join(", "))
    };
    let text: Vec<String> = found
        .iter()
        .map(|circle| {
            circle.iter().zip(circle.iter().cycle().skip(1)).map(|(from, to)| line(from, to)).collect()
        })
        .collect();
    assert!(text.is_empty(), "{} circles of files that use each other:\n{}", text.len(), text.join("\n"));
}

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
        "tokio",
        "rustix",
        "nix",
        "zbus",
        "rtnetlink",
        "sys_mount",
    ];
    // Types that don't access anything.
    let values = ["std::net::IpAddr", "std::net::Ipv4Addr", "std::net::Ipv6Addr", "std::net::SocketAddr"];
    let prints = ["println!", "eprintln!", "print!", "eprint!", "std::io::stdout", "std::io::stderr"];
    let within = |path: &str, what: &str| {
        path.strip_prefix(what).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let mut seen = BTreeSet::new();
    for (name, path) in &graph().outside {
        let layer = layer(name);
        let is_value = values.iter().any(|what| within(path, what));
        for what in reach.iter().filter(|what| within(path, what) && !is_value) {
            seen.insert(*what);
            let excused = layer == "host" || (name == "cli/env.rs" && what.starts_with("std::env::var"));
            assert!(excused, "{name} uses {path}");
        }
        let prints = prints.iter().any(|what| within(path, what));
        assert!(!prints || ["cli", "main"].contains(&layer), "{name} prints with {path}");
        let opens = path == "clippy::disallowed_methods";
        assert!(!opens || ["host/mod.rs", "cli/env.rs"].contains(&name.as_str()), "{name} opens the fence");
    }
    assert!(
        seen.len() > 8,
        "of what touches the machine only {seen:?} was seen: the reader of names misses uses"
    );
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
    for (name, text) in sources() {
        let lines = code(&text).len();
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
        assert!(is_test || lines <= 400, "{name} has {lines} lines of code: it has more than one subject");
    }
}

/// The map says what each module may use, but it could be changed together with the code. This test can't.
#[test]
fn law_1_what_computes_reaches_nothing_that_reads_or_changes() {
    let computes = ["terms", "config", "node", "plan", "health", "bench", "unit", "policy", "delivery"];
    let reaches = ["host", "observe", "apply", "cli"];
    for ((from, to), files) in &graph().layers {
        let is_pure = computes.contains(&from.as_str());
        assert!(!(is_pure && reaches.contains(&to.as_str())), "{from} uses {to}: {files:?}");
        assert!(
            from != "observe" || !["apply", "cli"].contains(&to.as_str()),
            "observe uses {to}: {files:?}"
        );
    }
}

/// Every path in ARCHITECTURE.md and in the pages of the design must exist. Paths are given from the top, or below `agent/src`.
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
        let beside =
            [tree().join(path), tree().join("agent/src").join(path), tree().join("packaging").join(path)];
        beside.iter().any(|at| at.exists() || at.with_extension("rs").exists())
    };
    let missing: Vec<_> = named.into_iter().filter(|path| !is_there(path)).collect();
    assert!(missing.is_empty(), "the documents name what is not there: {missing:?}");
}

//! The architecture, held by a test: who may name whom, and how large a file may grow.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::{
    fs,
    path::{Path, PathBuf},
};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

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

/// Path below `agent/src`, and the text without comments and without test modules.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(Path::new(SOURCE), &mut found);
    assert!(found.len() > 20, "the sources are not where this test looks");
    let code = |text: &str| {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    };
    let name = |path: &Path| path.strip_prefix(SOURCE).unwrap().to_string_lossy().into_owned();
    found
        .iter()
        .map(|path| (name(path), code(&fs::read_to_string(path).unwrap())))
        .filter(|(name, _)| !name.ends_with("tests.rs") && !name.contains("/tests/"))
        .collect()
}

/// Which of our modules a layer may name.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("terms", &[]),
    ("config", &["terms"]),
    ("unit", &["config", "terms"]),
    ("policy", &["config", "terms", "unit"]),
    ("delivery", &["config", "policy", "terms", "unit"]),
    ("host", &["terms"]),
    ("node", &["config", "terms"]),
    ("plan", &["config", "node", "terms", "unit"]),
    ("health", &["config", "node", "plan", "policy", "terms", "unit"]),
    ("observe", &["config", "host", "node", "plan", "policy", "terms", "unit"]),
    ("apply", &["bench", "config", "host", "node", "observe", "plan", "policy", "terms", "unit"]),
    ("bench", &[]),
    (
        "cli",
        &[
            "apply", "bench", "config", "delivery", "health", "host", "node", "observe", "plan", "policy",
            "terms", "unit",
        ],
    ),
];

fn layer(name: &str) -> &str {
    name.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

#[test]
fn layers_name_only_what_lies_below() {
    let modules: Vec<_> = MAY_NAME.iter().map(|(module, _)| *module).collect();
    for (name, code) in sources() {
        let layer = layer(&name);
        if ["lib", "main"].contains(&layer) {
            continue;
        }
        let (_, allowed) = MAY_NAME
            .iter()
            .find(|(module, _)| *module == layer)
            .unwrap_or_else(|| panic!("{name}: a layer that this test doesn't know"));
        for module in &modules {
            let named = code.contains(&format!("crate::{module}"))
                || code.lines().any(|line| {
                    let line = line.trim();
                    line.starts_with(&format!("{module}::")) && code.contains("use crate::{")
                });
            assert!(!named || *module == layer || allowed.contains(module), "{name} names {module}");
        }
    }
}

#[test]
fn only_host_touches_the_machine() {
    let reach = [
        "std::fs",
        "std::process::Command",
        "std::net",
        "std::os::unix",
        "std::os::linux",
        "tokio::",
        "rustix::",
        "nix::",
        "zbus",
        "sys_mount",
        "std::env::var",
        "std::thread",
    ];
    for (name, code) in sources() {
        let layer = layer(&name);
        let excused = |what: &str| layer == "host" || (name == "cli/env.rs" && what == "std::env::var");
        for what in reach {
            assert!(!code.contains(what) || excused(what), "{name} uses {what}");
        }
        let prints = ["println!", "eprintln!", "print!(", "io::stdout", "io::stderr"];
        for what in prints {
            assert!(!code.contains(what) || ["cli", "main"].contains(&layer), "{name} prints with {what}");
        }
        let allows = code.contains("allow(clippy::disallowed_methods");
        assert!(!allows || ["host/mod.rs", "cli/env.rs"].contains(&name.as_str()), "{name} opens the fence");
    }
}

#[test]
fn files_have_one_subject() {
    for (name, code) in sources() {
        let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
        assert!(lines <= 400, "{name} has {lines} lines of code: it has more than one subject");
    }
}

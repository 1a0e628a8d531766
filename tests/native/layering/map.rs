//! The map in ARCHITECTURE.md, and what the manifests say.

use std::collections::{BTreeMap, BTreeSet};

/// A row of the map: a path, and of a crate below `agent` those that it may use.
#[derive(Debug, PartialEq)]
pub struct Row {
    pub path: String,
    pub may_use: BTreeSet<String>,
}

impl Row {
    /// The crate's name, of a row of `agent`.
    pub fn layer(&self) -> Option<&str> {
        self.path.strip_prefix("agent/").map(|name| name.trim_end_matches('/'))
    }
}

/// Reads the table below the heading `## Map`: path, what is there, what it may use.
pub fn rows(document: &str) -> Vec<Row> {
    let table = document.split("\n## Map\n").nth(1).expect("ARCHITECTURE.md has a heading `## Map`");
    let lines =
        table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines.skip(2).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [path, _, may_use] = cells[..] else { panic!("a row has three cells: {line}") };
    let path = path.trim_matches('`').to_owned();
    let may_use = may_use.split(',').map(|name| name.trim().trim_matches('`').to_owned());
    Row { path, may_use: may_use.filter(|name| !["", "nothing"].contains(&name.as_str())).collect() }
}

/// The crates of ours and the others' that a manifest names in this table. Ours without `etcd-lun-`.
pub fn dependencies(manifest: &str, table: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let section = manifest.split(&format!("\n[{table}]\n")).nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| {
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        (!name.is_empty() && !name.starts_with('#')).then(|| name.to_owned())
    });
    let (ours, others): (BTreeSet<_>, BTreeSet<_>) = names.partition(|name| name.starts_with("etcd-lun-"));
    (ours.iter().map(|name| name["etcd-lun-".len()..].to_owned()).collect(), others)
}

/// The differences between the map and the manifests, a line each.
pub fn differences(rows: &[Row], manifests: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, uses) in manifests {
        let of_it: Vec<_> = rows.iter().filter(|row| row.layer() == Some(name)).collect();
        let [row] = of_it[..] else {
            found.push(format!("agent/{name} should have one row, and has {}", of_it.len()));
            continue;
        };
        if row.may_use != *uses {
            found.push(format!("agent/{name} uses {uses:?}, and its row says {:?}", row.may_use));
        }
    }
    let absent = rows.iter().filter(|row| row.layer().is_some_and(|name| !manifests.contains_key(name)));
    found.extend(absent.map(|row| format!("{} is not there", row.path)));
    found
}

#[test]
fn the_table_is_read() {
    let document = "# A\n## Map\n\nWords.\n\n| path | what | may use |\n|---|---|---|\n\
                    | `agent/a/` | one | nothing |\n| `agent/b/` | two | a, `c` |\n| `tests/` | | |\n\n| x |\n";
    let rows = rows(document);
    let row = |path: &str, may_use: &[&str]| Row {
        path: path.into(),
        may_use: may_use.iter().map(|name| (*name).to_owned()).collect(),
    };
    assert_eq!(rows, [row("agent/a/", &[]), row("agent/b/", &["a", "c"]), row("tests/", &[])]);
    assert_eq!((rows[1].layer(), rows[2].layer()), (Some("b"), None));
}

#[test]
fn a_manifest_is_read() {
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\n# Why.\netcd-lun-a.workspace = true\nserde.workspace = true\n\n\
                    [dev-dependencies]\nnix = { workspace = true }\n";
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(dependencies(manifest, "dependencies"), (names(&["a"]), names(&["serde"])));
    assert_eq!(dependencies(manifest, "dev-dependencies"), (names(&[]), names(&["nix"])));
    assert_eq!(dependencies(manifest, "build-dependencies"), (names(&[]), names(&[])));
}

#[test]
fn each_difference_is_found() {
    let rows = rows(
        "\n## Map\n| p | w | m |\n|---|\n| `agent/a/` | | b |\n| `agent/b/` | | |\n| `agent/d/` | | |\n",
    );
    let uses =
        |name: &str, all: &[&str]| (name.to_owned(), all.iter().map(|one| (*one).to_owned()).collect());
    let manifests = BTreeMap::from([uses("a", &["b"]), uses("b", &["a"]), uses("c", &[])]);
    assert_eq!(
        differences(&rows, &manifests),
        [
            "agent/b uses {\"a\"}, and its row says {}",
            "agent/c should have one row, and has 0",
            "agent/d/ is not there",
        ]
    );
}

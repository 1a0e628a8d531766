//! The map in ARCHITECTURE.md: which module may use which.

use std::collections::{BTreeMap, BTreeSet};

/// A row of the map: a path, and below `agent/src` the modules that it may use.
#[derive(Debug, PartialEq)]
pub struct Row {
    pub path: String,
    pub may_use: BTreeSet<String>,
}

impl Row {
    /// The module's name, of a row of `agent/src`.
    pub fn module(&self) -> Option<&str> {
        self.path.strip_prefix("agent/src/").map(|name| name.trim_end_matches('/'))
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

/// The differences between the map and the code, a line each. `used`: from a module to a module, with the files that
/// use it.
pub fn differences(
    rows: &[Row],
    modules: &BTreeSet<String>,
    used: &BTreeMap<(String, String), BTreeSet<String>>,
) -> Vec<String> {
    let mut found = Vec::new();
    for module in modules {
        match rows.iter().filter(|row| row.module() == Some(module)).count() {
            1 => {}
            0 => found.push(format!("agent/src/{module} has no row")),
            _ => found.push(format!("agent/src/{module} has several rows")),
        }
    }
    let allows =
        |from: &str, to: &str| rows.iter().any(|row| row.module() == Some(from) && row.may_use.contains(to));
    for ((from, to), files) in used {
        if !allows(from, to) {
            let files: Vec<_> = files.iter().map(String::as_str).collect();
            found.push(format!("{from} uses {to}, and its row does not allow it: {}", files.join(", ")));
        }
    }
    for row in rows {
        let Some(from) = row.module() else { continue };
        if !modules.contains(from) {
            found.push(format!("{} is not there", row.path));
        }
        for to in &row.may_use {
            if !used.contains_key(&(from.to_owned(), to.clone())) {
                found.push(format!("the row of {from} allows {to}, which no file there uses"));
            }
        }
    }
    found
}

#[test]
fn the_table_is_read() {
    let document = "# A\n## Map\n\nWords.\n\n| path | what | may use |\n|---|---|---|\n\
                    | `agent/src/a/` | one | nothing |\n| `agent/src/b/` | two | a, `c` |\n| `tests/` | | |\n\n| x |\n";
    let rows = rows(document);
    let row = |path: &str, may_use: &[&str]| Row {
        path: path.into(),
        may_use: may_use.iter().map(|name| (*name).to_owned()).collect(),
    };
    assert_eq!(rows, [row("agent/src/a/", &[]), row("agent/src/b/", &["a", "c"]), row("tests/", &[])]);
    assert_eq!((rows[1].module(), rows[2].module()), (Some("b"), None));
}

#[test]
fn each_difference_is_found() {
    let rows = rows(
        "\n## Map\n| p | w | m |\n|---|\n| `agent/src/a/` | | b |\n| `agent/src/b/` | | |\n| `agent/src/d/` | | |\n",
    );
    let modules = BTreeSet::from(["a", "b", "c"].map(String::from));
    let file = || BTreeSet::from(["b/x.rs".to_owned()]);
    let edge = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert_eq!(
        differences(&rows, &modules, &BTreeMap::from([(edge("b", "a"), file())])),
        [
            "agent/src/c has no row",
            "b uses a, and its row does not allow it: b/x.rs",
            "the row of a allows b, which no file there uses",
            "agent/src/d/ is not there",
        ]
    );
}

//! Writes the config for a person.

use super::page::Page;
use config::{Config, Iscsi, NodeRow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A file in the directory of fragments that is not read.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Skipped {
    /// The file.
    pub path: String,
    /// Why it is not read.
    pub why: &'static str,
}

/// The files of the config.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Files {
    /// The files that were read, in this order.
    pub read: Vec<String>,
    /// The files in the directory of fragments that were not read.
    pub not_read: Vec<Skipped>,
}

/// `config check`: each key with its value, by its tables, and what follows from several keys.
pub(super) fn config(config: &Config, whose: &str, found: &Files) -> String {
    let mut page = Page::default();
    files(&mut page, found);
    page.line("host", whose);
    let iscsi = config.backing.iscsi();
    page.line("mount options", config.lun.options_for_etcd(iscsi.is_some()).join(","));
    if let Some(Iscsi { target, .. }) = iscsi {
        let [without, with] = [false, true].map(|multipathd| {
            let [interval, timeout] = target.timeouts.pings(target.has_paths(multipathd));
            format!("every {interval}, answered within {timeout}")
        });
        if target.iqn.all().nth(1).is_some() {
            let named = |portal| format!("{portal} as {}", target.iqn.at(portal));
            page.line("portals", target.portals.iter().map(named).collect::<Vec<_>>().join("\n"));
        }
        page.line("pings", if with == without { with } else { format!("{without}; with multipathd {with}") });
    }
    page.0.push('\n');
    keys(&mut page.0, "", &json!(config));
    page.0
}

/// Adds a line for each key that has a value.
fn keys(text: &mut String, table: &str, value: &Value) {
    // Where etcd's data goes has no table in the file.
    const IN_NO_TABLE: [&str; 2] = ["backing", "iscsi"];
    let shown = match value {
        Value::Null => return,
        Value::Object(below) => {
            for (name, value) in below {
                match table {
                    _ if IN_NO_TABLE.contains(&name.as_str()) => keys(text, table, value),
                    "" => keys(text, name, value),
                    table => keys(text, &format!("{table}.{name}"), value),
                }
            }
            return;
        }
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        one => plain(one),
    };
    let _ = writeln!(text, "{table} = {shown}");
}

/// A value without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn files(page: &mut Page, found: &Files) {
    page.line("read", found.read.join("\n"));
    let skipped: Vec<_> = found.not_read.iter().map(|file| format!("{}: {}", file.path, file.why)).collect();
    page.line("NOT read", skipped.join("\n"));
}

/// `config check` on a machine that is no node.
pub(super) fn nodes(rows: &[NodeRow], whose: &str, found: &Files) -> String {
    let mut page = Page::default();
    files(&mut page, found);
    page.line("host", format!("{whose}: no node of this config; secrets were not read"));
    let cells = rows.iter().map(|row| {
        let own = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        [
            row.name.clone(),
            own(row.initiator.as_ref().map(ToString::to_string)),
            row.target.as_ref().map_or(row.place.to_string(), |target| format!("{} of {target}", row.place)),
            row.wwid.as_ref().map_or("any".into(), ToString::to_string)
                + if row.migrate { "" } else { "  (not yet: `migrate = false`)" },
        ]
    });
    let head = ["NODE", "INITIATOR", "LUN", "WWID"].map(str::to_owned);
    let table: Vec<_> = std::iter::once(head).chain(cells).collect();
    let width = |at: usize| table.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2)];
    page.0.push('\n');
    for [name, initiator, place, wwid] in &table {
        let [one, two, three] = widths;
        let _ = writeln!(page.0, "{name:<one$}  {initiator:<two$}  {place:<three$}  {wwid}");
    }
    page.0
}

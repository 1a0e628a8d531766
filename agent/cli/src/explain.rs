//! `explain`: what a refusal, an error, an alert, a check of health or a key of the config means.

use super::{
    entries::{self, Entry, entries},
    exit::Exit,
    output::{print_markdown, print_out},
};
use clap::Args;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use health::{CHECKS, Check};
use serde_json::Value;
use std::collections::BTreeMap;
use terms::{ErrorName, nearest};

/// What is to be explained.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// A name in brackets, the line that has it, a check, an alert, a config key, or a page such as recovery; without it, what to do while etcd is down
    #[arg(value_name = "NAME", conflicts_with = "list", add = names(), allow_hyphen_values = true)]
    name: Vec<String>,
    /// List all names
    #[arg(long)]
    list: bool,
}

fn names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        known().into_iter().flat_map(|(_, names)| names).map(CompletionCandidate::new).collect()
    })
}

/// The names that are explained, with what they are names of.
fn known() -> [(&'static str, Vec<String>); 5] {
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let mut of_errors = owned(ErrorName::ALL.iter().map(|name| name.as_str()).collect());
    let mut of_entries = owned(entries().iter().map(|entry| entry.name).collect());
    of_entries.retain(|name| !of_errors.contains(name));
    of_errors.sort();
    [
        ("refusals and alerts", of_entries),
        ("errors", of_errors),
        ("checks of `etcd-lun health`", owned(CHECKS.iter().map(|check| check.name).collect())),
        ("keys of the config", keys().into_keys().collect()),
        ("pages", owned(entries::WHOLE.iter().map(|(name, _)| *name).collect())),
    ]
}

/// Prints an entry, the first page, or all names.
pub(super) fn run(options: &Options) -> Result<(), Exit> {
    let asked = options.name.join(" ");
    let asked = if asked.trim().is_empty() { "etcd-is-down" } else { asked.trim() };
    if options.list {
        let lists = known().map(|(kind, names)| format!("{kind}\n  {}\n", names.join("\n  ")));
        print_out(lists.join("\n").trim_end());
    } else {
        print_markdown(&explained(tag(asked)).ok_or_else(|| unknown(asked))?);
    }
    Ok(())
}

/// The name in brackets with which a printed line begins: `[NAME]`, or `error [NAME]: …`. Else the text itself.
fn tag(line: &str) -> &str {
    let begins =
        ["", "error ", "refused "].into_iter().find_map(|kind| line.strip_prefix(kind)?.strip_prefix('['));
    begins.and_then(|rest| rest.split_once(']')).map_or(line, |(name, _)| name)
}

fn explained(name: &str) -> Option<String> {
    let entry = || entries::named(name).map(of_entry);
    let error = || {
        let name = ErrorName::ALL.iter().find(|error| error.as_str().eq_ignore_ascii_case(name))?;
        Some(format!(
            "{}: the message says what etcd-lun has tried, what it has found, and what to do.\n\n{}",
            name.as_str(),
            entries::named(ErrorName::Internal.as_str()).map(of_entry).unwrap_or_default()
        ))
    };
    let check = || CHECKS.iter().find(|check| check.name == name).map(of_check);
    let key = || keys().get(name).map(|key| of_key(name, key));
    let page = || entries::page(name).map(|text| entries::plain(&text));
    entry().or_else(error).or_else(check).or_else(key).or_else(page)
}

fn of_entry(entry: &Entry) -> String {
    let Entry { name, page, message, text } = entry;
    let title = [*name, message].join(": ");
    format!("{}\n\n{}\n\n{page}#{}", title.trim_end_matches(": "), entries::plain(text), name.to_lowercase())
}

fn of_check(check: &Check) -> String {
    format!(
        "The check {} of `etcd-lun health`, {}.\n\nWhat it protects: {}.\nIts limit: {}.\n\nRun `etcd-lun health`: the row of \
         this check says what was found, and what to do.\n\ndocs/health.md",
        check.name,
        check.severity.word(),
        check.protects,
        check.limit
    )
}

fn of_key(name: &str, key: &Value) -> String {
    let about =
        key["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let value = |word: &str, value: Option<&Value>| {
        value.map(|value| format!(" {word} `{value}`.")).unwrap_or_default()
    };
    let (default, example) =
        (value("Default", key.get("default")), value("Example:", key.pointer("/examples/0")));
    format!("The key {name} of the config.\n\n{about}{default}{example}\n\ndocs/config.md")
}

/// The keys of the config, with their tables, and what the schema says of each.
fn keys() -> BTreeMap<String, Value> {
    fn add(path: &str, table: &Value, keys: &mut BTreeMap<String, Value>) {
        let properties =
            table.pointer("/items/properties").or(table.get("properties")).and_then(Value::as_object);
        for (name, key) in properties.into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            add(&path, key, keys);
            keys.insert(path, key.clone());
        }
    }
    let mut keys = BTreeMap::new();
    add("", &config::schema(), &mut keys);
    keys
}

/// The error about a text that is no name. It names the entries that have its words.
fn unknown(asked: &str) -> Exit {
    let known: Vec<String> =
        known().into_iter().flat_map(|(_, names)| names).map(|name| name.to_lowercase()).collect();
    let mut hint = nearest(asked, known.iter().map(String::as_str))
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    let found: Vec<_> = entries::with_words(asked).map(|entry| entry.name).take(8).collect();
    if !found.is_empty() {
        hint = format!("; these have its words: {}", found.join(", "));
    }
    let asked: String = asked.chars().take(80).collect();
    Exit::Usage(format!(
        "`{asked}` is no name that etcd-lun prints: `etcd-lun explain --list` lists the names{hint}"
    ))
}

//! `docs/config.md` is made from the JSON schema that `config schema` prints, and from the comments on the defaults. What
//! the schema says of a key holds.

use crate::run;
use config::{Config, Source, defaults};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write as _};
use support::wrap::wrapped;

/// The tables in the order of the page, and where the schema has them.
const TABLES: [(&str, &str); 10] = [
    ("[target]", "/properties/target"),
    ("[target.chap]", "/properties/target/properties/chap"),
    ("[target.discovery_chap]", "/properties/target/properties/discovery_chap"),
    ("[device]", "/properties/device"),
    ("[etcd]", "/properties/etcd"),
    ("[cluster]", "/properties/cluster"),
    ("[lun]", "/properties/lun"),
    ("[boot]", "/properties/boot"),
    ("[health]", "/properties/health"),
    ("[[node]]", "/properties/node"),
];

/// The source of the defaults.
const DEFAULTS: &str = include_str!("../../../agent/config/src/defaults.rs");

fn schema() -> Value {
    let (code, out, err) = run(&["config", "schema"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    serde_json::from_str(&out).unwrap()
}

/// A key of a table.
#[derive(Debug)]
struct Key {
    name: String,
    about: String,
    default: Option<String>,
    example: Option<String>,
}

/// The keys of a table: required ones first, then by name. Tables in it have a section of their own.
fn keys(table: &Value) -> Vec<Key> {
    let properties =
        table.pointer("/items/properties").or(table.get("properties")).unwrap().as_object().unwrap();
    let keys = properties.iter().filter(|(_, key)| key.get("properties").is_none());
    let mut keys: Vec<_> = keys
        .map(|(name, key)| Key {
            name: name.clone(),
            about: one_line(key["description"].as_str().unwrap_or_else(|| panic!("{name}: {key}"))),
            default: key.get("default").map(written),
            example: key.pointer("/examples/0").map(written),
        })
        .collect();
    keys.sort_by_key(|key| !key.is_required());
    keys
}

impl Key {
    fn is_required(&self) -> bool {
        self.about.ends_with("Required.") || self.about.ends_with("Required with a target.")
    }

    /// A valid value, and how the page calls it.
    fn value(&self) -> (&'static str, &str) {
        match (&self.default, &self.example) {
            (Some(default), None) => ("Default", default),
            (None, Some(example)) => ("Example:", example),
            _ => panic!("{self:?} has both a default and an example, or neither"),
        }
    }
}

/// A value as a config has it. For texts and numbers, JSON and TOML are the same.
fn written(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of `docs/config.md`.
fn text() -> String {
    let schema = schema();
    let mut text = String::from(
        "# Config\n\nThe reference of all config keys, for whoever writes or reviews a config. `etcd-lun config example` prints \
         a config to begin with, and `etcd-lun config init` asks a few questions and writes one.\n\n\
         etcd-lun reads `/etc/etcd-lun/config.toml` (mode 0600), and then `/etc/etcd-lun/config.d/*.toml` in the order of their names. \
         The keys of a later file win. A key that is not listed here is an error. `etcd-lun config check` prints the merged \
         config without its secrets, and which `[[node]]` this host uses.\n\n\
         A time is a number with a unit, such as `\"500ms\"`, `\"10s\"`, `\"5min\"` or `\"1h\"`. A size is too, such as \
         `\"8GiB\"`.\n\n\
         `etcd-lun config schema >etcd-lun.schema.json` writes a JSON schema, with which an editor completes and checks a \
         config. For an editor with Taplo, such as \"Even Better TOML\", the first line of the config names that file: \
         `#:schema ./etcd-lun.schema.json`. This page is made from the schema.\n",
    );
    let mut listed: Vec<(&str, String)> = Vec::new();
    for (name, pointer) in TABLES {
        let table = schema.pointer(pointer).unwrap();
        let _ = writeln!(text, "\n## `{name}`\n\n{}\n", one_line(table["description"].as_str().unwrap()));
        let mut items = String::new();
        for key in keys(table) {
            let (word, value) = key.value();
            let _ = writeln!(items, "- `{}`: {} {word} `{value}`.", key.name, key.about);
        }
        match listed.iter().find(|(_, other)| *other == items) {
            Some((same, _)) => {
                let _ = writeln!(text, "See `{same}` for them.");
            }
            None => text.push_str(&items),
        }
        listed.push((name, items));
    }
    text.push_str("\n## Why these defaults\n\n");
    for reason in reasons() {
        let _ = writeln!(text, "- {reason}");
    }
    wrapped(text.trim_end())
}

/// The comment on each default.
fn reasons() -> Vec<String> {
    let (mut reasons, mut comment) = (Vec::new(), String::new());
    for line in DEFAULTS.lines() {
        if let Some(text) = line.strip_prefix("///") {
            comment += text;
        } else if line.starts_with("pub const") {
            reasons.push(one_line(&std::mem::take(&mut comment)));
        }
    }
    reasons
}

#[test]
fn the_docs_have_the_keys_that_there_are() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");
    let text = text();
    if std::env::var_os("ETCD_LUN_REWRITE").is_some() {
        std::fs::write(page, &text).unwrap();
    }
    let found = std::fs::read_to_string(page).unwrap();
    assert_eq!(
        found, text,
        "docs/config.md differs from the program: make it with ETCD_LUN_REWRITE=1 cargo test --test cli keys"
    );
}

/// No table is forgotten, and each default has its reason.
#[test]
fn the_page_has_every_table_and_every_default() {
    fn tables(table: &Value, at: &str, found: &mut Vec<String>) {
        for (name, key) in table["properties"].as_object().unwrap() {
            if key.get("properties").is_some() || key.pointer("/items/properties").is_some() {
                let at = format!("{at}/properties/{name}");
                found.push(at.clone());
                if key.get("properties").is_some() {
                    tables(key, &at, found);
                }
            }
        }
    }
    let schema = schema();
    let mut found = Vec::new();
    tables(&schema, "", &mut found);
    found.sort();
    let mut listed: Vec<_> = TABLES.iter().map(|(_, pointer)| (*pointer).to_owned()).collect();
    listed.sort();
    assert_eq!(found, listed);
    let reasons = reasons();
    for (name, pointer) in TABLES {
        let table = name.trim_matches(['[', ']']);
        for key in keys(schema.pointer(pointer).unwrap()).iter().filter(|key| key.default.is_some()) {
            // Off is what everybody expects of a switch.
            let named = format!("`{table}.{}`", key.name);
            let has_reason = reasons.iter().any(|reason| reason.starts_with(&named));
            assert!(has_reason || key.default.as_deref() == Some("false"), "{named} has no reason");
        }
    }
}

/// Defaults that depend on something stand in the description, as words.
#[test]
fn the_words_about_defaults_are_true() {
    let schema = schema();
    let about = |pointer: &str| one_line(schema.pointer(pointer).unwrap()["description"].as_str().unwrap());
    for (pointer, values) in [
        (
            "/properties/target/properties/noop_interval",
            [defaults::NOOP_INTERVAL.to_string(), defaults::NOOP_INTERVAL_MULTIPATH.to_string()],
        ),
        (
            "/properties/target/properties/noop_timeout",
            [defaults::NOOP_TIMEOUT.to_string(), defaults::NOOP_TIMEOUT_MULTIPATH.to_string()],
        ),
        (
            "/properties/cluster/properties/client_url",
            [defaults::CLIENT_URL_STATIC_POD.into(), defaults::CLIENT_URL_SYSTEMD.into()],
        ),
    ] {
        for value in values {
            assert!(about(pointer).contains(&format!("`\"{value}\"`")), "{pointer}: {value}");
        }
    }
    let ca = about("/properties/cluster/properties/ca");
    assert!(ca.contains(&format!("`{}`", defaults::CERTIFICATES)), "{ca}");
}

/// A config as tables and keys, with values as TOML.
#[derive(Debug, Clone)]
struct Written(BTreeMap<String, BTreeMap<String, String>>);

impl Written {
    /// The smallest valid config in which this key of `table` is valid too.
    fn least(table: &str, key: &str) -> Self {
        let mut least = Self(BTreeMap::new());
        let on_target = table != "[device]" && key != "path";
        if on_target {
            least.set("[target]", "iqn", "\"iqn.2024-02.com.example:etcd\"");
            least.set("[target]", "portals", "[\"192.0.2.1\"]");
            least.set("[[node]]", "initiator", "\"iqn.1994-05.com.redhat:master0\"");
            least.set("[[node]]", "lun", "1");
        } else {
            least.set("[device]", "path", "\"/dev/disk/by-id/virtio-any\"");
        }
        least.set("[etcd]", "runtime", if key == "unit" { "\"systemd\"" } else { "\"static-pod\"" });
        least.set("[[node]]", if key == "machine_id" { "machine_id" } else { "hostname" }, NAME);
        match key {
            // Each of several targets has a name.
            "target" => {
                let of_target = least.0.remove("[target]").unwrap();
                for (table, name) in [("[[target]]", EXAMPLE_TARGET), ("[[target]] # another", "\"other\"")] {
                    least.0.insert(table.into(), of_target.clone());
                    least.set(table, "name", name);
                }
            }
            "cert" => least.set(table, "key", "\"/etc/etcd/client.key\""),
            "key" => least.set(table, "cert", "\"/etc/etcd/client.crt\""),
            _ => {}
        }
        if table.ends_with("chap]") {
            least.set(table, "username", "\"initiator1\"");
            if !["password", "credential"].contains(&key) {
                least.set(table, "password_file", "\"/etc/etcd-lun/secret\"");
            }
            if key.ends_with("_in") || key.ends_with("_in_file") {
                least.set(table, "username_in", "\"target1\"");
                if key == "username_in" {
                    least.set(table, "credential_in", "\"chap-in\"");
                }
            }
        }
        least
    }

    fn set(&mut self, table: &str, key: &str, value: &str) {
        self.0.entry(table.into()).or_default().insert(key.into(), value.into());
    }

    fn without(mut self, table: &str, key: &str) -> Self {
        self.0.get_mut(table).and_then(|table| table.remove(key));
        self
    }

    fn with(mut self, table: &str, key: &str, value: &str) -> Self {
        self.set(table, key, value);
        self
    }

    fn load(&self) -> Result<Config, String> {
        let table = |(name, keys): (&String, &BTreeMap<String, String>)| {
            let keys: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
            format!("{name}\n{keys}")
        };
        let text: String = self.0.iter().map(table).collect();
        let source = Source { path: "config.toml".into(), text };
        let name = NAME.trim_matches('"');
        Config::load(&[source], name, name).map_err(|error| error.to_string())
    }
}

/// The name of a target in the examples.
const EXAMPLE_TARGET: &str = "\"array-a\"";

/// The node's name and machine id.
const NAME: &str = "\"648db89cc13440329143f5cf9e0700df\"";

/// Writing out a default changes nothing. Without a required key, the error names it. Every example is a valid value, and
/// that of an optional key changes something.
#[test]
fn what_is_said_of_a_key_holds() {
    let schema = schema();
    let (mut defaults, mut required, mut optional) = (0, 0, 0);
    for (of, pointer) in TABLES {
        for key in keys(schema.pointer(pointer).unwrap()) {
            let name = key.name.as_str();
            let which = format!("{of} {key:?}");
            let least = Written::least(of, name);
            let (word, value) = key.value();
            // The node must be found by its own name.
            let value = if ["hostname", "machine_id"].contains(&name) { NAME } else { value };
            let without = least.clone().without(of, name).load();
            let with = least.with(of, name, value).load().unwrap_or_else(|said| panic!("{which}: {said}"));
            if word == "Default" {
                assert_eq!(without.unwrap(), with, "{which}");
                defaults += 1;
            } else if key.is_required() {
                let said = without.expect_err(&which);
                assert!(said.contains(name), "{which}: without it: {said}");
                required += 1;
            } else {
                assert_ne!(without.ok(), Some(with), "{which}: it changes nothing");
                optional += 1;
            }
        }
    }
    assert!(defaults > 10 && required > 5 && optional > 10, "{defaults}, {required}, {optional}");
}

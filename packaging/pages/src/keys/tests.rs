#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use etcd_lun::config::{Config, Source};

use super::{tables, text};

#[test]
fn the_docs_have_the_keys_that_there_are() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");
    let text = text().unwrap();
    if std::env::var_os("ETCD_LUN_REWRITE").is_some() {
        std::fs::write(page, &text).unwrap();
    }
    let found = std::fs::read_to_string(page).unwrap();
    assert_eq!(
        found, text,
        "docs/config.md differs from the program: regenerate it with ETCD_LUN_REWRITE=1 cargo test --package pages"
    );
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
            "cert" => least.set(table, "key", "\"/etc/etcd/client.key\""),
            "key" => least.set(table, "cert", "\"/etc/etcd/client.crt\""),
            "multipath" => least.set("[[node]]", "wwid", "\"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\""),
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

/// The node's name and machine id.
const NAME: &str = "\"648db89cc13440329143f5cf9e0700df\"";

/// The text between backticks that follows `words`.
fn after<'a>(about: &'a str, words: &str) -> Option<&'a str> {
    about.split_once(words)?.1.split_once('`').map(|(value, _)| value)
}

/// Writing out a default changes nothing. Without a required key, the error names it. Every example is a valid value.
#[test]
fn what_is_said_of_a_key_holds() {
    let (mut defaults, mut required, mut optional) = (0, 0, 0);
    for table in tables().unwrap() {
        for key in &table.keys {
            let (of, name, about) = (table.name.as_str(), key.name.as_str(), key.about.as_str());
            let which = format!("{of} {name}: {about}");
            let least = Written::least(of, name);
            if let Some(value) = after(about, "Default `") {
                let (out, with) = (least.clone().without(of, name), least.with(of, name, value));
                assert_eq!(out.load().unwrap(), with.load().unwrap(), "{which}");
                defaults += 1;
            } else if let Some(value) = after(about, "equired, such as `") {
                let said = least.clone().without(of, name).load().expect_err(&which);
                assert!(said.contains(name), "{which}: without it: {said}");
                // The node must be found by its own name.
                let value = if name == "hostname" { NAME } else { value };
                least.with(of, name, value).load().unwrap_or_else(|said| panic!("{which}: {said}"));
                required += 1;
            } else if let Some(value) = after(about, "Optional, such as `") {
                let value = if name == "machine_id" { NAME } else { value };
                let without = least.clone().without(of, name).load();
                let with =
                    least.with(of, name, value).load().unwrap_or_else(|said| panic!("{which}: {said}"));
                assert_ne!(without.ok(), Some(with), "{which}: it changes nothing");
                optional += 1;
            } else {
                panic!("{which}: neither Default, Required nor Optional");
            }
        }
    }
    assert!(defaults > 10 && required > 5 && optional > 10, "{defaults}, {required}, {optional}");
}

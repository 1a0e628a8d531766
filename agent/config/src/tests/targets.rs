//! A pool on two arrays.

use super::*;

const TWO: &str = r#"
[[target]]
name = "a"
iqn = "iqn.2024-02.com.example:a"
portals = ["10.0.0.1"]
[target.chap]
username = "u"
credential = "a"
[[target]]
name = "b"
iqn = "iqn.2024-02.com.example:b"
portals = ["10.0.1.1"]
multipath = true
[etcd]
runtime = "systemd"
[[node]]
hostname = "m0"
initiator = "iqn.2024-02.x:m0"
lun = 1
target = "a"
[[node]]
hostname = "m1"
initiator = "iqn.2024-02.x:m1"
lun = 1
wwid = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4"
target = "b"
"#;

fn pool(text: &str) -> Result<Pool, ConfigError> {
    Pool::load(&[source("0.toml", text)])
}

/// What all entries are told.
fn refused(text: &str) -> String {
    pool(text).and_then(|pool| pool.rows()).unwrap_err().to_string()
}

#[test]
fn each_node_has_its_own_target() {
    let [m0, m1] = ["m0", "m1"].map(|name| load(&[TWO], ID, name).unwrap());
    let [a, b] = [&m0, &m1].map(|config| &iscsi(config).target);
    assert_eq!((a.name.as_deref(), b.name.as_deref()), (Some("a"), Some("b")));
    assert_eq!((a.iqn.to_string().as_str(), a.multipath), ("iqn.2024-02.com.example:a", false));
    assert_eq!((b.iqn.to_string().as_str(), b.multipath), ("iqn.2024-02.com.example:b", true));
    assert!(a.chap.is_some() && b.chap.is_none());
    // What is made for the pool knows both on each node.
    assert_eq!(m0.storage, m1.storage);
    assert_eq!(m0.storage.targets(), [a.clone(), b.clone()]);
    let rows: Vec<_> =
        pool(TWO).unwrap().rows().unwrap().into_iter().map(|row| row.target.unwrap()).collect();
    assert_eq!(rows, ["a", "b"]);
}

/// Lists of several files are added together, as entries are, and one `[target]` may be the first.
#[test]
fn lists_of_several_files() {
    let (first, rest) = TWO.split_once("[[target]]\nname = \"b\"").unwrap();
    let second = format!("[[target]]\nname = \"b\"{rest}");
    for first in [first.to_owned(), first.replace("[[target]]", "[target]")] {
        let config = load(&[&first, &second], ID, "m1").unwrap();
        assert_eq!(iscsi(&config).target.portals[0].to_string(), "10.0.1.1:3260");
        assert_eq!(config.storage.targets().len(), 2);
    }
    let error = load(&[TWO, "[target]\nmultipath = true\n"], ID, "m0").unwrap_err();
    assert!(error.contains("`target.name` is missing from 1.toml, line 1"), "{error}");
}

#[test]
fn one_table_may_have_a_name() {
    let named = GOOD.replace("[target]\n", "[target]\nname = \"a\"\n");
    assert!(load(&[&named], ID, "master-0").is_ok());
    let taken = named.replace("lun = 1\n", "lun = 1\ntarget = \"a\"\n");
    assert_eq!(iscsi(&load(&[&taken], ID, "master-0").unwrap()).target.name.as_deref(), Some("a"));
    let list = GOOD.replace("[target]\n", "[[target]]\n");
    assert!(load(&[&list], ID, "master-0").is_ok());
}

#[test]
fn errors_show_the_line() {
    for (from, to, expected) in [
        (
            "name = \"b\"\n",
            "",
            "`target.name` is missing from 0.toml, line 9: write for example `name = \"array-a\"` below [[target]]\n\
             9 | [[target]]\n  | ^",
        ),
        (
            "name = \"b\"\n",
            "name = \"a\"\n",
            "`target.name` in 0.toml, line 10: a in two tables, expected a name of its own for each target\n\
             10 | name = \"a\"\n   |        ^\n",
        ),
        (
            "name = \"b\"\n",
            "name = \"array b\"\n",
            "reading 0.toml, line 10, column 8: `array b` is not a name of letters, digits, \"-\", \"_\" and \".\", such as \"array-a\"\n\
             10 | name = \"array b\"\n   |        ^",
        ),
        (
            "target = \"b\"\n",
            "target = \"c\"\n",
            "`node.target` in 0.toml, line 26: no target is called c, only a, b, expected the `name` of a [[target]]; no such key is needed for one [target]\n\
             26 | target = \"c\"\n   |          ^",
        ),
        (
            "target = \"b\"\n",
            "",
            "`node.target` is missing from the entry hostname = \"m1\" in 0.toml, line 21: write for example \
             `target = \"array-a\"` below [[node]]\n21 | [[node]]\n   | ^",
        ),
        (
            "portals = [\"10.0.1.1\"]\n",
            "",
            "`target.portals` is missing from 0.toml, line 9: write for example `portals = [\"192.168.10.5:3260\"]` \
             below [[target]]\n9 | [[target]]\n  | ^",
        ),
        (
            "multipath = true\n",
            "replacement_timeout = \"0s\"\n",
            "`target.replacement_timeout` in 0.toml, line 13: 0ms, expected whole seconds, from 1s to a day\n\
             13 | replacement_timeout = \"0s\"\n   |                       ^",
        ),
    ] {
        let error = refused(&TWO.replacen(from, to, 1));
        assert!(error.starts_with(expected), "{error}\nand not\n{expected}");
    }
    let leftover = refused(&GOOD.replace("lun = 1\n", "lun = 1\ntarget = \"a\"\n"));
    assert_eq!(
        leftover,
        "`node.target` in 0.toml, line 14: no target is called a, expected the `name` of a [[target]]; no such key is needed for \
         one [target]\n14 | target = \"a\"\n   |          ^"
    );
    let device = format!("{DEVICE}[[node]]\nhostname = \"x\"\ntarget = \"a\"\n");
    assert!(refused(&device).contains("`node.target` in 0.toml, line 5: it is set in the entry"));
    assert!(refused("target = 5").contains("expected a table"));
    assert!(refused("target = [5]").contains("expected a table"));
}

/// An error of another node's entry must not stop this one.
#[test]
fn another_nodes_target_is_its_own_matter() {
    let wrong = TWO.replace("target = \"b\"\n", "target = \"c\"\n");
    assert!(load(&[&wrong], ID, "m0").is_ok());
    assert!(load(&[&wrong], ID, "m1").unwrap_err().contains("no target is called c"));
    // What follows from one mistake is not said too.
    let unnamed = refused(&TWO.replace("name = \"b\"\n", ""));
    assert!(unnamed.starts_with("`target.name`") && unnamed.matches("`node.").count() == 0, "{unnamed}");
}

/// What an entry needs depends on its own target.
#[test]
fn rules_of_entries() {
    let said = refused(&TWO.replace("wwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\n", ""));
    assert!(
        said.contains("`node.wwid`") && said.contains("there is none for m1") && said.lines().count() == 1,
        "{said}"
    );
    for (from, to, said) in [
        ("iqn.2024-02.x:m1", "iqn.2024-02.x:m0", "in two entries"),
        ("iqn.2024-02.x:m0", "iqn.2024-02.com.example:b", "is the target's name"),
        ("\"m0\"", "\"m*\"", "`lun_masking = true`"),
    ] {
        let error = refused(&TWO.replace(from, to));
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn warnings_name_the_target() {
    let warnings = |text: &str| pool(text).unwrap().warnings();
    let said = warnings(TWO);
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].starts_with("`target.chap` of b: there is none"), "{said:?}");
    assert!(said[1].starts_with("`target.multipath` of b: there is one path"), "{said:?}");
    assert!(said[2].contains("there is none for m0, so"), "{said:?}");
    // One number at two arrays is two LUNs; at one array it may be one.
    let without = TWO
        .replace("multipath = true\n", "")
        .replace("wwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\n", "");
    assert!(!warnings(&without).iter().any(|one| one.contains("have number 1")));
    let both = warnings(&without.replace("target = \"b\"\n", "target = \"a\"\n"));
    assert!(both.iter().any(|one| one.contains("m0, m1 have number 1")), "{both:?}");
    assert!(both.iter().any(|one| one == "`target.name` of b: no [[node]] has this `target`"), "{both:?}");
    let inline = warnings(&TWO.replace("credential = \"a\"", "password = \"short\""));
    assert!(
        inline.iter().any(|one| one.starts_with("`target.chap` of a: a secret is shorter")),
        "{inline:?}"
    );
    assert!(inline.iter().any(|one| one.starts_with("`target.chap.password` of a: all nodes")), "{inline:?}");
}

#[test]
fn the_schema_knows_both_forms() {
    let schema = schema();
    let target = &schema["properties"]["target"];
    assert_eq!(target["type"], serde_json::json!(["object", "array"]));
    assert_eq!(target["items"]["properties"], target["properties"]);
    assert_eq!(target["items"]["additionalProperties"], false);
}

//! A config with several mistakes of meaning: each begins a line, with a name of its own, and a program gets all of them too.

use super::{Dir, GOOD, run, schemas::checked};
use std::fs;

/// Four mistakes: two of value, a missing table, and one in another node's entry.
fn wrong() -> String {
    let entry = "[[node]]\nhostname = \"other\"\ninitiator = \"iqn.1994-05.com.redhat:other\"\n";
    let text = GOOD.replace("HOST", "somebody").replace("lun = 1", "lun = 300");
    let text = text.replace("portals = [\"192.168.10.5:3260\"]", "portals = []");
    text.replace("[etcd]\nruntime = \"systemd\"\n", "") + entry
}

const SAID: &str = r#"error [config-value]: `target.portals` in DIR/config.toml, line 4: the list is empty, expected at least one portal
4 | portals = []
  |           ^
error [config-value]: `node.lun` in DIR/config.toml, line 8: 300 for somebody, which has no `wwid`, expected a number from 0 to 255, or `wwid` beside it: `etcd-lun luns` prints the WWID on the node
error [config-key-missing]: `node.lun` is missing from the entry hostname = "other" in DIR/config.toml, line 12: write for example `lun = 1` below [[node]]
error [config-key-missing]: `etcd.runtime` is missing from the config: write for example `runtime = "static-pod"` below [etcd]
"#;

#[test]
fn all_mistakes_are_said_in_one_run() {
    let dir = Dir::new("several");
    let config = dir.config(&wrong());
    let said = SAID.replace("DIR", dir.0.to_str().unwrap());
    for typed in [&["config", "check"][..], &["render", "udev"]] {
        let (code, out, err) = run(&[typed, &["--config", &config]].concat());
        assert_eq!((code, out.as_str(), err.as_str()), (2, "", said.as_str()), "{typed:?}");
    }
    let (code, out, err) = run(&["config", "check", "--json", "--config", &config]);
    assert_eq!((code, &err), (2, &said));
    let document = serde_json::from_str(&out).unwrap();
    checked("error", &document);
    assert_eq!((&document["name"], &document["message"]), (&"config-value".into(), &said.trim_end().into()));
    assert_eq!(document["error"].as_str().unwrap().lines().count(), 6);
}

/// Secrets are judged with the entries.
#[test]
fn wrong_secrets_and_wrong_entries_are_said_together() {
    let dir = Dir::new("several-secrets");
    let password = "password = \"hunter2hunter2\"";
    let mutual = format!("{password}\nusername_in = \"x\"\npassword_in = \"hunter2hunter2\"");
    let other = format!("{}[target.discovery_chap]\nusername = \"y\"\npassword = \"\"\n[etcd]", "");
    let text = GOOD.replace("HOST", "somebody").replace(password, &mutual).replace("[etcd]", &other);
    let text = text.replace("lun = 1", "lun = 300");
    let (code, out, err) = run(&["config", "check", "--config", &dir.config(&text)]);
    assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 3), "{err}");
    for part in ["`node.lun` in ", "`target.chap`: ", "`target.discovery_chap`: "] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(!err.contains("hunter2"), "{err}");
    // Files that are not there.
    let file = text.replace("lun = 300", "lun = 1").replace(password, "password_file = \"/nonexistent/a\"");
    let file = file.replace("password = \"\"", "password_file = \"/nonexistent/b\"");
    let dir_of_secrets = dir.0.join("none");
    fs::create_dir_all(&dir_of_secrets).unwrap();
    let config = dir.config(&file);
    let from = dir_of_secrets.to_str().unwrap();
    let (code, _, err) = run(&["config", "check", "--secrets-from", from, "--config", &config]);
    assert_eq!((code, err.lines().count()), (2, 2), "{err}");
    assert!(err.contains("/nonexistent/a") && err.contains("/nonexistent/b"), "{err}");
}

//! A config with several mistakes: each is a line with a name of its own, and a program gets all of them too.

use super::{Dir, GOOD, run, schemas::checked};
use std::fs;

/// Five mistakes: of form, of value, a missing key, and two in the entries.
fn wrong() -> String {
    let entry = "[[node]]\nhostname = \"other\"\ninitiator = \"iqn.1994-05.com.redhat:other\"\n";
    let text = GOOD.replace("HOST", "somebody").replace("lun = 1", "lun = \"1\"");
    let text = text.replace("portals = [\"192.168.10.5:3260\"]", "multipaht = true\nportals = []");
    text.replace("[etcd]\nruntime = \"systemd\"\n", "") + entry
}

const SAID: &str = r#"error [config-syntax]: reading DIR/config.toml, line 4, column 1: unknown key `multipaht`, expected one of `iqn`, `portals`, `discovery`, `replacement_timeout`, `noop_interval`, `noop_timeout`, `digests`, `multipath`, `safe_logout`, `lun_masking`, `chap`, `discovery_chap`; did you mean `multipath`?
error [config-value]: `target.portals` in DIR/config.toml, line 5: the list is empty, expected at least one portal
error [config-syntax]: reading DIR/config.toml, line 12, column 7: `node.lun`: found the text "1", expected a whole number from 0 to 16777215, such as 1, without quotes
error [config-key-missing]: `node.lun` is missing from the entry hostname = "other" in DIR/config.toml, line 13: write for example `lun = 1` below [[node]]
error [config-key-missing]: `etcd.runtime` is missing from the config: write for example `runtime = "static-pod"` below [etcd]
"#;

#[test]
fn all_mistakes_are_said_in_one_run() {
    let dir = Dir::new("several");
    let config = dir.config(&wrong());
    let said = SAID.replace("DIR", dir.0.to_str().unwrap());
    for typed in [&["config", "check"][..], &["render", "udev"], &["render", "multipath"]] {
        let (code, out, err) = run(&[typed, &["--config", &config]].concat());
        assert_eq!((code, out.as_str(), err.as_str()), (2, "", said.as_str()), "{typed:?}");
    }
    let (code, out, err) = run(&["config", "check", "--json", "--config", &config]);
    assert_eq!((code, &err), (2, &said));
    let document = serde_json::from_str(&out).unwrap();
    checked("error", &document);
    assert_eq!((&document["name"], &document["message"]), (&"config-syntax".into(), &said.trim_end().into()));
    let plain: Vec<_> =
        said.lines().filter_map(|line| line.split_once("]: ")).map(|(_, text)| text).collect();
    assert_eq!(document["error"], plain.join("\n"));
    assert!(!format!("{out}{err}").contains("hunter2"), "{out}{err}");
}

/// What is corrected is no longer said, and the rest is as before.
#[test]
fn the_list_gets_shorter_by_what_is_corrected() {
    let dir = Dir::new("several-less");
    let mut text = wrong();
    for (from, to, left) in [
        ("multipaht = true\n", "", 4),
        ("portals = []", "portals = [\"192.168.10.5\"]", 3),
        ("lun = \"1\"", "lun = 1", 2),
        (
            "[[node]]\nhostname = \"somebody\"",
            "[etcd]\nruntime = \"systemd\"\n[[node]]\nhostname = \"somebody\"",
            1,
        ),
        ("redhat:other\"\n", "redhat:other\"\nlun = 2\n", 0),
    ] {
        assert!(text.contains(from), "{text}");
        text = text.replace(from, to);
        let (code, _, err) = run(&["config", "check", "--node", "other", "--config", &dir.config(&text)]);
        let errors = err.lines().filter(|line| line.starts_with("error")).count();
        assert_eq!((code, errors), (if left == 0 { 0 } else { 2 }, left), "{err}");
    }
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

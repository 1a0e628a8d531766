//! Names of refusals and errors: printed, in JSON, and explained by the program itself.

use crate::{Dir, GOOD, run};

#[test]
fn a_printed_name_is_explained() {
    let dir = Dir::new("explain");
    let wrong = dir.config(&GOOD.replace("lun = 1", "lunn = 1"));
    let (code, _, err) = run(&["config", "check", "--config", &wrong]);
    assert_eq!(code, 2, "{err}");
    let name = err.split_once("error [").and_then(|(_, rest)| rest.split_once("]: ")).unwrap().0;
    let (code, by_name, _) = run(&["explain", name]);
    assert_eq!(code, 0);
    assert!(by_name.starts_with("config-syntax: reading …, line …"), "{by_name}");
    assert!(by_name.trim_end().ends_with("docs/errors.md#config-syntax"), "{by_name}");
    assert!(!by_name.contains("](") && by_name.contains("config.md"), "{by_name}");
    // The whole line, and the line of an older program, lead to it too.
    let old = err.trim().replace(" [config-syntax]", "");
    for line in [err.trim(), &old, &old.replace("error: ", "")] {
        assert_eq!(run(&["explain", line]), (0, by_name.clone(), String::new()), "{line}");
    }
}

#[test]
fn refusals_alerts_and_checks_are_explained() {
    for (asked, begins, has) in [
        ("lun-newer", "lun-newer: LUN … is newer than this node's record", "etcd-lun claim"),
        ("Two-Histories", "two-histories: ", "docs/troubleshooting.md#two-histories"),
        ("EtcdLunFillsUp", "EtcdLunFillsUp: etcd's LUN on …", "docs/alerts.md#etcdlunfillsup"),
        ("session-timeout", "The check session-timeout of `etcd-lun health`, warning", "etcd-lun health"),
        ("", "# etcd is down on a node", "What you must not touch"),
        ("[lun-newer]", "lun-newer: LUN … is newer than this node's record", "etcd-lun claim"),
        ("docs/recovery.md#a-disk", "# ", "etcd-lun claim"),
        ("Lost-LUN", "# ", "retired"),
        ("etcd-is-down", "# etcd is down on a node", "What you must not touch"),
    ] {
        let args: Vec<&str> = ["explain", asked].into_iter().filter(|word| !word.is_empty()).collect();
        let (code, out, err) = run(&args);
        assert_eq!((code, err.as_str()), (0, ""), "{asked}");
        assert!(out.starts_with(begins) && out.contains(has), "{asked}: {out}");
    }
    let (code, list, _) = run(&["explain", "--list"]);
    assert_eq!(code, 0);
    for name in ["lun-newer", "no-session", "EtcdLunFillsUp", "session-timeout", "recovery"] {
        assert!(list.lines().any(|line| line.trim() == name), "{name}: {list}");
    }
    let (code, out, err) = run(&["explain", "lun-never"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("did you mean `lun-newer`?") && err.contains("explain --list"), "{err}");
}

#[test]
fn json_has_the_name_too() {
    let (code, out, err) = run(&["status", "--json", "--config", "/nonexistent/config.toml"]);
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["message"], err.lines().last().unwrap(), "{out}");
    if nix::unistd::geteuid().is_root() {
        assert_eq!((code, &found["name"]), (2, &"no-such-config".into()), "{out}");
    } else {
        assert_eq!((code, &found["name"]), (1, &"not-root".into()), "{out}");
    }
}

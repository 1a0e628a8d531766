//! Names of refusals and errors: printed, in JSON, and explained by the program itself.

use crate::{Dir, GOOD, run, tested_program};
use std::{
    fs,
    process::{Command, Stdio},
};

#[test]
fn a_printed_name_is_explained() {
    let dir = Dir::new("explain");
    let wrong = dir.config(&GOOD.replace("lun = 1", "lunn = 1"));
    let (code, _, err) = run(&["config", "check", "--config", &wrong]);
    assert_eq!(code, 2, "{err}");
    let name = err.split_once("error [").and_then(|(_, rest)| rest.split_once("]: ")).unwrap().0;
    let (code, by_name, _) = run(&["explain", name]);
    assert_eq!(code, 0);
    assert!(by_name.starts_with("config-syntax\n\n"), "{by_name}");
    assert!(by_name.trim_end().ends_with("docs/troubleshooting.md#config-syntax"), "{by_name}");
    assert!(!by_name.contains("](") && by_name.contains("config.md"), "{by_name}");
    for line in [err.trim(), "[config-syntax]", "error [config-syntax]: internal [usage]: x", "Config-Syntax"]
    {
        assert_eq!(run(&["explain", line]), (0, by_name.clone(), String::new()), "{line}");
    }
    // Words may be found, and give no name.
    let (code, out, err) = run(&["explain", "GHOSTS", "blkdiscard"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    let (code, out, err) = run(&["explain", "`blkdiscard -z` on each node"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("these have its words: formatted-by-another"), "{err}");
}

#[test]
fn refusals_alerts_and_checks_are_explained() {
    for (asked, begins, has) in [
        ("lun-newer", "lun-newer: LUN … is newer than this node's record", "etcd-lun claim"),
        ("Two-Histories", "two-histories: ", "docs/troubleshooting.md#two-histories"),
        ("EtcdLunFillsUp", "EtcdLunFillsUp: etcd's LUN on …", "docs/alerts.md#etcdlunfillsup"),
        ("session-timeout", "The check session-timeout of `etcd-lun health`, warning", "etcd-lun health"),
        ("", "# etcd is down on a node", "What you must not touch"),
        ("refused [lun-newer]: LUN x", "lun-newer: LUN … is newer than this node's record", "etcd-lun claim"),
        ("no-iscsid", "no-iscsid: the message says", "etcd-lun report"),
        ("internal", "internal\n\n", "etcd-lun report"),
        ("lun.mount_options", "The key lun.mount_options of the config.\n\n", "Default `[\"prjquota\"]`"),
        ("node", "The key node of the config.\n\n", "docs/config.md"),
        ("target.chap.username", "The key target.chap.username", "Example: `\"initiator1\"`"),
        ("[lun-newer]", "lun-newer: LUN … is newer than this node's record", "etcd-lun claim"),
        ("docs/recovery.md#a-disk", "# ", "etcd-lun claim"),
        ("guide.md#portals", "## Portals\n", "List every portal"),
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
    for name in [
        "lun-newer",
        "no-session",
        "EtcdLunFillsUp",
        "session-timeout",
        "recovery",
        "etcd.data_dir",
        "internal",
    ] {
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

/// A text that somebody else has written does not name the error.
#[test]
fn a_quoted_message_gives_no_name() {
    let (_, _, err) = run(&["config", "check", "--config", "/x: error [lun-gone]: the LUN has gone (LUN 1)"]);
    assert!(err.starts_with("error [no-such-config]: "), "{err}");
    let dir = Dir::new("misnamed");
    let quoted = GOOD.replace("hostname = \"", "hostname = \"the record is gone: LUN 1 is read-only now ");
    let (code, out, err) = run(&["config", "check", "--json", "--config", &dir.config(&quoted)]);
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &found["name"]), (2, &"config-syntax".into()), "{out}{err}");
}

/// What a page or an entry points to can be read where it is read: on a node that has no documents and no network.
#[test]
fn whatever_an_explained_text_points_to_is_explained() {
    let (_, list, _) = run(&["explain", "--list"]);
    for page in list.split_once("pages\n").unwrap().1.lines().map(str::trim) {
        let text =
            fs::read_to_string(format!("{}/../../docs/{page}.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        // A picture, a page of the sources and a site are nothing for a terminal.
        let is_ours = |link: &&str| link.starts_with('#') || link.contains(".md") && !link.contains('/');
        for link in links.filter(is_ours) {
            let (code, out, err) = run(&["explain", link.trim_start_matches('#')]);
            assert!(code == 0 && link.contains('#') != out.starts_with("# "), "{page}: {link}: {err}{out}");
        }
    }
}

/// On a terminal a text is fitted to it, and what is longer than the screen goes to the pager.
#[test]
fn on_a_terminal_of_80_columns_the_first_screen_has_what_must_not_be_done() {
    let shown = |pager: &str, rows: u16, name: &str| {
        let terminal =
            format!("stty rows {rows} cols 80; PAGER='{pager}' {:?} explain {name}", tested_program());
        let script =
            Command::new("script").args(["-qec", &terminal, "/dev/null"]).stdin(Stdio::null()).output();
        String::from_utf8(script.unwrap().stdout).unwrap().replace("\r\n", "\n")
    };
    const PAGER: &str = "sed s/^/PAGED:/";
    for (pager, rows, name, is_paged) in [
        (PAGER, 24, "etcd-is-down", true),
        ("no-such-pager-anywhere", 24, "etcd-is-down", false),
        ("cat", 24, "etcd-is-down", false),
        (PAGER, 24, "no-session", false),
        (PAGER, 300, "etcd-is-down", false),
    ] {
        let text = shown(pager, rows, name);
        assert_eq!(text.starts_with("PAGED:"), is_paged, "{pager}, {rows}, {name}: {text}");
        let text = text.replace("PAGED:", "");
        assert!(text.lines().all(|line| line.chars().count() <= 80 || line.contains('`')), "{text}");
        if name == "etcd-is-down" {
            assert!(text.lines().take(23).any(|line| line.starts_with("4. Do not")), "{text}");
            assert!(text.contains("\n\nis it us? `status` shows the LUN mounted"), "{text}");
        }
    }
}

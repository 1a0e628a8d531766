//! The real binary, used as a person would: help, exit codes, error lines, JSON. Needs no root and changes
//! nothing. Tests that need a node run in virtual machines.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod bad_input;
mod completions;
mod explain;
mod keys;
mod lines;
mod man;
mod pool;
mod reference;
mod schemas;
mod secrets;
mod several;
mod signals;
mod states;
mod streams;
mod targets;
#[path = "../tested.rs"]
mod tested;
mod units;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};
use tested::tested_program;

const GOOD: &str = r#"
[target]
iqn = "iqn.2024-02.com.example:etcd"
portals = ["192.168.10.5:3260"]
[target.chap]
username = "initiator1"
password = "hunter2hunter2"
[etcd]
runtime = "systemd"
[[node]]
hostname = "HOST"
initiator = "iqn.1994-05.com.redhat:master0"
lun = 1
"#;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("etcd-lun-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a config with an entry for this host.
    fn config(&self, text: &str) -> String {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let path = self.0.join("config.toml");
        fs::write(&path, text.replace("HOST", host.trim())).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(tested_program()).args(args).env("RUST_BACKTRACE", "1").output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn help_names_every_verb_and_exit_code() {
    let (code, out, err) = run(&["--help"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for word in [
        "apply",
        "rollback",
        "plan",
        "status",
        "health",
        "bench",
        "config",
        "render",
        "--config",
        "3 refused",
        "4 unhealthy",
    ] {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let (code, out, _) = run(&["--version"]);
    assert_eq!((code, out.lines().next()), (0, Some(concat!("etcd-lun ", env!("CARGO_PKG_VERSION")))));
}

#[test]
fn wrong_usage_is_2_and_says_how() {
    for args in [&["destroy"][..], &[], &["apply", "--force"], &["render", "units"], &["render"]] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains("Usage"), "{args:?}: {err}");
    }
    let (code, out, err) = run(&["apply", "--json", "--bogus"]);
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &found["version"]), (2, &1.into()), "{err}");
    assert!(found["error"].as_str().unwrap().contains("--bogus"), "{out}");
}

#[test]
fn config_errors_are_2_and_name_file_and_line() {
    let dir = Dir::new("errors");
    let cases = [
        (GOOD.replace("lun = 1", "lun = 1\nwwn = \"x\""), "config.toml, line 14, column 1: "),
        (
            format!("{GOOD}{}", &GOOD[GOOD.find("[[node]]").unwrap()..]),
            "config.toml, line 14: two entries for",
        ),
        (
            GOOD.replace("password = \"hunter2hunter2\"", "password_file = \"/nonexistent/secret\""),
            "there is no such file",
        ),
        (GOOD.replace("password = \"hunter2hunter2\"", "credential = \"chap\""), "systemd-creds encrypt"),
    ];
    for (text, said) in cases {
        let (code, out, err) = run(&["config", "check", "--config", &dir.config(&text)]);
        assert_eq!((code, out.as_str()), (2, ""), "{said}: {err}");
        assert!(err.starts_with("error") && err.contains(said), "{said}: {err}");
        assert!(!err.contains("hunter2"), "{err}");
    }
    let (code, _, err) = run(&["config", "check", "--config", "/nonexistent/config.toml"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("/nonexistent/config.toml"), "{err}");
}

#[test]
fn config_check_of_another_node_needs_neither_its_name_nor_its_secrets() {
    let dir = Dir::new("check-node");
    let pool = GOOD
        .replace("HOST", "somebody-else")
        .replace("password = \"hunter2hunter2\"", "password_file = \"/nonexistent/secret\"");
    let check =
        |text: &str, node: &str| run(&["config", "check", "--node", node, "--config", &dir.config(text)]);
    let (code, out, err) = check(&pool, "somebody-else");
    assert!(code == 0 && err.starts_with("warning: `node.wwid`: there is none for somebody-else"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(out.contains("somebody-else, not this one; secrets were not read"), "{out}");
    assert!(out.contains("\nlun.number = 1\n"), "{out}");
    let (code, _, err) = check(&pool, "nobody");
    assert!(code == 2 && err.contains("no [[node]] entry") && err.contains("somebody-else"), "{code}: {err}");
    // The entries of other nodes are checked too.
    let twice = format!("{pool}{}", pool[pool.find("[[node]]").unwrap()..].replace("somebody-else", "other"));
    let (code, _, err) = check(&twice, "somebody-else");
    assert!(code == 2 && err.contains("in two entries"), "{code}: {err}");
}

#[test]
fn config_check_shows_all_but_secrets() {
    let dir = Dir::new("check");
    let config = dir.config(GOOD);
    let (code, out, err) = run(&["config", "check", "--config", &config]);
    assert_eq!(code, 0, "{err}");
    for part in [
        "iqn.2024-02.com.example:etcd",
        "192.168.10.5:3260",
        "etcd.service",
        "_netdev,prjquota",
        "target.chap.password.inline = ***",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (code, json, _) = run(&["config", "check", "--json", "--config", &config]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &value["version"]), (0, &1.into()));
    assert_eq!(value["config"]["backing"]["iscsi"]["lun"]["number"], 1);
    assert!(!format!("{out}{json}").contains("hunter2"));
}

#[test]
fn a_relative_config_is_in_the_working_directory() {
    let dir = Dir::new("relative");
    dir.config(GOOD);
    let mut command = Command::new(tested_program());
    let output =
        command.args(["config", "check", "--config", "config.toml"]).current_dir(&dir.0).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn units_are_rendered_the_same_every_time() {
    let dir = Dir::new("units");
    let config = dir.config(&GOOD.replace("[[node]]", "data_dir = \"/srv/etcd-1\"\n[[node]]"));
    let into = dir.0.to_str().unwrap();
    let mut texts = Vec::new();
    for _ in 0..2 {
        let (code, _, err) = run(&["render", "units", "--into", into, "--config", &config]);
        assert_eq!(code, 0, "{err}");
        texts.push(fs::read_to_string(dir.0.join("kubelet.service.d/50-etcd-lun.conf")).unwrap());
    }
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].ends_with("\nAfter=srv-etcd\\x2d1.mount\n"), "{}", texts[0]);
    // Nothing of ours has the name of the mount, and what an earlier release has left there goes. Another's unit is refused.
    let mount = dir.0.join(r"srv-etcd\x2d1.mount");
    for (left, stays) in
        [("[Mount]\nWhat=/run/etcd-lun-hands/verified\n", false), ("[Mount]\nWhat=/dev/sdz\n", true)]
    {
        fs::write(&mount, left).unwrap();
        let code = run(&["render", "units", "--into", into, "--config", &config]).0;
        assert_eq!((code, mount.exists()), (if stays { 3 } else { 0 }, stays));
    }
    let (code, _, err) = run(&["render", "units", "--into", "/nonexistent/dir", "--config", &config]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("make it with `mkdir -p /nonexistent/dir`"), "{err}");
}

#[test]
fn checks_are_listed_without_a_node() {
    let (code, out, _) = run(&["health", "--list"]);
    assert_eq!(code, 0);
    for check in health::CHECKS {
        assert!(out.contains(check.name) && out.contains(check.protects), "{}: {out}", check.name);
    }
}

#[test]
fn without_root_it_says_so() {
    let dir = Dir::new("root");
    let config = dir.config(GOOD);
    for verb in ["apply", "rollback", "plan", "status", "health", "bench", "retired list"] {
        let arguments: Vec<_> = verb.split(' ').chain(["--config", &config]).collect();
        let output = as_nobody(&dir, &arguments);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{verb}: {err}");
        assert!(err.starts_with("error [not-root]: etcd-lun must run as root"), "{verb}: {err}");
    }
}

/// What needs no right does not ask for one: a directory of one's own can be measured. Memory is no disk.
#[test]
fn memory_is_not_measured() {
    let output = as_nobody(&Dir::new("memory"), &["bench", "/dev/shm"]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("/dev/shm is on tmpfs, which is memory"), "{err}");
}

/// Runs the program as a user without rights.
fn as_nobody(dir: &Dir, arguments: &[&str]) -> Output {
    let is_root = fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0");
    let binary = tested_program();
    // As root, become nobody. setpriv is part of util-linux, which every machine with blkid has.
    let (program, before): (&str, &[&str]) = if is_root {
        ("setpriv", &["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
    } else {
        ("env", &[])
    };
    // Other users may have no access to the build directory, so the program is copied.
    let copy = dir.0.join("etcd-lun");
    // cp makes the copy. If this process wrote the file, a child of another test could inherit the open
    // descriptor, and the kernel does not start a program that is open for writing (ETXTBSY).
    assert!(copy.exists() || Command::new("cp").arg(binary).arg(&copy).status().unwrap().success());
    Command::new(program).args(before).arg(&copy).args(arguments).output().unwrap()
}

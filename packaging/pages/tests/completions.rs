//! Completions, as a person's Tab drives them: bash and zsh in a terminal, and fish by its own command for that.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test runs the shells of this machine")]

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// What is typed before the Tab, and what is offered then.
const LINES: [(&str, &[&str]); 7] = [
    ("etcd-lun ", &["apply", "rollback", "health", "let-go"]),
    ("etcd-lun render ", &["machineconfig", "butane", "target"]),
    ("etcd-lun render machineconfig --", &["--program", "--secrets-from", "--help"]),
    ("etcd-lun retired delete --", &["--dry-run", "--version"]),
    ("etcd-lun let-go --", &["--config", "--version"]),
    ("etcd-lun config check --", &["--node", "--json"]),
    ("etcd-lun help ", &["render", "bench"]),
];

struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn has(shell: &str) -> bool {
    let found = Command::new(shell).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("{shell}: not run: it is not installed");
    }
    found
}

fn completions(of: &str) -> Dir {
    let dir = std::env::temp_dir().join(format!("etcd-lun-completions-{of}-{}", std::process::id()));
    let made = Command::new(env!("CARGO_BIN_EXE_pages")).arg("completions").arg(&dir).status().unwrap();
    assert!(made.success());
    Dir(dir)
}

fn in_a_terminal(shell: &str) {
    if !has(shell) {
        return;
    }
    let dir = completions(shell);
    for (line, words) in LINES {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tab.py");
        let mut typed = Command::new("/usr/bin/python3");
        let output = typed.arg(script).arg(shell).arg(&dir.0).arg(line).args(words).output().unwrap();
        let screen = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{shell}: after `{line}` and Tab, {words:?} do not all appear:\n{screen}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn bash() {
    in_a_terminal("bash");
}

#[test]
fn zsh() {
    in_a_terminal("zsh");
}

#[test]
fn fish() {
    if !has("fish") {
        return;
    }
    let dir = completions("fish");
    let file = dir.0.join("etcd-lun.fish");
    for (line, words) in LINES {
        let asked = format!("source {}; complete --do-complete '{line}'", file.display());
        let output = Command::new("fish").args(["--no-config", "--command", &asked]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let offered: Vec<_> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        for word in words {
            assert!(offered.contains(word), "after `{line}` and Tab, {word} is not in {offered:?}");
        }
    }
}

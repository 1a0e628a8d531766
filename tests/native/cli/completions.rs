//! Completions, as a person's Tab drives them in a terminal: bash, zsh and fish, which is also asked by its own command.

use crate::{Dir, GOOD, run, tested_program};
use std::{
    env, fs,
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

/// What is typed before the Tab, and what is offered then. `CONFIG` stands for the path of a config with three nodes.
const LINES: [(&str, &[&str]); 13] = [
    ("etcd-lun ", &["apply", "rollback", "health", "let-go"]),
    ("etcd-lun ro", &["rollback"]),
    ("etcd-lun render ", &["machineconfig", "butane", "target"]),
    ("etcd-lun render machineconfig --", &["--program", "--secrets-from", "--help"]),
    ("etcd-lun bench --size ", &["8000", "2300"]),
    ("etcd-lun explain h", &["held"]),
    ("etcd-lun retired delete --", &["--dry-run", "--version"]),
    ("etcd-lun let-go --", &["--config", "--version"]),
    ("etcd-lun config check --", &["--node", "--json"]),
    ("etcd-lun config check --config CONFIG --node ", &["north", "south", "east"]),
    ("etcd-lun --config CONFIG config check --node ", &["north", "south", "east"]),
    ("etcd-lun completion ", &["bash", "zsh", "fish"]),
    ("etcd-lun help ", &["render", "bench"]),
];

fn has(shell: &str) -> bool {
    let found = Command::new(shell).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("{shell}: not run: it is not installed");
    }
    found
}

/// A directory with the program under its own name, the script of a shell under the name by which that shell finds it, and
/// a config.
fn prepared(shell: &str, name: &str) -> Dir {
    let dir = Dir::new(&format!("completion-{shell}"));
    symlink(tested_program(), dir.0.join("etcd-lun")).unwrap();
    let (code, script, err) = run(&["completion", shell]);
    assert_eq!((code, err.as_str()), (0, ""), "{script}");
    fs::create_dir(dir.0.join("scripts")).unwrap();
    fs::write(dir.0.join("scripts").join(name), script).unwrap();
    let (all, node) = GOOD.split_once("[[node]]").unwrap();
    // Names without a common beginning: zsh would type that at the first Tab, and list the names at the second one.
    let nodes = ["north", "south", "east"].iter().enumerate().map(|(at, name)| {
        let node = node.replace("HOST", name).replace("redhat:master0", &format!("redhat:{at}"));
        format!("[[node]]{}", node.replace("lun = 1", &format!("lun = {at}")))
    });
    fs::write(dir.0.join("pool.toml"), format!("{all}{}", nodes.collect::<String>())).unwrap();
    dir
}

/// The search path with the directory of the program in front.
fn path(dir: &Dir) -> String {
    format!("{}:{}", dir.0.display(), env::var("PATH").unwrap())
}

fn typed(dir: &Dir, line: &str) -> String {
    line.replace("CONFIG", dir.0.join("pool.toml").to_str().unwrap())
}

fn in_a_terminal(shell: &str, name: &str) {
    if !has(shell) {
        return;
    }
    let dir = prepared(shell, name);
    for (line, words) in LINES {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/tab.py");
        let mut command = Command::new("/usr/bin/python3");
        command.arg(script).arg(shell).arg(dir.0.join("scripts")).arg(typed(&dir, line)).args(words);
        let output = command.env("PATH", path(&dir)).output().unwrap();
        let screen = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{shell}: after `{line}` and Tab, {words:?} do not all appear:\n{screen}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A variable that somebody has set to something else ends with its reason.
#[test]
fn an_unknown_shell_is_an_error() {
    let output = Command::new(tested_program()).env("ETCD_LUN_COMPLETE", "csh").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error [internal]: completing a command line: unknown shell `csh`"), "{err}");
}

#[test]
fn bash() {
    in_a_terminal("bash", "etcd-lun");
}

#[test]
fn zsh() {
    in_a_terminal("zsh", "_etcd-lun");
}

/// In a terminal fish may show a part of a long list, so it is asked for the whole, too.
#[test]
fn fish() {
    if !has("fish") {
        return;
    }
    in_a_terminal("fish", "etcd-lun.fish");
    let dir = prepared("fish", "etcd-lun.fish");
    let file = dir.0.join("scripts/etcd-lun.fish");
    for (line, words) in LINES {
        let asked = format!("source {}; complete --do-complete '{}'", file.display(), typed(&dir, line));
        let mut command = Command::new("fish");
        let output =
            command.args(["--no-config", "--command", &asked]).env("PATH", path(&dir)).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let offered: Vec<_> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        for word in words {
            assert!(offered.contains(word), "after `{line}` and Tab, {word} is not in {offered:?}");
        }
    }
}

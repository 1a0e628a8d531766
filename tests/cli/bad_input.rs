//! What a new user types and writes wrongly, and what the program answers: a table of kinds of mistakes.
//!
//! Each message names the object, what was found, and the cure. A row has the cure as a person types it from the message, and
//! with it the program goes on.

mod config;
mod typed;
mod values;

use crate::{Dir, GOOD, tested_program};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

/// A mistake.
pub struct Row {
    /// What the person did.
    kind: &'static str,
    /// What is typed after the program's name.
    typed: &'static str,
    config: Config,
    /// The file `chap.secret` beside the config, and its mode.
    secret: Option<(&'static [u8], u32)>,
    code: i32,
    /// What standard output and standard error have after each other.
    said: &'static [&'static str],
    cure: Cure,
}

/// What `config.toml` has.
pub enum Config {
    /// [`GOOD`], with other texts in the place of these.
    But(&'static [(&'static str, &'static str)]),
    /// This text.
    Text(&'static str),
    /// These bytes.
    Bytes(&'static [u8]),
    /// [`GOOD`] in another encoding.
    Encoded(fn(&str) -> Vec<u8>),
    /// [`GOOD`] with 200 nodes, `master-0.cluster-of-an-example.example.com` and so on.
    Many,
}

/// What the person does then, after which the program ends with 0.
pub enum Cure {
    /// Replaces these texts of the config.
    Write(&'static [(&'static str, &'static str)]),
    /// Saves [`GOOD`] as UTF-8.
    Save,
    /// Types this line instead.
    Type(&'static str),
    /// Puts this secret into the file.
    Secret(&'static [u8]),
    /// Nothing: it was right, or a warning.
    Nothing,
}

/// The check of a config.
const CHECK: &str = "config check --config config.toml";
/// The node's entry in [`GOOD`].
const NODE: &str =
    "[[node]]\nhostname = \"somebody\"\ninitiator = \"iqn.1994-05.com.redhat:master0\"\nlun = 1\n";
/// These lack a storage and what runs etcd. Every other row has one mistake, and so one error.
const EMPTY: [&str; 2] = ["an empty file", "standard input without a text"];
/// The longest message, in bytes: some lines of a terminal.
const LONGEST: usize = 700;

fn text(config: &Config) -> Vec<u8> {
    let good = GOOD.replace("HOST", "somebody");
    match config {
        Config::But(changes) => changed(&good, changes).into_bytes(),
        Config::Text(text) => (*text).into(),
        Config::Bytes(bytes) => bytes.to_vec(),
        Config::Encoded(encode) => encode(&good),
        Config::Many => {
            let (all, node) = good.split_once("[[node]]").unwrap();
            let nodes = (0..200).map(|at| {
                let host = format!("master-{at}.cluster-of-an-example.example.com");
                let node = node.replace("somebody", &host).replace("redhat:master0", &format!("redhat:{at}"));
                format!("[[node]]{node}")
            });
            format!("{all}{}", nodes.collect::<String>()).into_bytes()
        }
    }
}

fn changed(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from:?} is not in {text}");
        text.replace(from, to)
    })
}

fn put(path: &Path, bytes: &[u8], mode: u32) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs the program in this directory. The exit code, standard output, and standard error.
fn answer(dir: &Dir, typed: &str) -> (i32, String, String) {
    let mut command = Command::new(tested_program());
    command.args(typed.split_whitespace()).current_dir(&dir.0).stdin(Stdio::null());
    let output = command.env_remove("ETCD_LUN_LOG").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_mistake_is_named_and_its_cure_can_be_typed() {
    let dir = Dir::new("bad-input");
    let (config, secret) = (dir.0.join("config.toml"), dir.0.join("chap.secret"));
    let mut kinds = BTreeSet::new();
    let mut wrong = Vec::new();
    for row in config::ROWS.iter().chain(values::ROWS).chain(typed::ROWS) {
        let Row { kind, typed, config: given, secret: secret_given, code, said, cure } = row;
        assert!(kinds.insert(kind), "{kind} is there twice");
        put(&config, &text(given), 0o600);
        match secret_given {
            Some((bytes, mode)) => put(&secret, bytes, *mode),
            None => drop(fs::remove_file(&secret)),
        }
        let (found, out, err) = answer(&dir, typed);
        let all = format!("{out}{err}");
        let mut complain = |what: &str| wrong.push(format!("{kind}: {what}: {found}: {all}"));
        if found != *code {
            complain("another exit code");
        }
        for part in said.iter().filter(|part| !all.contains(**part)) {
            complain(&format!("lacks {part:?}"));
        }
        if all.contains("hunter2") {
            complain("shows a secret");
        }
        if err.chars().any(|letter| letter.is_control() && letter != '\n') {
            complain("writes a control character to the terminal");
        }
        if found == 2 {
            let errors = if EMPTY.contains(kind) { 2 } else { 1 };
            let of_config = err.starts_with("error [") || err.starts_with("error: reading");
            let with_help = err.contains("\nCommands:\n");
            if err.lines().any(|line| line.len() > LONGEST) && !with_help {
                complain("is too long");
            }
            if of_config && err.lines().count() != errors {
                complain("says more, or less, than is wrong");
            }
        }
        let then = match cure {
            Cure::Nothing => {
                assert!(*code == 0 || kind.contains("full"), "{kind} has no cure");
                continue;
            }
            Cure::Type(line) => line,
            Cure::Write(changes) => {
                let before = String::from_utf8(text(given)).unwrap();
                put(&config, changed(&before, changes).as_bytes(), 0o600);
                typed
            }
            Cure::Save => {
                put(&config, GOOD.replace("HOST", "somebody").as_bytes(), 0o600);
                typed
            }
            Cure::Secret(bytes) => {
                put(&secret, bytes, 0o600);
                typed
            }
        };
        let (found, out, err) = answer(&dir, then);
        if found != 0 {
            wrong.push(format!("{kind}: its cure does not help: {found}: {out}{err}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), kinds.len(), wrong.join("\n"));
    assert!(kinds.len() >= 40, "{}", kinds.len());
}

/// The image of a CI job has no machine id, an empty one, or a placeholder. Such a machine is no node, and its check is worth as
/// much as any.
#[test]
fn a_machine_without_an_id_is_no_node() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("without a machine id: not run: needs root");
        return;
    }
    let dir = Dir::new("no-id");
    let config = dir.config(&GOOD.replace("HOST", "somebody"));
    for id in [":", ": >/etc/machine-id", "echo uninitialized >/etc/machine-id"] {
        let script =
            format!("mount -t tmpfs none /etc && {id} && exec \"$1\" config check --config \"$2\" $3");
        for json in ["", "--json"] {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", &script, "sh"]).arg(tested_program());
            let output = command.args([&config, json]).output().unwrap();
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{id}: {out}{err}");
            let said = if json.is_empty() { "not known (reading the machine id: " } else { "\"nodes\": [" };
            assert!(out.contains(said) && out.contains("somebody"), "{id}: {out}");
        }
    }
}

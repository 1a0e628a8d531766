//! What becomes of an output by what it goes to: a full disk, a reader that has gone, a terminal.

use crate::{Dir, GOOD, tested_program};
use std::{
    fs,
    process::{Command, Stdio},
};

/// Half an output looks like a whole one, so it is an error. A reader that has enough is none.
#[test]
fn an_output_that_is_lost_is_an_error() {
    let dir = Dir::new("full");
    let config = dir.config(GOOD);
    for line in [
        "config check",
        "config check --json",
        "config example",
        "config schema",
        "health --list",
        "explain",
        "explain --list",
        "render udev",
        "render policy",
        "completion bash",
        "--help",
        "version",
    ] {
        let ended = |to: Stdio| {
            let mut command = Command::new(tested_program());
            command.args(line.split(' ')).args(["--config", &config]).stdout(to);
            let output = command.output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (code, err) = ended(fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into());
        assert_eq!(code, Some(1), "{line}: {err}");
        assert!(err.contains("error: printing") && err.contains("No space left"), "{line}: {err}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, err) = ended(writer.into());
        assert_eq!(code, Some(0), "{line}: {err}");
        // A terminal that was closed. `master` is its other end.
        let nix::pty::OpenptyResult { master, slave } = nix::pty::openpty(None, None).unwrap();
        drop(master);
        let (code, err) = ended(slave.into());
        assert_eq!(code, Some(0), "{line}: {err}");
        assert!(!err.contains("printing"), "{line}: {err}");
    }
}

/// What a terminal gets: no MachineConfig, and colours only where they are wanted. script(1) gives a terminal.
#[test]
fn what_a_terminal_gets() {
    let dir = Dir::new("terminal");
    let config = dir.config(GOOD);
    let typed = |env: &[(&str, &str)], args: &str| {
        let line = format!("{} {args} --config {config}", tested_program().display());
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
        command.env_remove("NO_COLOR").env("TERM", "xterm").envs(env.iter().copied());
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = typed(&[], "render machineconfig --without-program");
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("write it to a file, `etcd-lun render machineconfig --output 98-master-etcd-lun.yaml`"),
        "{said}"
    );
    if !nix::unistd::geteuid().is_root() {
        eprintln!("colours: not run: needs root");
        return;
    }
    for (env, coloured) in [
        (&[][..], true),
        (&[("NO_COLOR", "1")], false),
        (&[("NO_COLOR", "")], true),
        (&[("TERM", "dumb")], false),
    ] {
        let (_, said) = typed(env, "health");
        assert!(said.contains("not migrated yet"), "{said}");
        assert_eq!(said.contains("\u{1b}["), coloured, "{env:?}: {said}");
    }
}

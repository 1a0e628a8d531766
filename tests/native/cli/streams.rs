//! What becomes of an output by what it goes to: a full disk, a reader that has gone, a terminal.

use crate::{Dir, GOOD, tested_program};
use std::{
    fs,
    process::{Command, Stdio},
};

/// What prints anything and ends. `FILE` is a config with an entry for this host, `HERE` its directory.
const PRINTING: &[&str] = &[
    "--help",
    "version",
    "help apply",
    "config check --config FILE",
    "config check --json --config FILE",
    "config example",
    "config schema",
    "health --list",
    "health --list --json",
    "explain",
    "explain --list",
    "explain held",
    "render units --into HERE --config FILE",
    "render machineconfig --without-program --config FILE",
    "render machineconfig --without-program --output HERE/98.yaml --config FILE",
    "render butane --without-program --config FILE",
    "render pinnedimageset --image quay.io/x/y@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "render nodedisruptionpolicy",
    "render policy --config FILE",
    "render udev --config FILE",
    "render multipath --config FILE",
    "render target --backstore-dir /x --config FILE",
    "completion bash",
    "completion zsh",
    "completion fish",
    "man HERE",
    "pool health --via echo\u{a0}{node} --config FILE",
    // What looks at the node. On a machine where it cannot, it fails before it prints anything.
    "status --config FILE",
    "status --json --config FILE",
    "plan --config FILE",
    "plan --json --config FILE",
    "health --config FILE",
    "health --json --config FILE",
    "luns --config FILE",
    "retired list --config FILE",
    "retired list --json --config FILE",
    "selinux status --config FILE",
    "selinux status --json --config FILE",
    "apply --dry-run --config FILE",
    "rollback --dry-run --config FILE",
    "bench HERE --writes 100",
];

/// Half an output looks like a whole one, so it is an error. A reader that has enough is none.
#[test]
fn an_output_that_is_lost_is_an_error() {
    let dir = Dir::new("full");
    let config = dir.config(
        &GOOD
            .replace(
                "[target.chap]\nusername = \"initiator1\"\npassword = \"hunter2hunter2\"",
                "multipath = true",
            )
            .replace("lun = 1", "lun = 1\nwwid = \"naa.6001405123456789abcdef0123456789\""),
    );
    let mut seen = 0;
    for line in PRINTING {
        let ended = |to: Stdio| {
            let typed = line.replace("FILE", &config).replace("HERE", dir.0.to_str().unwrap());
            let mut command = Command::new(tested_program());
            command.args(typed.split(' ').map(|word| word.replace('\u{a0}', " "))).stdout(to);
            let output = command.stdin(Stdio::null()).output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (usual, err) = ended(Stdio::piped());
        // 4 is an answer too: something is not healthy, and a disk may be too slow at one time and not at another.
        let answered = |code| matches!(code, Some(0 | 4));
        if !answered(usual) {
            assert!(seen >= 27, "{line}: {err}");
            eprintln!("{line}: not run: {err}");
            continue;
        }
        seen += 1;
        let (code, err) = ended(fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into());
        assert_eq!(code, Some(1), "{line}: {err}");
        assert!(err.contains("error [internal]: printing") && err.contains("No space left"), "{line}: {err}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, err) = ended(writer.into());
        assert!(answered(code), "{line}: {code:?}: {err}");
        // A terminal that was closed. `master` is its other end.
        let nix::pty::OpenptyResult { master, slave } = nix::pty::openpty(None, None).unwrap();
        drop(master);
        let (code, err) = ended(slave.into());
        let asks_for_a_file = line.starts_with("render") && code == Some(2);
        assert!(answered(code) || asks_for_a_file, "{line}: {code:?}: {err}");
        assert!(!err.contains("error [internal]: printing"), "{line}: {err}");
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

/// Half a unit on a full disk is of no use, so nothing is left of it.
#[test]
fn a_full_disk_keeps_no_half_file() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("a full disk: not run: needs root");
        return;
    }
    let dir = Dir::new("full-disk");
    let config = dir.config(GOOD);
    let script = "mount -t tmpfs -o size=12k none \"$1\" && cd \"$1\" && \"$2\" render units --into \"$1\" --config <(echo \"$3\"); \
                  echo \"ended with $?\"; ls -A \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", script, "bash"]).arg(&dir.0).arg(tested_program());
    let output = command.arg(fs::read_to_string(config).unwrap()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("ended with 1\n") && err.contains("No space left on device"), "{out}{err}");
    assert!(!out.contains(".new"), "{out}");
}

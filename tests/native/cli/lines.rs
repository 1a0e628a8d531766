//! What a person types, and what the program answers: a table. Each line runs the real program in a directory of its own.

use crate::{Dir, GOOD, tested_program};
use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

/// A line that is typed.
struct Line {
    /// What is typed after the program's name.
    typed: &'static str,
    /// What the config has in another way than [`GOOD`]: a text, and what stands there instead.
    config: &'static [(&'static str, &'static str)],
    code: i32,
    /// What the output has: standard output and standard error after each other.
    said: &'static [&'static str],
}

const fn line(typed: &'static str, code: i32, said: &'static [&'static str]) -> Line {
    Line { typed, config: &[], code, said }
}

const fn check(
    config: &'static [(&'static str, &'static str)],
    code: i32,
    said: &'static [&'static str],
) -> Line {
    Line { typed: "config check", config, code, said }
}

const WITH_WWID: &str = "lun = 1\nwwid = \"naa.6001405123456789abcdef0123456789\"";

const LINES: &[Line] = &[
    // Help and version.
    line(
        "help",
        0,
        &[
            "Usage: etcd-lun [OPTIONS] <COMMAND>",
            "  -h, --help ",
            "  -V, --version ",
            "Exit codes:\n  0 ",
            "ETCD_LUN_LOG",
        ],
    ),
    line("-h", 0, &["Usage: etcd-lun [OPTIONS] <COMMAND>"]),
    line("help plan", 0, &["Usage: etcd-lun plan [OPTIONS]", "--json"]),
    line("help render", 0, &["Usage: etcd-lun render [OPTIONS] <COMMAND>", "  butane "]),
    line("help render units", 0, &["Usage: etcd-lun render units", "--into <DIR>"]),
    line("version", 0, &["etcd-lun 0."]),
    line("-V", 0, &["etcd-lun 0."]),
    line("plan --version", 0, &["etcd-lun 0."]),
    line("render units -V", 0, &["etcd-lun 0."]),
    // What is typed wrongly.
    line("config chek", 2, &["'check'"]),
    line("plan --jsn", 2, &["'--jsn'", "'--json'"]),
    line("plan extra", 2, &["'extra'", "etcd-lun plan"]),
    line(
        "render",
        2,
        &["Usage: etcd-lun render [OPTIONS] <COMMAND>", "  units ", "  machineconfig ", "  target "],
    ),
    line("retired", 2, &["  list ", "  delete "]),
    line("selinux", 2, &["  install ", "  remove "]),
    line("health --list --json", 0, &["\"version\": 1", "\"checks\": [", "\"limit\": "]),
    line("render units --into missing", 2, &["--into: there is no directory ", "make it with `mkdir -p /"]),
    line("bench . --against .", 2, &["is the directory that is measured already: name another one"]),
    // A config to begin with.
    line("config example", 0, &["[target]", "[[node]]", "keep_retired = \"7d\""]),
    line(
        "config check --config -",
        0,
        &["read            standard input", "somebody", "iqn.1994-05.com.redhat:master0"],
    ),
    // A machine that is no node.
    check(
        &[],
        0,
        &["read            /", "no node of this config; secrets were not read", "NODE ", "somebody", "any"],
    ),
    check(
        &[("lun = 1", "lun = 1\nwwid = \"naa.6001405123456789abcdef0123456789\"")],
        0,
        &["naa.6001405123456789abcdef0123456789"],
    ),
    // Multipath: the drop-in for multipathd needs each node's WWID.
    check(
        &[("[target.chap]", "multipath = true\n[target.chap]")],
        2,
        &[
            "`node.wwid` in ",
            "config.toml, line 11: there is none for somebody, expected",
            "the WWID of the node's LUN, because of `target.multipath = true`",
        ],
    ),
    check(
        &[
            ("[target.chap]", "multipath = true\n[target.chap]"),
            ("lun = 1", "lun = 1\nwwid = \"t10.ATA disk 1\""),
        ],
        2,
        &["t10.ATA disk 1 for somebody", "expected the WWID of the node's LUN"],
    ),
    check(
        &[("[target.chap]", "multipath = true\n[target.chap]"), ("lun = 1", WITH_WWID)],
        0,
        &["naa.6001405123456789abcdef0123456789", "`target.multipath`: there is one path"],
    ),
    Line {
        typed: "config check --node somebody --config config.toml",
        config: &[
            ("3260\"]", "3260\", \"192.168.11.5\"]\nmultipath = true\nnoop_timeout = \"3s\""),
            ("lun = 1", WITH_WWID),
        ],
        code: 0,
        said: &[
            "target.replacement_timeout = 1h\n",
            "pings           every 1s, answered within 3s\n",
            "target.multipath = true\n",
        ],
    },
    Line {
        typed: "config check --node somebody --config config.toml",
        config: &[("3260\"]", "3260\", \"192.168.11.5\"]")],
        code: 0,
        said: &["every 5s, answered within 10s; with multipathd every 1s, answered within 2s"],
    },
    Line {
        typed: "render multipath --config config.toml",
        config: &[("[target.chap]", "multipath = true\n[target.chap]"), ("lun = 1", WITH_WWID)],
        code: 0,
        said: &["\t\twwid \"36001405123456789abcdef0123456789\"\n\t\tno_path_retry 720\n"],
    },
    // What is legal and probably a mistake.
    check(
        &[("[etcd]", "[lun]\nmount_options = [\"noatme\"]\n[etcd]")],
        0,
        &[
            "warning: `lun.mount_options`: `noatme` is an option of neither mount(8) nor xfs(5)",
            "did you mean `noatime`?",
        ],
    ),
    // Secrets.
    check(
        &[("password = \"hunter2hunter2\"", "credential = \"../chap\"")],
        2,
        &["line 7", "the value is not shown", "the name of a credential in quotes: no path"],
    ),
    check(
        &[("hunter2hunter2", "hunter2")],
        0,
        &[
            "warning: `target.chap`: a secret is shorter than 12 characters, and RFC 7143 requires 96 random bits",
        ],
    ),
    check(
        &[],
        0,
        &["warning: `target.chap`: ", "config.toml holds a secret and has mode 0644", "run `chmod 0600 "],
    ),
    check(
        &[("password = \"hunter2hunter2\"", "password_file = \"DIR/open.secret\"")],
        0,
        &["warning: `target.chap`: ", "open.secret has mode 0644, so others can read it: run `chmod 0600 "],
    ),
];

#[test]
fn every_line_is_answered_as_it_should_be() {
    let dir = Dir::new("lines");
    let config = dir.0.join("config.toml");
    let secret = dir.0.join("open.secret");
    fs::write(&secret, "hunter2hunter2\n").unwrap();
    let readable = |path| fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    readable(&secret);
    for Line { typed, config: changes, code, said } in LINES {
        let mut text = GOOD.replace("HOST", "somebody");
        for (from, to) in *changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, &to.replace("DIR", dir.0.to_str().unwrap()));
        }
        fs::write(&config, &text).unwrap();
        readable(&config);
        let mut command = Command::new(tested_program());
        command.args(typed.split_whitespace());
        if *typed == "config check" || typed.starts_with("render units --into") {
            command.args(["--config", "config.toml"]);
        }
        command.current_dir(&dir.0).env_remove("ETCD_LUN_LOG");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A program that doesn't read may have ended already.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        let output = child.wait_with_output().unwrap();
        let all =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{typed} {changes:?}: {all}");
        for part in *said {
            assert!(all.contains(part), "{typed} {changes:?} lacks {part:?}: {all}");
        }
        assert!(!all.contains("hunter2"), "{typed} {changes:?}: {all}");
    }
}

/// With the config in its place, `config check` also says which files of config.d it did not read.
#[test]
fn files_that_are_not_read_are_listed() {
    let dir = Dir::new("fragments");
    let etc = dir.0.join("etc/etcd-lun");
    fs::create_dir_all(etc.join("config.d")).unwrap();
    fs::write(etc.join("config.toml"), GOOD.replace("HOST", "somebody")).unwrap();
    fs::write(etc.join("config.d/10-more.toml"), "[lun]\nmin_size = \"9GiB\"\n").unwrap();
    for name in ["30.conf", ".hidden.toml", "40.TOML"] {
        fs::write(etc.join("config.d").join(name), "").unwrap();
    }
    // A mount namespace in which /etc/etcd-lun is this directory. Needs root.
    if !nix::unistd::geteuid().is_root() {
        eprintln!("config.d: not run: needs root");
        return;
    }
    let script = "mount -t tmpfs none /etc && mkdir /etc/etcd-lun && mount --bind \"$1\" /etc/etcd-lun && \
                  echo 0123456789abcdef0123456789abcdef >/etc/machine-id && exec \"$2\" config check";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&etc)
        .arg(tested_program())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for part in [
        "read            /etc/etcd-lun/config.toml\n                /etc/etcd-lun/config.d/10-more.toml\n",
        "/etc/etcd-lun/config.d/30.conf: its name does not end in .toml\n",
        "/etc/etcd-lun/config.d/40.TOML: its name must end in .toml, in lower case\n",
        "/etc/etcd-lun/config.d/.hidden.toml: it is hidden: its name begins with a dot\n",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

/// The example is a config that passes its own check, without a warning.
#[test]
fn the_example_passes_the_check() {
    let dir = Dir::new("example");
    let (_, example, _) = crate::run(&["config", "example"]);
    let path = dir.0.join("example.toml");
    fs::write(&path, example).unwrap();
    let (code, out, err) = crate::run(&["config", "check", "--config", path.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("master-")).count(), 3, "{out}");
}

#[test]
fn a_wrong_level_of_the_log_is_an_error() {
    let run = |level: &str| {
        let mut command = Command::new(tested_program());
        let output = command.args(["health", "--list"]).env("ETCD_LUN_LOG", level).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for level in ["debug", "WARN", "off"] {
        assert_eq!(run(level), (Some(0), String::new()), "{level}");
    }
    let (code, said) = run("verbose");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.starts_with("error [usage]: ETCD_LUN_LOG: `verbose` is not a level: set it to error, warn"),
        "{said}"
    );
}

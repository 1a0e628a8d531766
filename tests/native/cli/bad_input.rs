//! What a new user types and writes wrongly, and that the cure in the message helps: a table of mistakes.

use crate::{Dir, GOOD, tested_program};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

type Changes = &'static [(&'static str, &'static str)];

/// Mistakes in a config: what is changed in [`GOOD`], what the message has, and what is changed then, after which the config is
/// right.
const CONFIGS: &[(Changes, &[&str], Changes)] = &[
    // Entries.
    (
        &[("[[node]]\nhostname", "[[node]]\n# hostname")],
        &["line 10: an entry with neither hostname nor machine_id"],
        &[("# hostname", "hostname")],
    ),
    (
        &[(
            "lun = 1\n",
            "lun = 1\n[[node]]\nhostname = \"SOMEBODY\"\ninitiator = \"iqn.1994-05.com.redhat:b\"\nlun = 2\n",
        )],
        &["line 14: two entries for SOMEBODY, expected one for each node"],
        &[("SOMEBODY", "other")],
    ),
    (&[("[[node]]", "[node]")], &["line 10"], &[("[node]", "[[node]]")]),
    // Tables and keys.
    (&[("lun = 1", "LUN = 1")], &["line 13, column 1", "`lun`", "13 | LUN\n   | ^\n"], &[("LUN", "lun")]),
    (
        &[("runtime = \"systemd\"", "")],
        &["error [config-key-missing]: `etcd.runtime` is missing from ", "below [etcd]"],
        &[("[etcd]\n", "[etcd]\nruntime = \"static-pod\"\n")],
    ),
    (
        &[("[etcd]\nruntime = \"systemd\"", ""), ("\n[target]\n", "etcd = \"systemd\"\n[target]\n")],
        &["line 1", "expected a table: write its name in brackets"],
        &[("etcd = \"systemd\"\n", ""), ("[[node]]", "[etcd]\nruntime = \"systemd\"\n[[node]]")],
    ),
    (
        &[("[etcd]", "[device]\npath = \"/dev/disk/by-id/virtio-a\"\n[etcd]")],
        &["both [target] and [device], expected one of the two"],
        &[("[device]\npath = \"/dev/disk/by-id/virtio-a\"\n", "")],
    ),
    // Values.
    (&[("lun = 1", "lun = \"1\"")], &["line 13, column 7", "such as 1, without quotes"], &[("\"1\"", "1")]),
    (
        &[("[etcd]", "[lun]\nmin_size = \"8Gi\"\n[etcd]")],
        &["line 9", "`8Gi` is not a size", "did you mean `8GiB`?"],
        &[("8Gi", "8GiB")],
    ),
    (
        &[("[etcd]", "[lun]\nmin_size = \"1MiB\"\n[etcd]")],
        &["`lun.min_size` in ", "line 9: 1MiB, expected at least 300MiB"],
        &[("1MiB", "300MiB")],
    ),
    (
        &[("[etcd]", "[boot]\nattach_timeout = \"1h30m\"\n[etcd]")],
        &["did you mean `90min`?"],
        &[("1h30m", "90min")],
    ),
    (
        &[("[etcd]", "[boot]\nattach_timeout = \"0s\"\n[etcd]")],
        &["`boot.attach_timeout` in ", "line 9: 0s, expected a time, such as \"5min\""],
        &[("0s", "5min")],
    ),
    (
        &[("[etcd]", "[boot]\nattach_timeout = \"999999999999h\"\n[etcd]")],
        &["`999999999999h` is not a duration of ten years at most"],
        &[("999999999999h", "1h")],
    ),
    (
        &[("192.168.10.5:3260", "0.0.0.0")],
        &["`0.0.0.0` is not a portal of a target", "write the one that the nodes reach"],
        &[("0.0.0.0", "192.168.10.5")],
    ),
    (
        &[("192.168.10.5:3260", "192.168.10.5, 192.168.11.5")],
        &["is not one portal: write each in quotes of its own"],
        &[("10.5, 192", "10.5\", \"192")],
    ),
    (
        &[("\"192.168.10.5:3260\"", "\"192.168.10.5:3260\", \"192.168.10.5\"")],
        &["`target.portals` in ", "listed twice"],
        &[(", \"192.168.10.5\"", "")],
    ),
    (&[("redhat:master0", "redhat:Master0")], &["write it in lower case"], &[("Master0", "master0")]),
    (
        &[("\"iqn.1994-05", "\"InitiatorName=iqn.1994-05")],
        &["did you mean `iqn.1994-05.com.redhat:master0`?"],
        &[("InitiatorName=", "")],
    ),
    (
        &[("iqn.1994-05.com.redhat:master0", "iqn.2024-02.com.example:etcd")],
        &["`node.initiator` in ", "iqn.2024-02.com.example:etcd is the target's name"],
        &[("initiator = \"iqn.2024-02.com.example:etcd\"", "initiator = \"iqn.1994-05.com.redhat:m\"")],
    ),
    (
        &[("lun = 1", "wwid = \"A9C5B8F3D2E14A0B00011010\"")],
        &["line 13", "is not a WWID: did you mean \"naa.624a9370a9c5b8f3d2e14a0b00011010\"?"],
        &[("A9C5B8F3D2E14A0B00011010", "naa.624a9370a9c5b8f3d2e14a0b00011010")],
    ),
    (&[("\"systemd\"", "\"\\u001b[31msystemd\"")], &["`\\u{1b}[31msystemd`"], &[("\\u001b[31m", "")]),
    (
        &[("runtime =", "data_dir = \"etcd\"\nruntime =")],
        &["`etcd` is not an absolute path", "such as \"/var/lib/etcd\""],
        &[("\"etcd\"", "\"/var/lib/etcd\"")],
    ),
    (
        &[("runtime =", "data_dir = \"/var/lib/etcd/member\"\nruntime =")],
        &["/var/lib/etcd/member, expected the directory above it, which etcd has as --data-dir"],
        &[("/member", "")],
    ),
    (
        &[("runtime =", "data_dir = \"/dev/shm/etcd\"\nruntime =")],
        &["/dev/shm/etcd, expected a directory on a disk, such as \"/var/lib/etcd\""],
        &[("/dev/shm/etcd", "/var/lib/etcd")],
    ),
    // Credentials.
    (&[("initiator1", "")], &["`target.chap`: the CHAP user name is empty"], &[("\"\"", "\"x\"")]),
    (
        &[("[etcd]", "username_in = \"t\"\npassword_in = \"hunter2hunter2\"\n[etcd]")],
        &["the CHAP secret of the target equals the initiator's: set another one, here and at the target"],
        &[("password_in = \"hunter2hunter2\"", "password_in = \"hunter3hunter3\"")],
    ),
    (
        &[("password =", "password_file = \"/a\"\npassword =")],
        &["`target.chap` in ", "line 5: no secret, or more than one"],
        &[("password_file = \"/a\"\n", "")],
    ),
    (
        &[("\"hunter2hunter2\"", "1234567890123")],
        &["line 7, column 12", "the value is not shown because it may be a secret"],
        &[("1234567890123", "\"1234567890123\"")],
    ),
];

/// Mistakes in a line: what is typed, what the message has of ours, and what is typed then.
const LINES: &[(&str, &[&str], &str)] = &[
    ("", &["error: "], "--help"),
    ("render", &["error: a command is missing"], "render udev --config config.toml"),
    ("config check —config config.toml", &["type two hyphens, as in --config"], CHECK),
    ("check --config config.toml", &["the command is `etcd-lun config check`"], CHECK),
    ("config check config.toml", &["name the config with an option: --config config.toml"], CHECK),
    ("retired delete abc", &["it is a number: `etcd-lun retired list` shows"], "retired delete --help"),
    ("explain no-such-name", &["`etcd-lun explain --list`"], "explain --list"),
    ("config check", &["error [no-config]: no config: write /etc/etcd-lun/config.toml"], "config example"),
    (
        "config check --config missing.toml",
        &["error [no-such-config]: there is no config /", "missing.toml: name the file that is meant"],
        CHECK,
    ),
    (
        "config check --config .",
        &["error [config-unreadable]: ", "it is a directory: name a file or a pipe"],
        CHECK,
    ),
    (
        "config check --config -",
        &["error [config-unreadable]: ", "standard input is empty: `oc debug` passes none"],
        "config example",
    ),
    (
        "config check --node somebodi --config config.toml",
        &["error [no-such-node]: --node: ", "`somebodi`", "did you mean `somebody`?"],
        "config check --node somebody --config config.toml",
    ),
    (
        "render pinnedimageset --image quay.io/x/etcd-lun:latest",
        &["has no digest", "`skopeo inspect --format '{{.Digest}}' docker://quay.io/x/etcd-lun:latest`"],
        "render pinnedimageset --image quay.io/x/etcd-lun@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ),
    (
        "render multipath --config config.toml",
        &["the config asks for no multipath: set `target.multipath = true`"],
        "render udev --config config.toml",
    ),
];

/// What a secret's file has, and what the message has.
const SECRETS: &[(&[u8], &str)] = &[
    (
        b"",
        "error [secret-unusable]: `target.chap`: the CHAP secret is empty: set the one that the target knows",
    ),
    (&[b'x'; 300], "the CHAP secret is longer than 255 bytes: set a shorter one, here and at the target"),
    (b"hunter2\nhunter2", "holds a control character or a line break: write it on one line"),
    (b"\xef\xbb\xbfhunter2hunter2", "begins with a byte order mark"),
    (b"\xff\xfeh\0u\0", "it is UTF-16: save it as UTF-8"),
    (b"hunter2\xe4hunter2", "it is not UTF-8: save it as UTF-8"),
    (b"hunter2hunter2 \n", "begins or ends with white space: leave that out"),
];

const CHECK: &str = "config check --config config.toml";

fn changed(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from:?} is not in {text}");
        text.replace(from, to)
    })
}

/// Runs the program in this directory. The exit code, and standard output and standard error after each other.
fn answer(dir: &Path, typed: &str) -> (i32, String) {
    let mut command = Command::new(tested_program());
    command.args(typed.split_whitespace()).current_dir(dir).stdin(Stdio::null());
    let output = command.env_remove("ETCD_LUN_LOG").output().unwrap();
    let all = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(all).unwrap())
}

fn is_refused(dir: &Path, typed: &str, parts: &[&str]) {
    let (code, all) = answer(dir, typed);
    assert_eq!(code, 2, "{typed}: {all}");
    for part in parts {
        assert!(all.contains(part), "{typed} lacks {part:?}: {all}");
    }
    assert!(!all.contains("hunter2"), "{typed}: {all}");
    assert!(!all.contains('\u{1b}'), "{typed}: {all}");
}

fn helps(dir: &Path, typed: &str) {
    let (code, all) = answer(dir, typed);
    assert_eq!(code, 0, "{typed}: {all}");
}

#[test]
fn a_mistake_is_named_and_its_cure_helps() {
    let dir = Dir::new("bad-input");
    let (config, good) = (dir.0.join("config.toml"), GOOD.replace("HOST", "somebody"));
    for (mistake, said, cure) in CONFIGS {
        let wrong = changed(&good, mistake);
        fs::write(&config, &wrong).unwrap();
        is_refused(&dir.0, CHECK, said);
        fs::write(&config, changed(&wrong, cure)).unwrap();
        helps(&dir.0, CHECK);
    }
    fs::write(&config, &good).unwrap();
    for (typed, said, then) in LINES {
        is_refused(&dir.0, typed, said);
        helps(&dir.0, then);
    }
    let with_file = good.replace("password = \"hunter2hunter2\"", "password_file = \"/etc/chap.secret\"");
    fs::write(&config, with_file).unwrap();
    let check = "config check --node somebody --secrets-from . --config config.toml";
    is_refused(&dir.0, check, &["the secret in /etc/chap.secret: /", "put it there under this name"]);
    for (bytes, said) in SECRETS {
        fs::write(dir.0.join("chap.secret"), bytes).unwrap();
        is_refused(&dir.0, check, &[said]);
    }
    fs::write(dir.0.join("chap.secret"), "hunter2hunter2\n").unwrap();
    helps(&dir.0, check);
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

//! Mistakes in a command line and in a secret.

use super::{CHECK, Config, Cure, Row};

const RIGHT: Config = Config::But(&[]);
/// The secret is in a file.
const WITH_FILE: Config =
    Config::But(&[("password = \"hunter2hunter2\"", "password_file = \"/etc/etcd-lun/chap.secret\"")]);
const CHECK_SECRET: &str = "config check --node somebody --secrets-from . --config config.toml";
const RENDER: &str = "render machineconfig --without-program --secrets-from . --config config.toml";

const fn typed(
    kind: &'static str,
    typed: &'static str,
    said: &'static [&'static str],
    then: &'static str,
) -> Row {
    Row { kind, typed, config: RIGHT, secret: None, code: 2, said, cure: Cure::Type(then) }
}

/// A file with a secret that cannot be used.
const fn secret(kind: &'static str, bytes: &'static [u8], said: &'static [&'static str]) -> Row {
    let cure = Cure::Secret(b"hunter2hunter2\n");
    Row { kind, typed: CHECK_SECRET, config: WITH_FILE, secret: Some((bytes, 0o600)), code: 2, said, cure }
}

/// A secret or a user name in the config that cannot be used.
const fn inline(
    kind: &'static str,
    changes: &'static [(&'static str, &'static str)],
    said: &'static [&'static str],
) -> Row {
    Row { kind, typed: CHECK, config: Config::But(changes), secret: None, code: 2, said, cure: Cure::Save }
}

pub const ROWS: &[Row] = &[
    typed("nothing", "", &["requires a subcommand", "try '--help'"], "--help"),
    typed(
        "render without a word",
        "render",
        &[
            "error: a command is missing after `etcd-lun render`",
            "Usage: etcd-lun render [OPTIONS] <COMMAND>",
            "  machineconfig ",
        ],
        "render udev --config config.toml",
    ),
    typed(
        "an unknown short option",
        "config check -x",
        &["unexpected argument '-x' found", "Usage: etcd-lun config check [OPTIONS]"],
        CHECK,
    ),
    typed(
        "an unknown long option",
        "config check --foo",
        &["unexpected argument '--foo' found", "Usage: etcd-lun config check [OPTIONS]"],
        CHECK,
    ),
    typed(
        "a misspelt option",
        "config check --conf config.toml",
        &["a similar argument exists: '--config'"],
        CHECK,
    ),
    typed(
        "a long dash",
        "config check —config config.toml",
        &["unexpected argument '—config'", "type two hyphens, as in --config"],
        CHECK,
    ),
    typed(
        "a misspelt verb",
        "confg check",
        &["unrecognized subcommand 'confg'", "a similar subcommand exists: 'config'"],
        CHECK,
    ),
    typed(
        "a verb without its group",
        "check --config config.toml",
        &["unrecognized subcommand 'check'", "the command is `etcd-lun config check`"],
        CHECK,
    ),
    typed(
        "a config without its option",
        "config check config.toml",
        &["name the config with an option: --config config.toml"],
        CHECK,
    ),
    typed(
        "an option of another program",
        "apply --force",
        &["unexpected argument '--force' found", "Usage: etcd-lun apply [OPTIONS]"],
        "apply --help",
    ),
    typed(
        "a word for a number",
        "retired delete abc",
        &["'abc' for '<GENERATION>': it is a number: `etcd-lun retired list` shows"],
        "retired delete --help",
    ),
    typed(
        "an option that is a value",
        "man --into out",
        &["unexpected argument '--into' found", "Usage: etcd-lun man [OPTIONS] <DIR>"],
        "man .",
    ),
    typed(
        "two configs",
        "config check --config config.toml --config config.toml",
        &["'--config <FILE>' cannot be used multiple times"],
        CHECK,
    ),
    typed(
        "a shell that cannot be completed",
        "completion tcsh",
        &["[possible values: bash, zsh, fish]"],
        "completion bash",
    ),
    typed(
        "an unknown name",
        "explain no-such-name",
        &["`no-such-name` is neither a name nor a message", "`etcd-lun explain --list`"],
        "explain --list",
    ),
    typed(
        "no config",
        "config check",
        &["error [no-config]: no config: write /etc/etcd-lun/config.toml", "`etcd-lun config example`"],
        "config example",
    ),
    typed(
        "a config that is absent",
        "config check --config missing.toml",
        &[
            "error [no-such-config]: there is no config /",
            "missing.toml: name the file that is meant, or write it with `etcd-lun config init --output /",
        ],
        CHECK,
    ),
    typed(
        "a directory as a config",
        "config check --config .",
        &["error [input-kind]: reading the config: /", "it is a directory: name a file or a pipe"],
        CHECK,
    ),
    typed(
        "a device as a config",
        "config check --config /dev/null",
        &["error [input-kind]: reading the config: /dev/null: it is a device", "name a file or a pipe"],
        CHECK,
    ),
    typed(
        "standard input without a text",
        "config check --config -",
        &["error [config-value]: `target` in the config", "`etcd-lun config example`"],
        CHECK,
    ),
    typed(
        "a config that would be lost",
        "config init --output config.toml",
        &["--output: /", "config.toml is there already, and its content would be lost: name another file"],
        "config example",
    ),
    typed(
        "a config for the verb that writes one",
        "--config config.toml config init",
        &["--config: `config init` reads no config", "--output"],
        "config example",
    ),
    typed(
        "- for a file",
        "config init --output -",
        &[
            "'-' for '--output <FILE>': this would be a file of the name -: leave the option out, or name a file",
        ],
        "config example",
    ),
    typed(
        "a directory that is absent, before the questions",
        "config init --output missing/config.toml",
        &["--output: there is no directory /", "make it with `mkdir -p /"],
        "config example",
    ),
    typed(
        "a node of another spelling",
        "config check --node somebodi --config config.toml",
        &[
            "error [no-such-node]: --node: no [[node]] entry has the host name or machine id `somebodi`",
            "did you mean `somebody`?",
        ],
        "config check --node somebody --config config.toml",
    ),
    Row {
        kind: "a node of another spelling among 200",
        typed: "config check --node master7 --config config.toml",
        config: Config::Many,
        secret: None,
        code: 2,
        said: &["did you mean `master-7.cluster-of-an-example.example.com`?", "and 192 more"],
        cure: Cure::Type("config check --node master-7 --config config.toml"),
    },
    Row {
        kind: "the pool of the workers",
        typed: "render machineconfig --role worker --without-program --secrets-from . --config config.toml",
        config: WITH_FILE,
        secret: Some((b"hunter3hunter3", 0o600)),
        code: 0,
        said: &[
            "warning: --role worker: the nodes of the pool `worker` run no etcd: leave --role out for the pool `master`",
        ],
        cure: Cure::Nothing,
    },
    typed(
        "a role with a capital",
        "render machineconfig --role Master --without-program --config config.toml",
        &["'Master' for '--role <ROLE>'", "such as \"master\": lower-case letters"],
        "render machineconfig --help",
    ),
    typed(
        "an image by its tag",
        "render pinnedimageset --image quay.io/x/etcd-lun:latest",
        &["has no digest", "`skopeo inspect --format '{{.Digest}}' docker://quay.io/x/etcd-lun:latest`"],
        "render pinnedimageset --image quay.io/x/etcd-lun@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ),
    typed(
        "no way of the program",
        "render machineconfig --config config.toml",
        &["<--image <IMAGE>|--without-program|--embed>"],
        "render machineconfig --help",
    ),
    typed(
        "no multipath in the config",
        "render multipath --config config.toml",
        &["the config asks for no multipath: set `target.multipath = true`"],
        "render udev --config config.toml",
    ),
    // Secrets.
    Row {
        kind: "a secret's file that is absent",
        typed: RENDER,
        config: WITH_FILE,
        secret: None,
        code: 2,
        said: &["the secret in /etc/etcd-lun/chap.secret: /", "No such file", "--secrets-from"],
        cure: Cure::Secret(b"hunter3hunter3"),
    },
    secret(
        "a secret's file that is empty",
        b"",
        &["error [chap-value]: `target.chap`: the CHAP secret is empty: set the one that the target knows"],
    ),
    secret(
        "a secret of 300 bytes",
        &[b'x'; 300],
        &["the CHAP secret is longer than 255 bytes: set a shorter one, here and at the target"],
    ),
    secret(
        "a secret on two lines",
        b"hunter2\nhunter2",
        &["holds a control character or a line break: write it on one line"],
    ),
    secret(
        "a secret with a byte order mark",
        b"\xef\xbb\xbfhunter2hunter2",
        &["begins with a byte order mark", "save it as UTF-8 without BOM"],
    ),
    secret("a secret in UTF-16", b"\xff\xfeh\0u\0", &["it is UTF-16: save it as UTF-8"]),
    secret("a secret in Latin-1", b"hunter2\xe4hunter2", &["it is not UTF-8: save it as UTF-8"]),
    secret(
        "a secret with a space at its end",
        b"hunter2hunter2 \n",
        &["begins or ends with white space: leave that out"],
    ),
    Row {
        kind: "a secret that others can read",
        typed: CHECK_SECRET,
        config: WITH_FILE,
        secret: Some((b"hunter2hunter2", 0o644)),
        code: 0,
        said: &["warning: ", "chap.secret has mode 0644, so others can read it: run `chmod 0600 /"],
        cure: Cure::Nothing,
    },
    Row {
        kind: "a short secret",
        typed: CHECK_SECRET,
        config: WITH_FILE,
        secret: Some((b"hunter2", 0o600)),
        code: 0,
        said: &["warning: `target.chap`: a secret is shorter than 12 characters"],
        cure: Cure::Nothing,
    },
    inline(
        "an empty user name",
        &[("initiator1", "")],
        &["`target.chap`: the CHAP user name is empty: set the one that the target knows"],
    ),
    inline(
        "an empty secret",
        &[("hunter2hunter2", "")],
        &["`target.chap`: the CHAP secret is empty: set the one"],
    ),
    inline(
        "a line break in a secret",
        &[("hunter2hunter2", "hunter2hunter2\\n")],
        &["`target.chap`: the CHAP secret holds a control character or a line break"],
    ),
    inline(
        "a byte order mark in a secret",
        &[("hunter2hunter2", "\\uFEFFhunter2hunter2")],
        &["`target.chap`: the CHAP secret begins with a byte order mark: leave that out"],
    ),
    inline(
        "one secret for both directions",
        &[("[etcd]", "username_in = \"t\"\npassword_in = \"hunter2hunter2\"\n[etcd]")],
        &[
            "`target.chap`: the CHAP secret of the target equals the initiator's: set another one, here and at the target",
        ],
    ),
    inline(
        "a secret without a user name",
        &[("username = \"initiator1\"\n", "")],
        &["`target.chap` in ", "line 5: username is missing"],
    ),
    inline(
        "two places for one secret",
        &[("password =", "password_file = \"/a\"\npassword =")],
        &["`target.chap` in ", "line 5: no secret, or more than one"],
    ),
    inline(
        "a secret as a number",
        &[("\"hunter2hunter2\"", "1234567890123")],
        &["line 7", "the value is not shown because it may be a secret; expected a text in quotes"],
    ),
    inline(
        "a secret's file without its directory",
        &[("password = \"hunter2hunter2\"", "password_file = \"chap.secret\"")],
        &["line 7", "expected the absolute path of the file that holds the secret"],
    ),
];

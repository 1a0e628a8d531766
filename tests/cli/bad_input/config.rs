//! Mistakes in the form of a config: a file that is none, and tables and keys in the wrong place.

use super::{CHECK, Config, Cure, NODE, Row};

pub(super) const fn text(
    kind: &'static str,
    config: Config,
    said: &'static [&'static str],
    cure: Cure,
) -> Row {
    Row { kind, typed: CHECK, config, secret: None, code: 2, said, cure }
}

/// A config that differs from the right one, and the texts to write then.
pub(super) const fn but(
    kind: &'static str,
    changes: &'static [(&'static str, &'static str)],
    said: &'static [&'static str],
    cure: &'static [(&'static str, &'static str)],
) -> Row {
    text(kind, Config::But(changes), said, Cure::Write(cure))
}

fn utf16(text: &str) -> Vec<u8> {
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

fn utf16_without_mark(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn latin1(text: &str) -> Vec<u8> {
    text.replace("[target]", "# für alle\n[target]").chars().map(|letter| letter as u8).collect()
}

pub const ROWS: &[Row] = &[
    text(
        "an empty file",
        Config::Text(""),
        &[
            "error [config-value]: `target` in the config: neither [target] nor [device]",
            "`etcd-lun config example`",
        ],
        Cure::Type("config example"),
    ),
    text(
        "JSON",
        Config::Text("{ \"target\": { \"iqn\": \"iqn.2024-02.com.example:etcd\" } }"),
        &[
            "error [config-syntax]: reading ",
            "config.toml, line 1",
            "the file is JSON",
            "`etcd-lun config example`",
        ],
        Cure::Type("config example"),
    ),
    text(
        "YAML",
        Config::Text("target:\n  iqn: iqn.2024-02.com.example:etcd\n"),
        &["config.toml, line 1", "found `:` after a key: write `key = value`", "`etcd-lun config example`"],
        Cure::Type("config example"),
    ),
    but(
        "a colon for an equals sign",
        &[("lun = 1", "lun: 1")],
        &["line 13", "write `key = value`"],
        &[("lun:", "lun =")],
    ),
    text(
        "UTF-16",
        Config::Encoded(utf16),
        &["line 1, column 1: the file is UTF-16: save it as UTF-8"],
        Cure::Save,
    ),
    text(
        "UTF-16 without a byte order mark",
        Config::Encoded(utf16_without_mark),
        &["line 1, column 1: the file has zero bytes, so it is UTF-16 or no text: save it as UTF-8"],
        Cure::Save,
    ),
    text(
        "Latin-1",
        Config::Encoded(latin1),
        &["line 2, column 4: the byte 0xfc is not UTF-8, but may be Latin-1: save the file as UTF-8"],
        Cure::Save,
    ),
    text(
        "a compressed file",
        Config::Bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00"),
        &["line 1, column 2: the file has zero bytes, so it is UTF-16 or no text"],
        Cure::Save,
    ),
    Row {
        kind: "a byte order mark, as of Windows' editors",
        typed: CHECK,
        config: Config::Encoded(|text| format!("\u{feff}{text}").into_bytes()),
        secret: None,
        code: 0,
        said: &["somebody"],
        cure: Cure::Nothing,
    },
    but(
        "a marker of a merge",
        &[("[etcd]", "<<<<<<< HEAD\n[etcd]")],
        &["line 8", "a key without a value: write `key = value`, and a remark after #"],
        &[("<<<<<<< HEAD\n", "")],
    ),
    // Nodes.
    but(
        "no [[node]]",
        &[(NODE, "")],
        &["`node` in the config: there is none", "`[[node]]`, and below it hostname, initiator and lun"],
        &[(
            "runtime = \"systemd\"\n",
            "runtime = \"systemd\"\n[[node]]\nhostname = \"a\"\ninitiator = \"iqn.1994-05.com.redhat:a\"\nlun = 1\n",
        )],
    ),
    but(
        "[node]",
        &[("[[node]]", "[node]")],
        &["line 10", "write [[node]], in two pairs of brackets"],
        &[("[node]", "[[node]]")],
    ),
    but(
        "node.lun in the entry",
        &[("lun = 1", "node.lun = 1")],
        &["line 13", "unknown key `node`", "below it the key without `node.`, such as `lun = 1`"],
        &[("node.lun = 1", "lun = 1")],
    ),
    but(
        "node.lun above the entry",
        &[("[target]\n", "node.lun = 1\n[target]\n"), ("lun = 1\n[target]", "lun = 1\n\n[target]")],
        &["line 12", "`node` is in the file in two forms", "the keys without `node.`, such as `lun = 1`"],
        &[("node.lun = 1\n", "")],
    ),
    but(
        "node.hostname without an entry",
        &[(NODE, ""), ("\n[target]\n", "node.hostname = \"a\"\n[target]\n")],
        &["line 1", "`node`: found a table", "write [[node]], in two pairs of brackets", "without `node.`"],
        &[
            ("node.hostname = \"a\"\n", ""),
            (
                "runtime = \"systemd\"\n",
                "runtime = \"systemd\"\n[[node]]\nhostname = \"a\"\ninitiator = \"iqn.1994-05.com.redhat:a\"\nlun = 1\n",
            ),
        ],
    ),
    but(
        "two entries of one node",
        &[(
            "lun = 1\n",
            "lun = 1\n[[node]]\nhostname = \"SOMEBODY\"\ninitiator = \"iqn.1994-05.com.redhat:b\"\nlun = 2\n",
        )],
        &["line 14: two entries for SOMEBODY, expected one for each node"],
        &[("SOMEBODY", "other")],
    ),
    but(
        "an entry without a name",
        &[("hostname = \"somebody\"\n", "")],
        &["line 10: an entry with neither hostname nor machine_id"],
        &[("[[node]]\n", "[[node]]\nhostname = \"somebody\"\n")],
    ),
    // Tables and keys.
    but(
        "a key in the wrong table",
        &[("runtime = \"systemd\"", "runtime = \"systemd\"\nmultipath = false")],
        &["line 10", "unknown key `multipath`", "`multipath` belongs below [target]"],
        &[("\nmultipath = false", ""), ("[target.chap]", "multipath = false\n[target.chap]")],
    ),
    but(
        "a key above all tables",
        &[("\n[target]\n", "runtime = \"systemd\"\n[target]\n"), ("[etcd]\nruntime = \"systemd\"", "[etcd]")],
        &["line 1", "unknown key `runtime`", "`runtime` belongs below [etcd]"],
        &[("runtime = \"systemd\"\n", ""), ("[etcd]\n", "[etcd]\nruntime = \"systemd\"\n")],
    ),
    but(
        "a secret in [target]",
        &[
            ("[target.chap]", "password = \"hunter2hunter2\"\n[target.chap]"),
            ("\"initiator1\"\npassword = \"hunter2hunter2\"", "\"initiator1\""),
        ],
        &["line 5", "`password` belongs below [target.chap]"],
        &[
            ("password = \"hunter2hunter2\"\n", ""),
            ("\"initiator1\"", "\"initiator1\"\npassword = \"hunter2hunter2\""),
        ],
    ),
    but(
        "a key of another spelling",
        &[("lun = 1", "LUN = 1")],
        &["line 13", "unknown key `LUN`", "did you mean `lun`?"],
        &[("LUN", "lun")],
    ),
    but(
        "a hyphen in a key",
        &[("runtime =", "data-dir = \"/var/lib/etcd\"\nruntime =")],
        &["did you mean `data_dir`?"],
        &[("data-dir", "data_dir")],
    ),
    but(
        "a table of another name",
        &[("[target]", "[targets]"), ("[target.chap]", "[targets.chap]")],
        &["did you mean `target`?"],
        &[("targets", "target")],
    ),
    but(
        "a key twice",
        &[("lun = 1", "lun = 1\nlun = 2")],
        &["line 14", "duplicate key `lun`: keep one of the two"],
        &[("lun = 2\n", "")],
    ),
    but(
        "a table twice",
        &[("[etcd]", "[target]\n[etcd]")],
        &["line 8", "duplicate key `target`"],
        &[("[target]\n[etcd]", "[etcd]")],
    ),
    but(
        "a required key left out",
        &[("runtime = \"systemd\"", "")],
        &["error [config-key-missing]: `etcd.runtime` is missing from ", "below [etcd]"],
        &[("[etcd]\n", "[etcd]\nruntime = \"static-pod\"\n")],
    ),
    but(
        "a text for a table",
        &[("[etcd]\nruntime = \"systemd\"", ""), ("\n[target]\n", "etcd = \"systemd\"\n[target]\n")],
        &["`etcd`: found a text, expected a table: write its name in brackets"],
        &[("etcd = \"systemd\"\n", ""), ("[[node]]", "[etcd]\nruntime = \"systemd\"\n[[node]]")],
    ),
    but(
        "both kinds of storage",
        &[("[etcd]", "[device]\npath = \"/dev/disk/by-id/virtio-a\"\n[etcd]")],
        &["both [target] and [device], expected one of the two"],
        &[("[device]\npath = \"/dev/disk/by-id/virtio-a\"\n", "")],
    ),
    but(
        "a list that does not end",
        &[("3260\"]", "3260\"")],
        &["line 5", "the list before this place does not end: write ] after its last item"],
        &[("3260\"", "3260\"]")],
    ),
    but(
        "a text that does not end",
        &[("\"systemd\"", "\"systemd")],
        &["line 9", "does not end on its line: write \" at its end"],
        &[("\"systemd", "\"systemd\"")],
    ),
];

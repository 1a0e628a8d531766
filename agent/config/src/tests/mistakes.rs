//! Mistakes in the form of the config: each error has its place, and none contains a secret. What `toml` and serde say is theirs.

use super::{ConfigError, DEVICE, GOOD, ID, Pool, load, source, utf8};

/// A text that is a whole file, the line and column of its error, and what we say of it ourselves.
const MISTAKES: &[(&str, (usize, usize), &str)] = &[
    ("[[node]]\nlun = \"1\"", (2, 7), "a whole number from 0 to 16777215, such as 1, without quotes"),
    ("[[node]]\nlun = 16777216", (2, 7), "a whole number from 0 to 16777215"),
    ("[[node]]\nlun = 999999999999999999999999999999999999999999", (2, 7), ""),
    ("[[node]]\nhostname = 7", (2, 12), "a host name of letters"),
    ("[[node]]\nhostname = 2024-02-01", (2, 12), ""),
    ("[[node]]\nhostname = \"a b\"", (2, 12), "`a b` is not a host name"),
    ("[[node]]\nmachine_id = \"7\"", (2, 14), "32 hex digits"),
    ("[[node]]\ninitiator = \"master0\"", (2, 13), "`master0` is not an iSCSI name"),
    ("lun.min_size = 8", (1, 16), "a size with a unit, such as \"8GiB\""),
    ("boot.attach_timeout = \"5 minutes\"", (1, 23), "did you mean `5min`?"),
    ("lun.label = { etcd = 1 }", (1, 13), "a filesystem label of 1 to 12 letters"),
    ("boot.gate = true", (1, 13), ""),
    ("boot.gate = \"kublet\"", (1, 13), "`kubelet`"),
    ("[target]\nportals = \"192.168.10.5\"", (2, 11), ""),
    ("[target]\nportals = [\n  \"192.168.10.5\",\n  3260,\n]", (4, 3), "a portal, such as"),
    ("target = [\"iqn.2024-02.com.example:etcd\", [\"192.168.10.5\"]]", (1, 10), "expected a table"),
    ("[[boot]]\ngate = \"etcd\"", (1, 1), "expected a table"),
    ("node = [[\"a\"]]", (1, 8), "expected a table"),
    ("[node]\nhostname = \"a\"", (1, 1), ""),
    ("device = \"/dev/disk/by-id/virtio-etcd0\"", (1, 10), "expected a table"),
    ("[device]\nPath = \"/dev/disk/by-id/virtio-etcd0\"", (2, 1), "`Path`"),
    ("# Größe\nhealth = { \"inter`val\" = 1 }", (2, 12), "`inter`val`"),
    ("[lun]\nlabel = \"a\"\nlabel = \"b\"", (3, 1), ""),
    ("[lun", (1, 5), ""),
    ("lun.label = “etcd”", (1, 13), "this letter is not ASCII"),
    ("[[node]]\nlun = １", (2, 7), "this letter is not ASCII"),
    ("[boot]\n; later\ngate = \"etcd\"", (2, 3), "a comment begins with `#`"),
    ("[target]\nportals = [\"192.168.10.5:3260,1\"]", (2, 12), "did you mean \"192.168.10.5:3260\"?"),
    ("[target]\nportals = [\"iscsi://san1.example\"]", (2, 12), "did you mean \"san1.example\"?"),
    ("[target]\nportals = [\"192.168.10.5; 192.168.11.5\"]", (2, 12), "write each in quotes of its own"),
];

#[test]
fn an_error_of_form_has_its_file_line_and_column() {
    for (text, (line, column), ours) in MISTAKES {
        let base = if text.contains("device") { DEVICE } else { GOOD };
        let error = load(&[base, text], ID, "x").unwrap_err();
        assert!(error.starts_with(&format!("reading 1.toml, line {line}, column {column}: ")), "{error}");
        assert!(error.contains(ours), "{ours}: {error}");
        let [.., shown, caret] = error.lines().collect::<Vec<_>>()[..] else { panic!("{error}") };
        let written = text.lines().nth(line - 1).unwrap();
        let (number, begin) = shown.split_once(" | ").unwrap();
        assert!(number == line.to_string() && written.starts_with(begin), "{error}");
        assert_eq!(caret, format!("{} | {:>column$}", " ".repeat(number.len()), "^"), "{error}");
        // Of several, only the first is known.
        assert_eq!(load(&[base, text, "[boot"], ID, "x").unwrap_err(), error);
    }
}

#[test]
fn a_file_that_is_not_utf8() {
    for (bytes, wanted) in
        [(&b"a = 1\n\xfc"[..], 2), (b"\xff\xfea\0", 1), (b"\0a\0=", 1), (b"\x1f\x8b\x08\0", 1)]
    {
        let error = utf8("0.toml".into(), bytes.to_vec()).unwrap_err();
        assert!(matches!(error, ConfigError::NotUtf8 { line, .. } if line == wanted), "{error:?}");
        assert!(error.to_string().ends_with("save it as UTF-8"), "{error}");
    }
    assert!(Pool::load(&[source("0.toml", &format!("\u{feff}{GOOD}"))]).is_ok());
}

#[test]
fn secrets_are_never_shown() {
    let file = "password_file = \"/etc/etcd-lun/chap.secret\"";
    let inline = GOOD.replace(file, "password = \"hunter2hunter2\"");
    let config = load(&[&inline], ID, "master-0").unwrap();
    let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
    assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
    let in_chap = [
        "password = hunter2hunter2",
        "password = \"hunter2hunter2",
        "password = \"hunter2\\hunter2\"",
        "password = [\"hunter2hunter2\"]",
        "password = [\n[\"hunter2hunter2\"]",
        "password = { hunter2hunter2 = 1 }",
        "password = 77777777777777777777777777",
        "password = 777777777777",
        "\"password\" = 777777777777",
        "password = 7777777.7777",
        "password_file = \"hunter2hunter2\"",
        "password_file = 777777777777",
        "username_in = \"x\"\npassword_in = 777777777777",
        "username_in = \"x\"\npassword_in_file = \"hunter2hunter2\"",
        "[target.discovery_chap]\nusername = \"x\"\npassword = 777777777777",
        "password = 1777-12-07",
        "password = true\npassword = \"hunter2hunter2\"",
        "password = \"hunter2hunter2\" \"hunter2hunter2\"",
        "password = \"\"\"\nhunter2hunter2",
        "password = \"\"\"\n[hunter2\nhunter2",
        "password = 'hunter2hunter2",
        "password = hunter2.hunter2",
        "password hunter2hunter2",
        "password: hunter2hunter2",
        "pasword = \"hunter2hunter2\"",
        "pasword = hunter2hunter2",
        "algs = [\"hunter2hunter2\"]",
        "credential = 777777777777",
        "credential = [\"hunter2hunter2\"]",
        "credential = \"hunter2/hunter2\"",
        "username_in = \"x\"\ncredential_in = 777777777777",
    ];
    let in_chap = in_chap.map(|wrong| GOOD.replace(file, wrong));
    let in_place_of_chap = [
        "\"hunter2hunter2\"",
        "7777777",
        "77777777777777777777",
        "7777777777777777777777777777777777777777777777",
        "7777777.5",
        "[\"initiator1\", \"hunter2hunter2\"]",
        "[[\"hunter2hunter2\"]]",
        "{ password = 7777777 }",
        "hunter2hunter2",
    ];
    let in_place_of_chap = in_place_of_chap.iter().flat_map(|wrong| {
        ["chap", "discovery_chap", "chpa"].map(|key| format!("[target]\n{key} = {wrong}\n"))
    });
    // An unquoted secret below a key of another name could be anything.
    let in_place_of_chap = in_place_of_chap.filter(|text| !text.contains("chpa = hunter2"));
    for text in in_chap.into_iter().chain(in_place_of_chap) {
        let error = load(&[&text], ID, "master-0").unwrap_err();
        assert!(error.starts_with("reading 0.toml, line "), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("7777777"), "{text}: {error}");
    }
}

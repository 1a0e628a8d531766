//! The full error messages for mistakes in the config, and that no message contains a secret.

use super::{DEVICE, GOOD, ID, load};

/// What is expected in the place of TABLE and NUMBER below.
const TABLE: &str = "a table: write its name in brackets on a line of its own, and its keys below that line";
const NUMBER: &str = "a whole number from 0 to 16777215, such as 1, without quotes";

/// A text that is a whole file, and all that the error says after the file's name.
const MISTAKES: &[(&str, &str)] = &[
    // A number.
    ("[[node]]\nlun = \"1\"", "line 2, column 7: `node.lun`: found the text \"1\", expected NUMBER"),
    ("[[node]]\nlun = 1.5", "line 2, column 7: `node.lun`: found the number `1.5`, expected NUMBER"),
    (
        "[[node]]\nlun = 16777216",
        "line 2, column 7: `node.lun`: found the number `16777216`, expected NUMBER",
    ),
    ("[[node]]\nlun = -1", "line 2, column 7: `node.lun`: found the number `-1`, expected NUMBER"),
    (
        "[[node]]\nlun = 99999999999999999999",
        "line 2, column 7: `node.lun`: found the number `99999999999999999999`, expected NUMBER",
    ),
    (
        "[[node]]\nlun = 999999999999999999999999999999999999999999",
        "line 2, column 7: `node.lun`: found a number that is far too large",
    ),
    ("[[node]]\nlun = true", "line 2, column 7: `node.lun`: found `true`, expected NUMBER"),
    // A text.
    (
        "[[node]]\nhostname = 7",
        "line 2, column 12: `node.hostname`: found the number `7`, expected a text in quotes",
    ),
    (
        "[[node]]\nhostname = [\"a\"]",
        "line 2, column 12: `node.hostname`: found a list, expected a text in quotes",
    ),
    (
        "[[node]]\nhostname = 99999999999999999999",
        "line 2, column 12: `node.hostname`: found the number `99999999999999999999`, expected a text in quotes",
    ),
    (
        "[[node]]\nhostname = 2024-02-01",
        "line 2, column 12: found a date or time, and no key of the config takes one; write a text in quotes",
    ),
    (
        "lun.min_size = 8",
        "line 1, column 16: `lun.min_size`: found the number `8`, expected a size with a unit, such as \"8GiB\" (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)",
    ),
    (
        "boot.attach_timeout = 300",
        "line 1, column 23: `boot.attach_timeout`: found the number `300`, expected a duration with a unit, such as \"5min\" (ms, s, min, h, d)",
    ),
    (
        "boot.attach_timeout = \"5 minutes\"",
        "line 1, column 23: `boot.attach_timeout`: `5 minutes` is not a duration with a unit, such as \"5min\" (ms, s, min, h, d); did you mean `5min`?",
    ),
    (
        "lun.label = { etcd = 1 }",
        "line 1, column 13: `lun.label`: found a table, expected a filesystem label of 1 to 12 letters, digits, \"-\", \"_\" or \".\", such as \"etcd-lun\"",
    ),
    // A word of a few.
    ("boot.gate = true", "line 1, column 13: `boot.gate`: found `true`, expected \"etcd\" or \"kubelet\""),
    (
        "boot.gate = \"true\"",
        "line 1, column 13: `boot.gate`: unknown value `true`, expected `etcd` or `kubelet`",
    ),
    (
        "boot.gate = { etcd = {} }",
        "line 1, column 13: `boot.gate`: found a table, expected \"etcd\" or \"kubelet\"",
    ),
    (
        "boot.gate = \"kublet\"",
        "line 1, column 13: `boot.gate`: unknown value `kublet`, expected `etcd` or `kubelet`; did you mean `kubelet`?",
    ),
    (
        "target.discovery = [\"static\"]",
        "line 1, column 20: `target.discovery`: found a list, expected \"sendtargets\" or \"static\"",
    ),
    (
        "etcd.runtime = 1",
        "line 1, column 16: `etcd.runtime`: found the number `1`, expected \"static-pod\" or \"systemd\"",
    ),
    // A list.
    (
        "[target]\nportals = \"192.168.10.5\"",
        "line 2, column 11: `target.portals`: found the text \"192.168.10.5\", expected a list, such as [\"192.168.10.5\"]",
    ),
    (
        "[target]\nportals = [\n  \"192.168.10.5\",\n  3260,\n]",
        "line 4, column 3: `target.portals`: found the number `3260`, expected a portal, such as \"192.168.10.5\", \"192.168.10.5:3260\", \"[2001:db8::5]:3260\" or \"san1.example:3260\"",
    ),
    (
        "lun.mount_options = \"prjquota\"",
        "line 1, column 21: `lun.mount_options`: found the text \"prjquota\", expected a list, such as [\"prjquota\", \"noatime\"]",
    ),
    (
        "[node]\nhostname = \"a\"",
        "line 1, column 1: `node`: found a table, expected a list of tables: write [[node]], in two pairs of brackets, above the keys of each node, and the keys without `node.`",
    ),
    ("node = [\"a\"]", "line 1, column 9: `node`: found a text, expected TABLE"),
    ("node = [[\"a\"]]", "line 1, column 9: `node`: found a list, expected TABLE"),
    // A table.
    (
        "target = [\"iqn.2024-02.com.example:etcd\", [\"192.168.10.5\"]]",
        "line 1, column 10: `target`: found a list, expected TABLE",
    ),
    ("etcd = [\"/var/lib/etcd\"]", "line 1, column 8: `etcd`: found a list, expected TABLE"),
    ("[[boot]]\ngate = \"etcd\"", "line 1, column 1: `boot`: found a list, expected TABLE"),
    ("lun = 1", "line 1, column 7: `lun`: found a number, expected TABLE"),
    (
        "device = \"/dev/disk/by-id/virtio-etcd0\"",
        "line 1, column 10: `device`: found a text, expected TABLE",
    ),
    ("health = false", "line 1, column 10: `health`: found true or false, expected TABLE"),
    // A key.
    (
        "[device]\nPath = \"/dev/disk/by-id/virtio-etcd0\"",
        "line 2, column 1: unknown key `Path`, expected `path`; did you mean `path`?",
    ),
    (
        "# Größe\nhealth = { \"inter`val\" = 1 }",
        "line 2, column 12: unknown key `inter`val`, expected `interval` or `textfile`; did you mean `interval`?",
    ),
    ("health = { every = 1 }", "line 1, column 12: unknown key `every`, expected `interval` or `textfile`"),
    ("[lun]\nlabel = \"a\"\nlabel = \"b\"", "line 3, column 1: duplicate key `label`: keep one of the two"),
    ("[lun]\n[boot]\n[lun]", "line 3, column 2: duplicate key `lun`: keep one of the two"),
    ("[lun", "line 1, column 5: unclosed table, expected `]`"),
    (
        "lun.label = “etcd”",
        "line 1, column 13: found the typographic quote “: write straight quotes, as in \"text\"",
    ),
    (
        "lun.label = \"etcd”",
        "line 1, column 19: found the typographic quote ”: write straight quotes, as in \"text\"",
    ),
    (
        "target.multipath = \"yes\"",
        "line 1, column 20: `target.multipath`: found the text \"yes\", expected true or false, without quotes",
    ),
    (
        "lun.label = etcd",
        "line 1, column 13: this value is not TOML: write a text in straight quotes, as in iqn = \"iqn.2024-02.com.example:etcd\", and a remark after #",
    ),
];

/// The message of a mistake in this file.
fn message(file: usize, said: &str) -> String {
    format!("reading {file}.toml, {}", said.replace("TABLE", TABLE).replace("NUMBER", NUMBER))
}

/// A mistake in a config that is right otherwise. Nothing follows from it that is not a mistake of its own.
#[test]
fn an_error_says_where_what_was_found_and_what_to_write() {
    for (text, said) in MISTAKES {
        let base = if text.contains("device") { DEVICE } else { GOOD };
        assert_eq!(load(&[base, text], ID, "x").unwrap_err(), message(1, said), "{text}");
    }
}

/// The table of a mistake, and its key if it has one: not the table is wrong then.
fn table_and_key<'a>(text: &'a str, said: &'a str) -> (&'a str, Option<&'a str>) {
    let line = text.lines().find(|line| !line.starts_with('#')).unwrap();
    let word = |text: &'a str| text.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| !word.is_empty());
    let table = word(line).unwrap();
    let key = said.split('`').nth(1).filter(|key| key.contains('.') || said.contains("unknown key"));
    (table, key.or(said.contains("date or time").then_some("date")))
}

#[test]
fn two_mistakes_are_two_errors_and_no_third() {
    let is_toml = |text: &str| toml::de::DeTable::parse(text).is_ok();
    let mut pairs = 0;
    for (one, said_of_one) in MISTAKES {
        for (other, said_of_other) in MISTAKES {
            let of_one = table_and_key(one, said_of_one);
            let of_other = table_and_key(other, said_of_other);
            let is_one_key = of_one.0 == of_other.0
                && (of_one.1.is_none() || of_other.1.is_none() || of_one.1 == of_other.1);
            // Each entry has its own keys, and a config has only one of [target] and [device].
            let is_entry = [one, other].iter().all(|text| !text.starts_with("[node]")) && of_one.0 == "node";
            let storages = [of_one.0, of_other.0];
            if is_one_key && !is_entry || storages.contains(&"target") && storages.contains(&"device") {
                continue;
            }
            let base = if storages.contains(&"device") { DEVICE } else { GOOD };
            let mut expected = vec![message(1, said_of_one), message(2, said_of_other)];
            if let (false, true) | (true, false) = (is_toml(one), is_toml(other)) {
                expected.remove(usize::from(!is_toml(other)) ^ 1);
            }
            let error = load(&[base, one, other], ID, "x").unwrap_err();
            assert_eq!(error.lines().collect::<Vec<_>>(), expected, "{one}\n{other}");
            pairs += 1;
        }
    }
    assert!(pairs > 1500, "{pairs}");
}

/// Mistakes beside a secret, so that the checks go on after the secret's own.
const BESIDE: &str = "[lun]\nlabel = 1\n[health]\ninterval = \"1s\"\n[[node]]\nlun = 1\n";

#[test]
fn secrets_are_never_shown() {
    let inline =
        GOOD.replace("password_file = \"/etc/etcd-lun/chap.secret\"", "password = \"hunter2hunter2\"");
    let config = load(&[&inline], ID, "master-0").unwrap();
    let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
    assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
    for wrong in [
        "password = hunter2hunter2",
        "password = \"hunter2hunter2",
        "password = \"hunter2\\hunter2\"",
        "password = [\"hunter2hunter2\"]",
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
        "[target.discovery_chap]\nusername = \"x\"\npassword = 77777777777777777777777777777777777777777777",
        "password = 1777-12-07",
        "password = true\npassword = \"hunter2hunter2\"",
        "password = \"hunter2hunter2\" \"hunter2hunter2\"",
        "password = \"\"\"\nhunter2hunter2",
        "password = 'hunter2hunter2",
        "password = hunter2.hunter2",
        "password hunter2hunter2",
        "password: hunter2hunter2",
        "credential = 777777777777",
        "credential = [\"hunter2hunter2\"]",
        "credential = \"hunter2/hunter2\"",
        "username_in = \"x\"\ncredential_in = 777777777777",
    ] {
        let text = GOOD.replace("password_file = \"/etc/etcd-lun/chap.secret\"", wrong);
        for texts in [vec![text.as_str()], vec![&text, BESIDE]] {
            let error = load(&texts, ID, "master-0").unwrap_err();
            assert!(!error.contains("hunter2") && !error.contains("7777777"), "{error}");
        }
    }
    for wrong in [
        "\"hunter2hunter2\"",
        "7777777",
        "-7777777",
        "77777777777777777777",
        "7777777777777777777777777777",
        "7777777777777777777777777777777777777777777777",
        "7777777.5",
        "[\"hunter2hunter2\"]",
        "[\"initiator1\", \"hunter2hunter2\"]",
        "[[\"hunter2hunter2\"]]",
        "{ password = 7777777 }",
    ] {
        for key in ["chap", "discovery_chap"] {
            let error = load(&[&format!("[target]\n{key} = {wrong}\n"), BESIDE], ID, "master-0").unwrap_err();
            assert!(error.lines().count() >= 4, "{error}");
            assert!(
                error.contains(&format!("line 2, column {}", key.len() + 4)) || wrong.starts_with('{'),
                "{error}"
            );
            assert!(error.contains(&format!("`target.{key}")), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("7777777"), "{error}");
        }
    }
}

//! Configs with several mistakes: all are said in one run, and nothing that only follows from one of them.

use super::*;

/// Returns the text of all errors.
fn all(texts: &[&str]) -> Vec<String> {
    let sources: Vec<_> =
        texts.iter().enumerate().map(|(at, text)| source(&format!("{at}.toml"), text)).collect();
    let error = Pool::load(&sources).and_then(|pool| pool.rows()).unwrap_err();
    let all = error.each();
    assert!(all.iter().all(|one| !matches!(one, ConfigError::Several(_))), "{all:?}");
    assert_eq!(matches!(error, ConfigError::Several(_)), all.len() > 1, "{all:?}");
    let said: Vec<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!(error.to_string(), said.join("\n"));
    said
}

/// Each error must be this one, or this one and more if it ends in `…`.
fn expect(texts: &[&str], expected: &[&str]) {
    let said = all(texts);
    let fits = |(said, wanted): (&String, &&str)| match wanted.strip_suffix('…') {
        Some(begin) => said.starts_with(begin),
        None => said == wanted,
    };
    let is_all = said.len() == expected.len() && said.iter().zip(expected).all(fits);
    assert!(is_all, "{texts:#?}\n{said:#?}\nand not\n{expected:#?}");
}

fn with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(GOOD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

#[test]
fn mistakes_of_value_in_tables_and_entries() {
    let text = with(&[
        ("iqn = \"iqn.2024-02.com.example:etcd\"", "replacement_timeout = \"0s\"\nnoop_timeout = \"25s\""),
        ("[\"192.168.10.5:3260\", \"[2001:db8::5]\", \"san1.example\"]", "[]"),
        ("username = \"initiator1\"", "algs = []"),
        ("runtime = \"systemd\"", "data_dir = \"/etcd\"\nunit = \"etcd\""),
        ("lun = 1", "lun = 300"),
        ("lun = 2", "path = \"/dev/disk/by-id/virtio-etcd0\""),
    ]);
    expect(
        &[&text],
        &[
            "`target.iqn` is missing from 0.toml, line 2: write for example…",
            "`target.replacement_timeout` in 0.toml, line 3: 0ms, expected whole seconds, from 1s to a day\n\
             3 | replacement_timeout = \"0s\"\n  |                       ^",
            "`target.noop_timeout` in 0.toml, line 4: 25s, with a noop_interval of 5s, expected less than 30s…",
            "`target.portals` in 0.toml, line 5: the list is empty, expected at least one portal\n5 | portals = []\n  |           ^",
            "`target.chap` in 0.toml, line 6: username is missing, expected…",
            "`target.chap` in 0.toml, line 6: algs is empty, expected…",
            "`etcd.runtime` is missing from 0.toml, line 9: write for example…",
            "`etcd.data_dir` in 0.toml, line 10: /etcd, expected a directory below a directory…",
            "`etcd.unit` in 0.toml, line 11: etcd, expected the name of a service unit…",
            "`node.lun` in 0.toml, line 12: 300 for master-0, which has no `wwid`, expected…",
            "`node.path` in 0.toml, line 16: it is set in the entry machine_id = …",
        ],
    );
}

#[test]
fn mistakes_in_two_files() {
    let first = with(&[("username = \"initiator1\"\n", ""), ("lun = 1", "")]);
    let second = "# another\n\n[boot]\nattach_timeout = \"0s\"\n[cluster]\ncert = \"/a/crt\"\n\
                  [[node]]\nhostname = \"MASTER-0\"\ninitiator = \"iqn.1994-05.com.redhat:master1\"\nlun = 3\n";
    expect(
        &[&first, second],
        &[
            "`target.chap` in 0.toml, line 5: username is missing, expected…",
            "`node.lun` is missing from the entry hostname = \"master-0\" in 0.toml, line 9: write…",
            "`boot.attach_timeout` in 1.toml, line 4: 0s, expected…",
            "`cluster.key` in 1.toml, line 5: `cluster.cert` is set alone, expected both or neither\n5 | [cluster]\n  | ^",
            "`node` in 1.toml, line 7: two entries for MASTER-0, expected one for each node",
            "`node.initiator` in 1.toml, line 7: iqn.1994-05.com.redhat:master1 in two entries, expected…",
        ],
    );
}

#[test]
fn all_entries_in_a_config_that_is_right_otherwise() {
    let text = with(&[("lun = 1", ""), ("master1", "{hostname}"), ("machine_id = \"0123", "# \"0123")]);
    expect(
        &[&text],
        &[
            "`node.lun` is missing from the entry hostname = \"master-0\" in 0.toml, line 10: write…",
            "`node` in 0.toml, line 14: an entry with neither hostname nor machine_id, expected exactly one of the two",
        ],
    );
    // The node has what it needs. It reports what it lacks together with the rest.
    let wrong = "[[node]]\nhostname = \"b\"\ninitiator = \"iqn.2024-02.a.b:c\"\n\
                 [[node]]\nhostname = \"c\"\npath = \"/dev/disk/by-id/virtio-etcd0\"\nlun = 1\n";
    assert!(load(&[GOOD, wrong], ID, "master-0").is_ok());
    let error = load(&[GOOD, wrong], ID, "b").unwrap_err();
    for part in ["`node.lun` is missing", "`node.path` in 1.toml", "`node.initiator` is missing"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(error.lines().count(), 3, "{error}");
    assert!(load(&[GOOD, wrong], ID, "worker").unwrap_err().starts_with("no [[node]] entry"));
    // With a pattern.
    let head = "[target]\niqn = \"iqn.2024-02.a.b:c\"\nportals = [\"10.0.0.1\"]\nmultipath = true\nlun_masking = true\n\
                [etcd]\nruntime = \"systemd\"\n";
    let pattern = "[[node]]\nhostname = \"m-*\"\ninitiator = \"iqn.2024-02.a.b:m\"\nwwid = \"t10.IET 00010001\"\n\
                   [[node]]\nhostname = \"n-0\"\ninitiator = \"iqn.2024-02.a.b:c\"\nwwid = \"t10.IET 00010002\"\n";
    expect(
        &[head, pattern],
        &[
            "`node.initiator` in 1.toml, line 1: iqn.2024-02.a.b:m for all nodes that m-* matches, expected…",
            "`node.wwid` in 1.toml, line 1: t10.IET 00010001 for all nodes that m-* matches, expected…",
            "`node.wwid` in 1.toml, line 5: t10.IET 00010002 for n-0, expected…",
            "`node.initiator` in 1.toml, line 5: iqn.2024-02.a.b:c is the target's name, expected…",
        ],
    );
    // With a device.
    let device = "[device]\n[etcd]\nruntime = \"systemd\"\n[[node]]\nhostname = \"a\"\nlun = 1\n\
                  initiator = \"iqn.2024-02.a.b:c\"\n[[node]]\nhostname = \"b\"\n";
    expect(
        &[device],
        &[
            "`node.initiator` in 0.toml, line 4: it is set in the entry hostname = \"a\"…",
            "`node.lun` in 0.toml, line 4: it is set in the entry hostname = \"a\"…",
            "`device.path` is missing from the config: write…",
        ],
    );
}

/// An entry that is there twice is one mistake.
#[test]
fn a_repeated_entry_repeats_all_that_it_has() {
    let wwid = "wwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c5\"";
    let text = with(&[("lun = 1", wwid)]);
    let (_, entry) = text.split_once("[[node]]").unwrap();
    let (entry, _) = entry.split_once("[[node]]").unwrap();
    let repeated = format!("[[node]]{entry}");
    expect(
        &[&text, &repeated],
        &["`node` in 1.toml, line 1: two entries for master-0, expected one for each node"],
    );
    // With a name of its own it shares the rest.
    expect(
        &[&text, &repeated.replace("master-0", "master-9")],
        &[
            "`node.wwid` in 1.toml, line 1: naa.60014051d8e4a3bd5a94f3f9a1a2b3c5 in two entries…",
            "`node.initiator` in 1.toml, line 1: iqn.1994-05.com.redhat:master0 in two entries…",
        ],
    );
}

#[test]
fn no_error_follows_from_another() {
    for (from, to, said) in [
        ("[etcd]\nruntime = \"systemd\"\n", "", "`etcd.runtime` is missing"),
        ("[etcd]", "[etcd]\nunit = \"etcd\"", "`etcd.unit`"),
    ] {
        let found = all(&[&with(&[(from, to)])]);
        assert!(found.len() == 1 && found[0].contains(said), "{to}: {found:#?}");
    }
    // Nobody knows what the entries are for.
    assert_eq!(all(&[GOOD, DEVICE]).len(), 1);
}

#[test]
fn an_empty_config_lacks_two_things() {
    expect(
        &[""],
        &[
            "`target` in the config: neither [target] nor [device]…",
            "`etcd.runtime` is missing from the config…",
        ],
    );
}

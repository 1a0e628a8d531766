//! Several files as one config.

use super::{DEVICE, GOOD, ID, SecretSource, iscsi, load};

#[test]
fn an_error_names_its_own_file_and_line() {
    let wrong = "# a comment\n[lun]\nlabel = \"a b\"\n";
    let right = "[lun]\nmin_size = \"9GiB\"\n";
    for (texts, place) in [
        (vec![wrong, GOOD], "0.toml, line 3, column 9"),
        (vec![GOOD, wrong], "1.toml, line 3, column 9"),
        (vec![GOOD, "", wrong], "2.toml, line 3, column 9"),
        (vec![GOOD, right, wrong, ""], "2.toml, line 3, column 9"),
        (vec![GOOD, "\n[boot]\nlate = 1"], "1.toml, line 3, column 1: "),
        (vec![GOOD, right, "[lun"], "2.toml, line 1, column 5"),
        (vec![GOOD, "[[node]]\nhostname = 1"], "1.toml, line 2, column 12: "),
    ] {
        let error = load(&texts, ID, "master-0").unwrap_err();
        assert!(error.starts_with(&format!("reading {place}")), "{place}: {error}");
    }
    let config =
        load(&[GOOD, "\n[[node]]\nhostname = \"b\"\ninitiator = \"iqn.2024-02.a.b:c\"\nlun = 9"], ID, "b");
    assert_eq!(config.unwrap().node.chosen_by, "hostname = \"b\" in 1.toml, line 2");
}

/// Half a credential from one file and half from another is what nobody means.
#[test]
fn a_later_chap_table_replaces_the_whole_earlier_one() {
    let later = "[target.chap]\nusername = \"initiator2\"\ncredential = \"chap\"";
    let config = load(&[GOOD, later], ID, "master-0").unwrap();
    let chap = iscsi(&config).target.chap.clone().unwrap();
    assert_eq!(
        (chap.username.as_str(), chap.password),
        ("initiator2", SecretSource::Credential("chap".into()))
    );
    let half = load(&[GOOD, "[target.chap]\nusername = \"initiator2\""], ID, "master-0").unwrap_err();
    assert!(half.contains("no secret"), "{half}");
}

/// A list of a later file replaces the earlier one, but the entries of nodes are added.
#[test]
fn lists_are_replaced() {
    let texts = [
        "[lun]\nmount_options = [\"noatime\", \"discard\"]",
        DEVICE,
        "[lun]\nmount_options = [\"prjquota\"]",
    ];
    assert_eq!(load(&texts, ID, "x").unwrap().lun.mount_options, ["prjquota"]);
}

#[test]
fn the_order_of_the_files_hides_no_mistake() {
    for (one, other, said) in [
        ("lun = 1", "[lun]\nlabel = \"a\"", "line 1, column 7: expected a table"),
        ("boot = [\"etcd\"]", "[boot]\ngate = \"etcd\"", "line 1, column 8: expected a table"),
        ("[node]\nhostname = \"a\"", "[[node]]\nhostname = \"b\"", "line 1, column 1: "),
    ] {
        for texts in [[one, other], [other, one]] {
            let error = load(&texts, ID, "x").unwrap_err();
            assert!(error.contains(said), "{texts:?}: {error}");
        }
    }
}

/// The defaults that stand in the source as texts are valid, although nothing parses them at run time.
#[test]
fn defaults_of_the_source_are_valid() {
    use super::defaults::{DATA_DIR, LABEL, MANIFEST, TEXTFILE};
    for path in [DATA_DIR, MANIFEST, TEXTFILE] {
        assert_eq!(path.parse(), Ok(terms::AbsPath::of_source(path)));
    }
    assert_eq!(LABEL.parse(), Ok(terms::FsLabel::of_source(LABEL)));
}

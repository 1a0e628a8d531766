//! Tests that the program still reads every format in `tests/native/formats` that it ever wrote or accepted. A newer
//! binary may come to a node that an older one migrated. Files there are added and never changed.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use config::{Config, Nodes, Pool, Source};
use node::authority::{Authority, LunUse, Record, Stamp};
use std::{fs, path::Path};
use terms::{Nonce, RecordedFingerprint};

fn texts(kind: &str) -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("formats");
    let mut texts: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .filter(|(name, _)| name.starts_with(kind))
        .collect();
    texts.sort();
    texts
}

/// The newest format among the texts must be the one that the program writes now, byte for byte.
fn newest<'a>(texts: &'a [(String, String)], version: &str) -> Vec<&'a (String, String)> {
    let now: Vec<_> = texts.iter().filter(|(name, _)| name.contains(&format!("-{version}"))).collect();
    assert!(!now.is_empty(), "format {version} has no file in tests/native/formats: {texts:?}");
    now
}

fn version_of(text: &str) -> String {
    serde_json::from_str::<serde_json::Value>(text).unwrap()["version"].to_string()
}

#[test]
fn records() {
    let texts = texts("record-");
    for (name, text) in &texts {
        let record = Record::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(record.data_dir.as_str(), "/var/lib/etcd", "{name}");
        assert_eq!(record.authority == Authority::Lun, name.contains("lun"), "{name}");
        assert_eq!(record.rolled_back, name.contains("rolled-back"), "{name}");
        // Kept as it is, and known to be another kind.
        let older = record.fingerprint.map(|print| matches!(print, RecordedFingerprint::Older(_)));
        let kept = record.authority == Authority::Lun || record.rolled_back;
        let is_ours = name.contains("record-3") || name.contains("record-4");
        assert_eq!(older, kept.then_some(!is_ours), "{name}");
        // Until format 4 a rollback forgot the last use of the LUN.
        let knows_nonces = name.contains("record-4");
        let counts = record.authority == Authority::Lun || record.rolled_back && knows_nonces;
        assert_eq!(record.activations, if counts { 7 } else { 0 }, "{name}");
        assert_eq!(record.nonce.is_some(), counts && knows_nonces, "{name}");
        assert_eq!(record.is_of_older_format(), !knows_nonces, "{name}");
        let announces = knows_nonces && !record.rolled_back && !name.contains("used");
        assert_eq!(record.announced.is_some(), announces, "{name}");
    }
    let first = Record::parse(&texts[0].1).unwrap();
    let written = Record::begin(1, first.uuid, first.wwid, first.data_dir, Nonce([0; 16])).to_text().unwrap();
    assert!(!newest(&texts, &version_of(&written)).is_empty());
    // The older ones, too: what is only counted stays in its format, with its fingerprint.
    for (name, text) in &texts {
        assert_eq!(&Record::parse(text).unwrap().to_text().unwrap(), text, "{name}");
    }
}

#[test]
fn stamps() {
    let texts = texts("stamp-");
    for (name, text) in &texts {
        let stamp = Stamp::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((stamp.generation, stamp.activations), (3, 7), "{name}");
        assert_eq!((stamp.node.as_str(), stamp.machine_id.len()), ("master-0", 32), "{name}");
        assert_eq!(
            (stamp.nonce.is_some(), stamp.released),
            (!name.contains("-1"), name.contains("released"))
        );
    }
    let written =
        Stamp::new(1, String::new(), String::new(), LunUse { activations: 1, nonce: Nonce([0; 16]) })
            .to_text()
            .unwrap();
    for (name, text) in newest(&texts, &version_of(&written)) {
        assert_eq!(&Stamp::parse(text).unwrap().to_text().unwrap(), text, "{name}");
    }
}

#[test]
fn configs() {
    let texts = texts("config-");
    assert!(!texts.is_empty());
    for (path, text) in texts {
        let sources = [Source { path: path.clone(), text }];
        let pool = Pool::load(&sources).unwrap_or_else(|error| panic!("{path}: {error}"));
        let Nodes::Iscsi(nodes) = pool.nodes().unwrap() else { panic!("{path} has a target") };
        assert_eq!(nodes.len(), 2);
        let config = Config::load(&sources, "", "master-0").unwrap();
        assert_eq!(config.backing.iscsi().unwrap().lun.number.unwrap().0, 1);
    }
}

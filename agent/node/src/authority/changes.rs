//! Each change of a record and of a stamp: what it sets, and what it leaves.

use super::*;

const FIRST: Nonce = Nonce([1; 16]);
const SECOND: Nonce = Nonce([2; 16]);
const PRINT: Fingerprint = Fingerprint { seed: 3, hash: [4; 16] };

/// A record in which no change leaves everything as it is.
fn record() -> Record {
    Record {
        version: 2,
        authority: Authority::Lun,
        generation: 7,
        uuid: FsUuid([5; 16]),
        wwid: "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4".parse().unwrap(),
        data_dir: "/var/lib/etcd".parse().unwrap(),
        fingerprint: Some(RecordedFingerprint::Ours(PRINT)),
        activations: 9,
        nonce: Some(FIRST),
        announced: Some(LunUse { activations: 10, nonce: SECOND }),
        rolled_back: true,
    }
}

fn stamp() -> Stamp {
    Stamp {
        version: 1,
        generation: 7,
        machine_id: "one".into(),
        node: "master-0".into(),
        activations: 9,
        nonce: Some(FIRST),
        released: true,
    }
}

const NEXT: LunUse = LunUse { activations: 11, nonce: SECOND };

#[test]
fn of_a_record() {
    let version = RECORD_VERSION;
    let now = Record { version, ..record() };
    let Record { uuid, wwid, data_dir, .. } = record();
    let begun = Record {
        version,
        authority: Authority::Local,
        generation: 3,
        uuid,
        wwid: wwid.clone(),
        data_dir: data_dir.clone(),
        fingerprint: None,
        activations: 0,
        nonce: None,
        announced: Some(LunUse { activations: 0, nonce: FIRST }),
        rolled_back: false,
    };
    assert_eq!(Record::begin(3, uuid, wwid.clone(), data_dir.clone(), FIRST), begun);
    let local = Record { authority: Authority::Local, ..record() };
    let committed = Record { activations: 0, nonce: Some(SECOND), announced: None, ..now.clone() };
    assert_eq!(local.clone().commit(Some(PRINT)), committed);
    assert_eq!(local.commit(None), Record { fingerprint: None, ..committed });
    let of_commit = Some(LunUse { activations: 0, nonce: FIRST });
    assert_eq!(
        record().take_back(),
        Record {
            authority: Authority::Local,
            fingerprint: None,
            nonce: None,
            announced: of_commit,
            ..now.clone()
        }
    );
    let last = Stamp { activations: 12, nonce: Some(SECOND), ..stamp() };
    let left = Record {
        authority: Authority::Local,
        generation: 8,
        fingerprint: None,
        activations: 12,
        nonce: Some(SECOND),
        announced: None,
        ..now.clone()
    };
    assert_eq!(record().leave(8, &last), left);
    let before = Record { rolled_back: false, ..record() };
    let local = Record { authority: Authority::Local, ..now.clone() };
    assert_eq!(before.roll_back(PRINT), local);
    let claimed = Record {
        version,
        authority: Authority::Lun,
        generation: 7,
        fingerprint: None,
        activations: 9,
        nonce: Some(FIRST),
        announced: None,
        rolled_back: false,
        ..record()
    };
    assert_eq!(Record::claim(uuid, wwid, data_dir, &stamp()), claimed);
    let announcing = Record { activations: 12, nonce: Some(SECOND), announced: Some(NEXT), ..now.clone() };
    assert_eq!(record().announcing(&last, NEXT), announcing);
    let used = Record { activations: 11, nonce: Some(SECOND), announced: None, ..now };
    assert_eq!(record().used(NEXT), used);
}

#[test]
fn of_a_stamp() {
    let version = STAMP_VERSION;
    let new = Stamp { version, activations: 11, nonce: Some(SECOND), released: false, ..stamp() };
    assert_eq!(Stamp::new(7, "one".into(), "master-0".into(), NEXT), new);
    assert_eq!(stamp().used(NEXT), new);
    let in_use = Stamp { released: false, ..stamp() };
    assert_eq!(in_use.release(), Stamp { version, ..stamp() });
    assert_eq!(stamp().owned_by("two".into()), Stamp { machine_id: "two".into(), ..stamp() });
    assert_eq!(stamp().last_use(), Some(LunUse { activations: 9, nonce: FIRST }));
    assert_eq!(Stamp { nonce: None, ..stamp() }.last_use(), None);
}

#[test]
fn what_they_say() {
    assert_eq!([Authority::Local, Authority::Lun].map(|which| which.to_string()), ["local disk", "LUN"]);
    let old = |version| Record { version, ..record() }.is_of_older_format();
    assert_eq!([1, 3, 4].map(old), [true, true, false]);
    let returning = |authority, rolled_back| Record { authority, rolled_back, ..record() }.returning();
    assert_eq!(returning(Authority::Lun, true), Some(8));
    assert_eq!(returning(Authority::Local, true), Some(7));
    assert_eq!(returning(Authority::Local, false), None);
    let unused = |activations, nonce| Stamp { activations, nonce, ..stamp() }.is_unused();
    assert_eq!([unused(0, Some(FIRST)), unused(0, None), unused(1, Some(FIRST))], [true, false, false]);
}

/// Both are texts that the same program reads, and keys with nothing to say are left out.
#[test]
fn as_texts() {
    let text = record().to_text().unwrap();
    assert_eq!(Record::parse(&text).unwrap(), record());
    assert!(text.ends_with("}\n") && text.contains("\"rolled_back\": true"), "{text}");
    let plain = Record { rolled_back: false, announced: None, ..record() }.to_text().unwrap();
    assert!(!plain.contains("rolled_back") && !plain.contains("announced"), "{plain}");
    assert_eq!(Stamp::parse(&stamp().to_text().unwrap()).unwrap(), stamp());
    assert!(!Stamp { released: false, ..stamp() }.to_text().unwrap().contains("released"));
}

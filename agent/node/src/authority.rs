//! Which copy is authoritative: the record on the node, and the stamp on the LUN.
//!
//! Both are small JSON texts with a `version`. A text with an unknown version or key was written by a newer etcd-lun. So it is
//! an error, and never counts as absent. [`super::order`] says how the two compare.
//!
//! Each use of the LUN has a number and a nonce. Three writes begin a use, and each is durable before the next one:
//!
//! 1. The record announces the use.
//! 2. The stamp gets it.
//! 3. The record takes it over.
//!
//! So a stamp that is ahead of its record is that of a run that was cut short, if the record has announced it. Otherwise the
//! node's disk went back in time, or another computer uses the LUN.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{ffi::CStr, fmt};
use terms::{AbsPath, ErrorName, Fingerprint, FsUuid, Named, Nonce, RecordedFingerprint, Wwid};

/// The format of records that this program writes. Formats 1 to 3 have no nonce, and formats 1 and 2 had other fingerprints. A
/// record in them stays in it until this program changes it.
const RECORD_VERSION: u32 = 4;
/// The format of stamps that this program writes. Format 1 has neither a nonce nor `released`.
const STAMP_VERSION: u32 = 2;

/// One use of the LUN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LunUse {
    /// The use counter.
    pub activations: u64,
    /// The nonce, which no other use has, also not one with the same number.
    pub nonce: Nonce,
}

/// The copy that etcd may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Authority {
    /// The directory on the node's own disk.
    Local,
    /// The filesystem on the LUN.
    Lun,
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local disk",
            Self::Lun => "LUN",
        })
    }
}

/// The node's record, `/var/lib/etcd-lun/authority.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The format of the record.
    version: u32,
    /// The authoritative copy.
    pub authority: Authority,
    /// The number of this attempt. Each migration or rollback takes the next one.
    pub generation: u64,
    /// The UUID of the filesystem on the LUN. It is recorded before the filesystem is made.
    pub uuid: FsUuid,
    /// The WWID of the LUN.
    pub wwid: Wwid,
    /// The data directory that was migrated.
    pub data_dir: AbsPath,
    /// The fingerprint of the local data when it was copied; none before the commit point, and none if there was no data. After
    /// a rollback: the fingerprint of the proven copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<RecordedFingerprint>,
    /// The use counter. Each mount for use advances it, and each `mark` while etcd runs. It is 0 from the commit until the first
    /// mount. After a rollback it is that of the last use before the rollback.
    pub activations: u64,
    /// The nonce of that use. Formats 1 to 3 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Nonce>,
    /// The use that is about to begin: the LUN may have it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced: Option<LunUse>,
    /// True if a rollback made the local disk authoritative. Then only an `apply` by hand moves the data again. Older
    /// texts do not have this key. An older program refuses a text that has it, and so does not move the data at the
    /// next boot.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rolled_back: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Why a text is not a valid record or stamp.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It is not JSON of the known form.
    #[error("not of the known form")]
    Form(#[from] serde_json::Error),
    /// Another version wrote it.
    #[error("written in format {found}, this program knows {known}: use the etcd-lun that wrote it")]
    Version {
        /// The version in the text.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
}

impl Named for FormatError {
    fn name(&self) -> Option<ErrorName> {
        Some(ErrorName::RecordUnreadable)
    }
}

/// Only the version. It is read first, because another version may have another form.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

fn parse<T: for<'de> Deserialize<'de>>(text: &str, known: u32) -> Result<T, FormatError> {
    let Versioned { version } = serde_json::from_str(text)?;
    if !(1..=known).contains(&version) {
        return Err(FormatError::Version { found: version, known });
    }
    Ok(serde_json::from_str(text)?)
}

impl Record {
    /// The record of an attempt that begins. The local disk is authoritative. `nonce` is that of the stamp which the attempt
    /// will give to the LUN.
    pub fn begin(generation: u64, uuid: FsUuid, wwid: Wwid, data_dir: AbsPath, nonce: Nonce) -> Self {
        Self {
            version: RECORD_VERSION,
            authority: Authority::Local,
            generation,
            uuid,
            wwid,
            data_dir,
            fingerprint: None,
            activations: NEVER_USED,
            nonce: None,
            announced: Some(LunUse { activations: NEVER_USED, nonce }),
            rolled_back: false,
        }
    }

    /// The record at the commit point. The LUN is authoritative, and was never used.
    pub fn commit(self, fingerprint: Option<Fingerprint>) -> Self {
        let fingerprint = fingerprint.map(RecordedFingerprint::Ours);
        let nonce = self.announced.map(|stamped| stamped.nonce);
        let (activations, announced) = (NEVER_USED, None);
        let version = RECORD_VERSION;
        Self { version, authority: Authority::Lun, fingerprint, activations, nonce, announced, ..self }
    }

    /// The record of a commit that is taken back, because the LUN was never used and etcd has run on the local disk since.
    pub fn take_back(self) -> Self {
        let announced = self.nonce.map(|nonce| LunUse { activations: NEVER_USED, nonce });
        let (fingerprint, nonce) = (None, None);
        Self { version: RECORD_VERSION, authority: Authority::Local, fingerprint, nonce, announced, ..self }
    }

    /// The record that a rollback will commit, still without a fingerprint: the local disk is authoritative. It keeps the last use
    /// of the LUN, so that a later use by another computer is detected.
    pub fn leave(self, generation: u64, last: &Stamp) -> Self {
        let (activations, nonce) = (last.activations, last.nonce);
        let (fingerprint, announced, authority) = (None, None, Authority::Local);
        let version = RECORD_VERSION;
        Self { version, authority, generation, fingerprint, activations, nonce, announced, ..self }
    }

    /// The record at the commit point of a rollback. The copy on the local disk is authoritative.
    pub fn roll_back(self, fingerprint: Fingerprint) -> Self {
        let fingerprint = Some(RecordedFingerprint::Ours(fingerprint));
        Self { version: RECORD_VERSION, authority: Authority::Local, fingerprint, rolled_back: true, ..self }
    }

    /// The record of a node that takes the LUN of this stamp over. The stamp's use is its last one.
    pub fn claim(uuid: FsUuid, wwid: Wwid, data_dir: AbsPath, stamp: &Stamp) -> Self {
        Self {
            version: RECORD_VERSION,
            authority: Authority::Lun,
            generation: stamp.generation,
            uuid,
            wwid,
            data_dir,
            fingerprint: None,
            activations: stamp.activations,
            nonce: stamp.nonce,
            announced: None,
            rolled_back: false,
        }
    }

    /// True if the LUN of this record was used, as far as the record knows: its first use may have been announced.
    pub fn has_served(&self) -> bool {
        self.authority == Authority::Lun && (self.activations != NEVER_USED || self.nonce.is_none())
    }

    /// True if the record was never changed by a program that knows nonces.
    pub fn is_of_older_format(&self) -> bool {
        self.version < 4
    }

    /// The generation that names the directory where a rollback stages the LUN's data; none if nothing can be staged.
    pub fn returning(&self) -> Option<u64> {
        match self.authority {
            Authority::Lun => Some(self.generation.saturating_add(1)),
            Authority::Local => self.rolled_back.then_some(self.generation),
        }
    }

    /// The record, written before the stamp, which is `now`, gets this use. It takes the stamp's present use over: that may be an
    /// announced one, and only one use is announced at a time.
    pub fn announcing(self, now: &Stamp, next: LunUse) -> Self {
        let (activations, nonce) = (now.activations, now.nonce);
        Self { version: RECORD_VERSION, activations, nonce, announced: Some(next), ..self }
    }

    /// The record, written after the stamp got this use.
    pub fn used(self, next: LunUse) -> Self {
        let LunUse { activations, nonce } = next;
        Self { version: RECORD_VERSION, activations, nonce: Some(nonce), announced: None, ..self }
    }

    /// Reads the text of a record.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        parse(text, RECORD_VERSION)
    }

    /// The text of the record, with a newline.
    pub fn to_text(&self) -> Result<String, FormatError> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }
}

/// The use counter after a migration, until the LUN is mounted for use.
pub const NEVER_USED: u64 = 0;
/// The use counter of the first mount for use.
pub const FIRST_USE: u64 = 1;

/// The stamp on the LUN: an extended attribute of the filesystem's root directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// The format of the stamp.
    version: u32,
    /// The generation of the data.
    pub generation: u64,
    /// The machine id of the node that owns the data.
    pub machine_id: String,
    /// The name of this node, for messages.
    pub node: String,
    /// The use counter. It is advanced here before it is in the record, so it is never below the record's.
    pub activations: u64,
    /// The nonce of that use. Format 1 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Nonce>,
    /// True if a rollback has moved the data back to the local disk, and the LUN was not used since.
    #[serde(default, skip_serializing_if = "is_false")]
    pub released: bool,
}

impl Stamp {
    /// The attribute's name. Only a privileged process can read or write a `trusted.` attribute (xattr(7)), and rsync does not
    /// copy it without `-X`.
    pub const ATTRIBUTE: &CStr = c"trusted.etcd-lun.stamp";

    /// A stamp in the format that this program writes.
    pub fn new(generation: u64, machine_id: String, node: String, of: LunUse) -> Self {
        let LunUse { activations, nonce } = of;
        let (version, nonce, released) = (STAMP_VERSION, Some(nonce), false);
        Self { version, generation, machine_id, node, activations, nonce, released }
    }

    /// The stamp of the next use. A LUN in use is not released.
    pub fn used(self, next: LunUse) -> Self {
        let LunUse { activations, nonce } = next;
        Self { version: STAMP_VERSION, activations, nonce: Some(nonce), released: false, ..self }
    }

    /// The stamp after a rollback.
    pub fn release(self) -> Self {
        Self { version: STAMP_VERSION, released: true, ..self }
    }

    /// The use that the stamp is of; none in format 1, which has no nonce.
    pub fn last_use(&self) -> Option<LunUse> {
        let activations = self.activations;
        self.nonce.map(|nonce| LunUse { activations, nonce })
    }

    /// True if the LUN was never mounted for use. A stamp of format 1 counted its commit as the first use, so it never says so.
    pub fn is_unused(&self) -> bool {
        self.activations == NEVER_USED && self.nonce.is_some()
    }

    /// The stamp with this name of its node.
    pub fn named(self, node: String) -> Self {
        Self { node, ..self }
    }

    /// The stamp with this machine id.
    pub fn owned_by(self, machine_id: String) -> Self {
        Self { machine_id, ..self }
    }

    /// Reads the text of a stamp.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        parse(text, STAMP_VERSION)
    }

    /// The text of the stamp.
    pub fn to_text(&self) -> Result<String, FormatError> {
        Ok(serde_json::to_string(self)?)
    }
}

#[cfg(test)]
mod changes;

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of every format that was ever written are in `tests/native/formats`.
    const RECORD_1: &str = include_str!("../../../tests/native/formats/record-1-lun.json");

    #[test]
    fn anything_else_is_an_error() {
        let cases = [
            ("", "not of the known form"),
            ("{}", "not of the known form"),
            (&RECORD_1[..80], "not of the known form"),
            (&RECORD_1.replace("\"generation\"", "\"generations\""), "not of the known form"),
            (&RECORD_1.replace("\"version\": 1", "\"version\": 0"), "written in format 0"),
            (
                &RECORD_1.replace("\"version\": 1", "\"version\": 5"),
                "written in format 5, this program knows 4:",
            ),
            (&RECORD_1.replace("00112233445566778899", "xxh3:"), "not of the known form"),
        ]
        .map(|(text, error)| (text.to_owned(), error));
        for (text, error) in cases {
            let found = Record::parse(&text).unwrap_err().to_string();
            assert!(found.contains(error), "{text}: {found}");
        }
    }

    /// The text of an older program is kept as it is, its fingerprint included, until this program has something to
    /// add.
    #[test]
    fn a_record_of_format_1_stays_one_until_it_is_changed() {
        let record = Record::parse(RECORD_1).unwrap();
        assert!(record.is_of_older_format());
        assert!(matches!(record.fingerprint, Some(RecordedFingerprint::Older(_))));
        assert_eq!(record.to_text().unwrap(), RECORD_1);
        let next = LunUse { activations: 8, nonce: Nonce([8; 16]) };
        let stamp = Stamp::parse(include_str!("../../../tests/native/formats/stamp-1.json")).unwrap();
        let announced = record.clone().announcing(&stamp, next);
        assert_eq!((announced.activations, announced.nonce, announced.announced), (7, None, Some(next)));
        let used = announced.clone().used(next);
        assert_eq!((used.activations, used.nonce, used.announced), (8, Some(next.nonce), None));
        let ours = Fingerprint { seed: 5, hash: [7; 16] };
        for newer in [announced, used, record.clone().commit(Some(ours)), record.roll_back(ours)] {
            assert!(newer.to_text().unwrap().contains("\"version\": 4"));
            assert!(!newer.is_of_older_format());
        }
    }
}

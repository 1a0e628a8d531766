//! Which copy is authoritative: the record on the node, and the stamp on the LUN.
//!
//! Both are small JSON texts with a `version`. A text with an unknown version or key was written by a newer etcd-lun. So it is
//! an error, and never counts as absent.

use crate::terms::{AbsPath, Fingerprint, FsUuid, RecordedFingerprint, Wwid};
use serde::{Deserialize, Serialize};
use std::{ffi::CStr, fmt};

/// The format of records that this program writes. Formats 1 and 2 had other fingerprints; a record in them stays in it
/// until it gets a fingerprint of ours, so that the program that wrote it can still read it.
const RECORD_VERSION: u32 = 3;
/// The format of stamps that this program writes.
const STAMP_VERSION: u32 = 1;

/// The copy that etcd may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
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
    /// The use counter. Each mount for use advances it, and each `mark` while etcd runs. If the stamp has a lower one, the LUN
    /// was restored from a snapshot.
    pub activations: u64,
    /// Whether a rollback made the local disk authoritative. Then only an `apply` by hand moves the data again. Older texts do
    /// not have this key. An older program refuses a text that has it, and so does not move the data at the next boot.
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
    /// The record of an attempt that begins. The local disk is authoritative.
    pub fn begin(generation: u64, uuid: FsUuid, wwid: Wwid, data_dir: AbsPath) -> Self {
        Self {
            version: RECORD_VERSION,
            authority: Authority::Local,
            generation,
            uuid,
            wwid,
            data_dir,
            fingerprint: None,
            activations: 0,
            rolled_back: false,
        }
    }

    /// The record at the commit point. The LUN is authoritative and has its first use.
    pub fn commit(self, fingerprint: Option<Fingerprint>) -> Self {
        let fingerprint = fingerprint.map(RecordedFingerprint::Ours);
        Self {
            version: RECORD_VERSION,
            authority: Authority::Lun,
            fingerprint,
            activations: FIRST_ACTIVATION,
            ..self
        }
    }

    /// The record at the commit point of a rollback. The copy on the local disk is authoritative.
    pub fn roll_back(self, fingerprint: Fingerprint) -> Self {
        let fingerprint = Some(RecordedFingerprint::Ours(fingerprint));
        Self { version: RECORD_VERSION, authority: Authority::Local, fingerprint, rolled_back: true, ..self }
    }

    /// The generation that names the directory where a rollback stages the LUN's data; none if nothing can be staged.
    pub fn returning(&self) -> Option<u64> {
        match self.authority {
            Authority::Lun => Some(self.generation.saturating_add(1)),
            Authority::Local => self.rolled_back.then_some(self.generation),
        }
    }

    /// The record with this use counter.
    pub fn activated(self, activations: u64) -> Self {
        Self { activations, ..self }
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

/// The use counter after a migration: the commit is the first use.
pub const FIRST_ACTIVATION: u64 = 1;

/// The stamp on the LUN: an extended attribute of the filesystem's root directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    version: u32,
    /// The generation of the data.
    pub generation: u64,
    /// The machine id of the node that owns the data.
    pub machine_id: String,
    /// The name of this node, for messages.
    pub node: String,
    /// The use counter. It is advanced here before it is in the record, so it is never below the record's.
    pub activations: u64,
}

impl Stamp {
    /// The attribute's name. Only a privileged process can read or write a `trusted.` attribute (xattr(7)), and rsync does not
    /// copy it without `-X`.
    pub const ATTRIBUTE: &CStr = c"trusted.etcd-lun.stamp";

    /// A stamp in the format that this program writes.
    pub fn new(generation: u64, machine_id: String, node: String, activations: u64) -> Self {
        Self { version: STAMP_VERSION, generation, machine_id, node, activations }
    }

    /// The stamp with this use counter.
    pub fn activated(self, activations: u64) -> Self {
        Self { activations, ..self }
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
mod tests {
    use super::*;

    /// Texts of every format that was ever written are in `tests/formats`.
    const RECORD_1: &str = include_str!("../../../tests/formats/record-1-lun.json");

    #[test]
    fn anything_else_is_an_error() {
        let cases = [
            ("", "not of the known form"),
            ("{}", "not of the known form"),
            (&RECORD_1[..80], "not of the known form"),
            (&RECORD_1.replace("\"generation\"", "\"generations\""), "not of the known form"),
            (&RECORD_1.replace("\"version\": 1", "\"version\": 0"), "written in format 0"),
            (
                &RECORD_1.replace("\"version\": 1", "\"version\": 4"),
                "written in format 4, this program knows 3:",
            ),
            (&RECORD_1.replace("00112233445566778899", "xxh3:"), "not of the known form"),
        ]
        .map(|(text, error)| (text.to_owned(), error));
        for (text, error) in cases {
            let found = Record::parse(&text).unwrap_err().to_string();
            assert!(found.contains(error), "{text}: {found}");
        }
    }

    /// What an older program wrote stays readable to it, its fingerprint included, until a fingerprint of ours comes in.
    #[test]
    fn a_record_of_format_1_stays_one_until_it_gets_a_fingerprint_of_ours() {
        let record = Record::parse(RECORD_1).unwrap();
        assert!(matches!(record.fingerprint, Some(RecordedFingerprint::Older(_))));
        let counted = record.clone().activated(8).to_text().unwrap();
        assert_eq!(counted, RECORD_1.replace("\"activations\": 7", "\"activations\": 8"));
        let ours = Fingerprint { seed: 5, hash: [7; 16] };
        for newer in [record.clone().commit(Some(ours)), record.roll_back(ours)] {
            assert!(newer.to_text().unwrap().contains("\"version\": 3"));
            assert_eq!(newer.fingerprint, Some(RecordedFingerprint::Ours(ours)));
        }
    }
}

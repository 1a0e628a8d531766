//! Which copy is the truth: the record on the node, the stamp on the LUN.
//!
//! Both are small JSON texts with a `version`. A text of an unknown version, or with a key that
//! is not known, is an error and never "absent": somebody newer wrote it.

use crate::terms::{AbsPath, Fingerprint, FsUuid, RecordedFingerprint, Wwid};
use serde::{Deserialize, Serialize};
use std::{ffi::CStr, fmt};

/// The format of records that this program writes. Format 1 had fingerprints of other hashes; a record in it stays in it
/// until it gets a fingerprint of ours, so that the program that wrote it can still read it.
const RECORD_VERSION: u32 = 2;
/// The format of stamps that this program writes.
const STAMP_VERSION: u32 = 1;

/// Which copy etcd may run on.
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
    /// Which copy is the truth.
    pub authority: Authority,
    /// Counts migrations: each attempt takes the next number.
    pub generation: u64,
    /// The UUID of the filesystem on the LUN: set before the filesystem is made.
    pub uuid: FsUuid,
    /// The LUN.
    pub wwid: Wwid,
    /// The data directory that was migrated.
    pub data_dir: AbsPath,
    /// The local data as it was when it was copied; none before the commit point, and none when
    /// there was no data to copy. After a rollback, the copy as it was proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<RecordedFingerprint>,
    /// How many uses of the LUN were counted: each mount for use, and while etcd runs each `mark`. A LUN whose stamp has
    /// fewer has gone back in time.
    pub activations: u64,
    /// Whether the truth is local because a person rolled back: then only a person's `apply` moves it again. Not there
    /// in older texts; an older program refuses a text that has it, and so doesn't move the data at the next boot.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rolled_back: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What is wrong with the text of a record or stamp.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It isn't JSON of the known form.
    #[error("not of the known form")]
    Form(#[from] serde_json::Error),
    /// It was written by another version.
    #[error("written in format {found}, this program knows {known}: use the etcd-lun that wrote it")]
    Version {
        /// The version in the text.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
}

/// Only the version, to judge a text before its form.
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
    /// The record of an attempt that begins: the truth is local.
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

    /// The record at the commit point: the truth is on the LUN, mounted for use once.
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

    /// The record at the commit point of a rollback: the truth is this copy on the local disk, on purpose.
    pub fn roll_back(self, fingerprint: Fingerprint) -> Self {
        let fingerprint = Some(RecordedFingerprint::Ours(fingerprint));
        Self { version: RECORD_VERSION, authority: Authority::Local, fingerprint, rolled_back: true, ..self }
    }

    /// The generation under whose number a rollback stages the LUN's data, or has staged it.
    pub fn returning(&self) -> Option<u64> {
        match self.authority {
            Authority::Lun => Some(self.generation.saturating_add(1)),
            Authority::Local => self.rolled_back.then_some(self.generation),
        }
    }

    /// The record with another count of activations.
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

/// The count that a migration itself gives: committing is the first use.
pub const FIRST_ACTIVATION: u64 = 1;

/// The stamp on the LUN: an extended attribute of the filesystem's root directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    version: u32,
    /// The generation whose data this is.
    pub generation: u64,
    /// The machine id of the node that it belongs to.
    pub machine_id: String,
    /// That node's name, for people.
    pub node: String,
    /// How many uses of the LUN were counted, here before in the record: never fewer than there.
    pub activations: u64,
}

impl Stamp {
    /// The attribute's name. `trusted.`: only a privileged process may read or write it, and
    /// rsync without `-X` leaves it alone (xattr(7)).
    pub const ATTRIBUTE: &CStr = c"trusted.etcd-lun.stamp";

    /// A stamp in the format of this program.
    pub fn new(generation: u64, machine_id: String, node: String, activations: u64) -> Self {
        Self { version: STAMP_VERSION, generation, machine_id, node, activations }
    }

    /// The stamp with another count of activations.
    pub fn activated(self, activations: u64) -> Self {
        Self { activations, ..self }
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
                &RECORD_1.replace("\"version\": 1", "\"version\": 3"),
                "written in format 3, this program knows 2:",
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
        let ours = Fingerprint([7; 16]);
        for newer in [record.clone().commit(Some(ours)), record.roll_back(ours)] {
            assert!(newer.to_text().unwrap().contains("\"version\": 2"));
            assert_eq!(newer.fingerprint, Some(RecordedFingerprint::Ours(ours)));
        }
    }
}

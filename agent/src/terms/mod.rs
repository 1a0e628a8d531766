//! The words of the domain as types: parsed once where they enter, never checked again.
//!
//! Nothing here does anything; every other module may use it.

mod chap;
mod decimal;
mod disk;
mod file;
mod fingerprint;
mod iscsi;
mod lun;
mod quantity;
mod secret;
mod url;

pub use chap::{Chap, ChapError};
pub use decimal::decimal;
pub use disk::DiskLink;
pub use file::{AbsPath, FsLabel, FsUuid};
pub use fingerprint::{Fingerprint, Hasher};
pub use iscsi::{ISCSI_PORT, Iqn, Portal};
pub use lun::{LunNumber, Wwid};
pub use quantity::{Bytes, Span};
pub use secret::Secret;
pub use url::MetricsUrl;

/// Why a word could not be parsed: what was given and what would have been right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {wanted}")]
pub struct TermError {
    /// The text as it was given.
    pub given: String,
    /// A noun phrase with the accepted form, with an example where that helps.
    pub wanted: &'static str,
}

impl TermError {
    pub(crate) fn new(given: &str, wanted: &'static str) -> Self {
        Self { given: given.to_owned(), wanted }
    }
}

/// Implements serde for a type by its `FromStr` and `Display`, so that files and JSON
/// go through the same parser as everything else.
macro_rules! serde_as_text {
    ($($name:ty),+) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    )+};
}
serde_as_text!(AbsPath, DiskLink, FsLabel, FsUuid, Fingerprint, Iqn, Portal, Wwid, Bytes, Span, MetricsUrl);

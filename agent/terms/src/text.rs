//! serde's view of the terms: each is a text.

use super::{
    disk::{self, DiskLink},
    file::{self, AbsPath, FsLabel, FsUuid},
    fingerprint::{Fingerprint, RecordedFingerprint},
    iscsi::{self, Iqn, Portal},
    nonce::{self, Nonce},
    quantity::{self, Bytes, Span},
    url::{self, ClientUrl},
    wwid::{self, Wwid},
};
use serde::de::Visitor;
use std::fmt;

/// Reads a type from a text by its `FromStr`. So a file and JSON go through the same parser as everything else.
macro_rules! text_from_serde {
    ($name:ty: $form:expr) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = from.deserialize_str(TextVisitor { form: $form })?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Says in a schema that such a value is read as a text, and in which form it is written.
macro_rules! schema_of {
    ($name:ty, $written:tt) => {
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                if generator.contract().is_serialize() {
                    schemars::json_schema!($written)
                } else {
                    schemars::json_schema!({ "type": "string" })
                }
            }
        }
    };
}

/// Implements serde for a type by its `FromStr` and `Display`.
macro_rules! serde_as_text {
    ($($name:ty: $form:expr),+ $(,)?) => {$(
        text_from_serde!($name: $form);
        schema_of!($name, { "type": "string" });
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    )+};
}
serde_as_text!(
    AbsPath: file::PATH_FORM,
    DiskLink: disk::LINK_FORM,
    FsLabel: file::LABEL_FORM,
    FsUuid: file::UUID_FORM,
    Fingerprint: "a fingerprint in quotes",
    RecordedFingerprint: "a fingerprint in quotes",
    Iqn: iscsi::IQN_FORM,
    Portal: iscsi::PORTAL_FORM,
    Wwid: wwid::WWID_FORM,
    Nonce: nonce::NONCE_FORM,
    ClientUrl: url::CLIENT_URL_FORM,
);

text_from_serde!(Bytes: quantity::SIZE_FORM);
text_from_serde!(Span: quantity::SPAN_FORM);
schema_of!(Bytes, { "type": "integer", "minimum": 0 });
schema_of!(Span, { "type": "number", "minimum": 0 });

/// In JSON a size is a number of bytes. The key says so.
impl serde::Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.0)
    }
}

/// In JSON a duration is a number of seconds, with a fraction only where there is one. The key says so.
impl serde::Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.subsec_nanos() {
            0 => to.serialize_u64(self.0.as_secs()),
            _ => to.serialize_f64(self.0.as_secs_f64()),
        }
    }
}

/// Takes a text. Of any other value, such as a number without a unit, the error says which form is expected.
///
/// One visitor serves all terms. A visitor for each would make the compiler copy the TOML deserializer for each.
#[derive(Debug)]
pub struct TextVisitor {
    /// The expected value, as a noun phrase.
    pub form: &'static str,
}

impl Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

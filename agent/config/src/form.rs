//! The forms that a value of the config can have beside those of serde: a table, a name, a secret.

use super::{
    pattern::{is_host_name, is_name_or_pattern},
    tables::{NamedPortal, PortalRow},
};
use serde::de::{
    Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer,
};
use serde::ser::{Serialize as _, Serializer};
use std::{cell::Cell, fmt, marker::PhantomData};
use terms::{AbsPath, ChapAlg, TextVisitor};

/// A size or a duration as a file has it.
pub(super) fn as_written<S: Serializer>(value: &impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Like [`as_written`], for a key that may be left out.
pub(super) fn optional_as_written<S: Serializer>(
    value: &Option<impl fmt::Display>,
    to: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(to)
}

/// A table that may be left out; then all its keys have their defaults.
///
/// serde's derive also accepts a list where a table belongs, and fills the keys by position. Of another value it prints what it
/// holds, and in the place of a CHAP table that may be the secret.
pub(super) fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    one_or_more(from, false)?.pop().ok_or_else(|| D::Error::custom(A_TABLE))
}

/// A table, or a list of them.
pub(super) fn tables<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    one_or_more(from, true)
}

const A_TABLE: &str =
    "expected a table: write its name in brackets on a line of its own, and its keys below that line";

fn one_or_more<'de, D, T>(from: D, may_be_list: bool) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let is_table = Cell::new(false);
    let visitor = TableVisitor { is_table: &is_table, may_be_list, keys: PhantomData };
    from.deserialize_any(visitor)
        .map_err(|error| if is_table.get() { error } else { D::Error::custom(A_TABLE) })
}

/// A table whose absence means something.
pub(super) fn optional_table<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    table(from).map(Some)
}

struct TableVisitor<'a, T> {
    is_table: &'a Cell<bool>,
    may_be_list: bool,
    keys: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
        self.is_table.set(true);
        Ok(vec![T::deserialize(MapAccessDeserializer::new(map))?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut tables = Vec::new();
        if self.may_be_list {
            self.is_table.set(true);
            while let Some(Row(table)) = list.next_element()? {
                tables.push(table);
            }
        }
        Ok(tables)
    }
}

impl<'de> Deserialize<'de> for PortalRow {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PortalVisitor)
    }
}

/// serde's own way to take one of two forms says of a wrong value only that it has none of them.
struct PortalVisitor;

impl<'de> Visitor<'de> for PortalVisitor {
    type Value = PortalRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a portal, such as \"192.168.10.5\", or { address = \"192.168.10.5\", iqn = \"iqn.2024-02.com.example:port1\" }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PortalRow, E> {
        text.parse().map(PortalRow::Address).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PortalRow, A::Error> {
        NamedPortal::deserialize(MapAccessDeserializer::new(map)).map(PortalRow::Named)
    }
}

/// An item of a list of tables.
#[derive(Debug)]
pub(super) struct Row<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Row<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        table(from).map(Self)
    }
}

/// A value of which no error prints anything, because it may be a secret.
fn hidden<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D, form: &str) -> Result<T, D::Error> {
    let said = || format!("the value is not shown because it may be a secret; expected {form}");
    T::deserialize(from).map_err(|_| D::Error::custom(said()))
}

/// A secret.
pub(super) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    hidden(from, "a text in quotes").map(Some)
}

/// The file of a secret. Somebody may have written the secret itself.
pub(super) fn secret_file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AbsPath>, D::Error> {
    hidden(from, "the absolute path of the file that holds the secret, in quotes").map(Some)
}

/// The name of a credential. Somebody may have written the secret itself.
pub(super) fn credential<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let form = "the name of a credential in quotes: no path, no \":\" and no space in it, and no dot at its beginning";
    let CredentialName(name) = hidden(from, form)?;
    Ok(Some(name))
}

struct CredentialName(String);

impl<'de> Deserialize<'de> for CredentialName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let is_name = !name.is_empty()
            && !name.starts_with('.')
            && name.chars().all(|c| c.is_ascii_graphic() && c != '/' && c != ':');
        if is_name { Ok(Self(name)) } else { Err(D::Error::custom("no name")) }
    }
}

/// Algorithms of CHAP. Somebody may have put the secret here.
pub(super) fn chap_algs<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<ChapAlg>>, D::Error> {
    hidden(from, "a list of \"SHA3-256\", \"SHA256\", \"SHA1\" and \"MD5\"").map(Some)
}

/// A host name, short or fully qualified, or a pattern of host names. Linux also accepts the underscore (sethostname(2)).
pub(super) fn host_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let form = "a host name of letters, digits, \"-\", \"_\" and \".\", without spaces, such as \"master-0\", or with \"*\" such as \"master-*\"";
    checked(from, form, is_name_or_pattern)
}

/// The name of a target.
pub(super) fn target_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let form = "a name of letters, digits, \"-\", \"_\" and \".\", such as \"array-a\"";
    checked(from, form, is_host_name)
}

/// A machine id.
pub(super) fn machine_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let form = "a machine id: 32 hex digits, as in /etc/machine-id of the node";
    checked(from, form, |id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn checked<'de, D: Deserializer<'de>>(
    from: D,
    form: &'static str,
    is_valid: impl FnOnce(&str) -> bool,
) -> Result<Option<String>, D::Error> {
    let text = from.deserialize_str(TextVisitor { form })?;
    if is_valid(&text) { Ok(Some(text)) } else { Err(D::Error::custom(format!("`{text}` is not {form}"))) }
}

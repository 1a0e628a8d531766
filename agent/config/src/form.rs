//! The forms that a value of the config can have: a table, a list, a word, a secret. Each is taken in that form alone.
//!
//! serde's derive also accepts a list where a table belongs, and fills the keys by position; `toml` also accepts a table
//! where a word belongs. Both would hide a mistake, so the visitors here refuse them and say what to write instead.

use super::pattern::{InitiatorName, is_name_or_pattern};
use serde::de::{
    Deserialize, Deserializer, Error, IntoDeserializer as _, MapAccess, SeqAccess, Unexpected, Visitor,
    value::MapAccessDeserializer,
};
use serde::ser::Serializer;
use std::{fmt, marker::PhantomData};
use terms::{AbsPath, TextVisitor};

/// A size or a duration as a file has it. The schema of a file shows its default so; in JSON it is a number.
pub(super) fn as_written<S: Serializer>(value: &impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// A table that may be left out; then all its keys have their defaults.
pub(super) fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_map(TableVisitor(PhantomData))
}

/// A table whose absence means something.
pub(super) fn optional_table<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    table(from).map(Some)
}

/// `[[node]]`, any number of times.
pub(super) fn nodes<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let form = "a list of tables: write [[node]], in two pairs of brackets, above the keys of each node, and the keys without `node.`";
    let tables: Vec<Table<T>> = from.deserialize_seq(ListVisitor { form, items: PhantomData })?;
    Ok(tables.into_iter().map(|table| table.0).collect())
}

/// The target's portals.
pub(super) fn portals<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let form = "a list, such as [\"192.168.10.5\"]";
    from.deserialize_seq(ListVisitor { form, items: PhantomData }).map(Some)
}

/// LUNs of which a node takes one.
pub(super) fn wwids<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let form = "a list, such as [\"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"]";
    from.deserialize_seq(ListVisitor { form, items: PhantomData }).map(Some)
}

/// Options of a mount.
pub(super) fn mount_options<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let form = "a list, such as [\"prjquota\", \"noatime\"]";
    from.deserialize_seq(ListVisitor { form, items: PhantomData })
}

/// Algorithms of CHAP. No error quotes one: somebody may have put the secret here.
pub(super) fn chap_algs<'de, D: Deserializer<'de>, T: Word>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    struct Item<T>(T);
    impl<'de, T: Word> Deserialize<'de> for Item<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let unknown = || D::Error::custom(format!("an algorithm that is not one of {}", T::WORDS));
            let word = String::deserialize(from).map_err(|_| unknown())?;
            let word: serde::de::value::StringDeserializer<D::Error> = word.into_deserializer();
            T::deserialize(word).map(Self).map_err(|_| unknown())
        }
    }
    let form = "a list, such as [\"SHA3-256\", \"SHA256\"]";
    let items: Vec<Item<T>> = from.deserialize_seq(ListVisitor { form, items: PhantomData })?;
    Ok(Some(items.into_iter().map(|item| item.0).collect()))
}

/// A value that is one of a few words: an enum whose variants hold nothing.
pub(super) trait Word: for<'de> Deserialize<'de> {
    /// The words, in quotes.
    const WORDS: &'static str;
}

/// One of a few words.
pub(super) fn word<'de, D: Deserializer<'de>, T: Word>(from: D) -> Result<T, D::Error> {
    let word = from.deserialize_str(TextVisitor { form: T::WORDS })?;
    T::deserialize(word.into_deserializer())
}

/// One of a few words, without a default.
pub(super) fn optional_word<'de, D: Deserializer<'de>, T: Word>(from: D) -> Result<Option<T>, D::Error> {
    word(from).map(Some)
}

const SECRET: &str = "the value is not shown because it may be a secret; expected a text in quotes";
const SECRET_FILE: &str = "the value is not shown because it may be a secret; expected the absolute path of the file that holds the secret, in quotes";

const CREDENTIAL: &str = "the value is not shown because it may be a secret; expected the name of a credential in quotes: no path, no \":\" and no space in it, and no dot at its beginning";

/// A secret, or a name that somebody may have put the secret in the place of. No error quotes it.
pub(super) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    String::deserialize(from).map(Some).map_err(|_| D::Error::custom(SECRET))
}

/// The file of a secret. No error quotes it: somebody may have written the secret itself.
pub(super) fn secret_file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AbsPath>, D::Error> {
    AbsPath::deserialize(from).map(Some).map_err(|_| D::Error::custom(SECRET_FILE))
}

/// The name of a credential. No error quotes it: somebody may have written the secret itself.
pub(super) fn credential<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(from).ok().filter(|name| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.chars().all(|c| c.is_ascii_graphic() && c != '/' && c != ':')
    });
    name.map(Some).ok_or_else(|| D::Error::custom(CREDENTIAL))
}

/// A host name, short or fully qualified, or a pattern of host names. Linux also accepts the underscore (sethostname(2)).
pub(super) fn host_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let form = "a host name of letters, digits, \"-\", \"_\" and \".\", without spaces, such as \"master-0\", or with \"*\" such as \"master-*\"";
    checked(from, "a text in quotes", form, is_name_or_pattern)
}

/// An initiator's name, which a person invents: see [`InitiatorName::parse`].
pub(super) fn initiator<'de, D: Deserializer<'de>>(from: D) -> Result<Option<InitiatorName>, D::Error> {
    let form = "an iSCSI name in quotes, such as \"iqn.1994-05.com.redhat:master0\"";
    let text = from.deserialize_str(TextVisitor { form })?;
    InitiatorName::parse(&text).map(Some).map_err(D::Error::custom)
}

/// A machine id.
pub(super) fn machine_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let form = "a machine id: 32 hex digits, as in /etc/machine-id of the node";
    checked(from, form, form, |id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn checked<'de, D: Deserializer<'de>>(
    from: D,
    expected: &'static str,
    form: &'static str,
    is_valid: impl FnOnce(&str) -> bool,
) -> Result<Option<String>, D::Error> {
    let text = from.deserialize_str(TextVisitor { form: expected })?;
    if is_valid(&text) { Ok(Some(text)) } else { Err(D::Error::custom(format!("`{text}` is not {form}"))) }
}

/// An item of a list of tables.
struct Table<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        table(from).map(Self)
    }
}

struct TableVisitor<T>(PhantomData<T>);

/// Says which form was found, and never what it holds: in the place of a CHAP table it may be the secret.
impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table: write its name in brackets on a line of its own, and its keys below that line")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other("a text"), &self))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other("true or false"), &self))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other("a number"), &self))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other("a number"), &self))
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other("a number"), &self))
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other("a number"), &self))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other("a number"), &self))
    }
}

struct ListVisitor<T> {
    form: &'static str,
    items: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        std::iter::from_fn(|| items.next_element().transpose()).collect()
    }
}

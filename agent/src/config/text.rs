//! TOML into fragments: the `toml` crate parses, and what it parsed is read here.
//!
//! Reading through the crate's own `serde` support costs as much of the program as all of the rest of `config`: it takes
//! each value in every form that TOML and serde know. Here each is taken in the one that a config has. What is said of a
//! wrong one is serde's words, and the same as the crate's: a test holds the two against each other. A fraction is quoted
//! as it is written, not as it was understood; what stands where a table should be isn't quoted.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer as _, MapAccess, SeqAccess,
    Unexpected, Visitor, value::StrDeserializer,
};
use std::{fmt, ops::Range};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

/// What is wrong with a text, and where.
#[derive(Debug)]
pub(super) struct Wrong(Box<(String, Option<usize>)>);

impl Wrong {
    /// What is wrong.
    pub(super) fn message(&self) -> &str {
        &self.0.0
    }

    /// Where it begins, in bytes.
    pub(super) fn place(&self) -> usize {
        self.0.1.unwrap_or_default()
    }

    /// The innermost place is the nearest.
    fn at(mut self, span: Range<usize>) -> Self {
        self.0.1.get_or_insert(span.start);
        self
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Box::new((message.to_string(), None)))
    }
}

/// Reads a whole text.
pub(super) fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Wrong> {
    let parsed = DeTable::parse(text).map_err(|error| {
        Wrong(Box::new((error.message().to_owned(), error.span().map(|span| span.start))))
    })?;
    let span = parsed.span();
    T::deserialize(Value(&Spanned::new(span, DeValue::Table(parsed.into_inner()))))
}

struct Value<'v>(&'v Spanned<DeValue<'v>>);

impl Value<'_> {
    fn wrong_type(&self, expected: &dyn serde::de::Expected) -> Wrong {
        let float;
        let found = match self.0.get_ref() {
            DeValue::String(text) => Unexpected::Str(text),
            DeValue::Integer(_) => match self.integer() {
                Some(number) => Unexpected::Signed(number),
                None => return Wrong::custom("integer number overflowed"),
            },
            DeValue::Float(number) => {
                float = format!("floating point `{number}`");
                Unexpected::Other(&float)
            }
            DeValue::Boolean(flag) => Unexpected::Bool(*flag),
            DeValue::Array(_) => Unexpected::Seq,
            DeValue::Datetime(_) | DeValue::Table(_) => Unexpected::Map,
        };
        Wrong::invalid_type(found, expected)
    }

    fn integer(&self) -> Option<i64> {
        let number = self.0.get_ref().as_integer()?;
        i64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    fn placed<T>(&self, read: Result<T, Wrong>) -> Result<T, Wrong> {
        read.map_err(|wrong| wrong.at(self.0.span()))
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Wrong;

    /// Texts, numbers and truth values.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.placed(match (self.0.get_ref(), self.integer()) {
            (DeValue::String(text), _) => visitor.visit_str(text),
            (_, Some(number)) => visitor.visit_i64(number),
            (DeValue::Boolean(flag), _) => visitor.visit_bool(*flag),
            _ => Err(self.wrong_type(&visitor)),
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.placed(match self.0.get_ref() {
            DeValue::Table(table) => visitor.visit_map(Entries { rest: table.iter(), value: None }),
            // Not quoted: in the place of the table for CHAP it may be the secret.
            _ => Err(Wrong::invalid_type(Unexpected::Other(self.0.get_ref().type_str()), &"a table")),
        })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.placed(match self.0.get_ref() {
            DeValue::Array(items) => visitor.visit_seq(Items(items.iter())),
            _ => Err(self.wrong_type(&visitor)),
        })
    }

    /// A key that is there has a value.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let span = self.0.span();
        visitor.visit_some(self).map_err(|wrong| wrong.at(span))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let span = self.0.span();
        visitor.visit_newtype_struct(self).map_err(|wrong| wrong.at(span))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.placed(match self.0.get_ref() {
            DeValue::String(word) => visitor.visit_enum(word.as_ref().into_deserializer()),
            DeValue::Table(_) => Err(self.wrong_type(&visitor)),
            _ => Err(Wrong::custom("wanted string or table")),
        })
    }

    serde::forward_to_deserialize_any! {
        bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 char str string bytes byte_buf map unit ignored_any unit_struct
        tuple_struct tuple identifier
    }
}

struct Items<'v>(std::slice::Iter<'v, Spanned<DeValue<'v>>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        self.0.next().map(|item| seed.deserialize(Value(item))).transpose()
    }
}

struct Entries<'v, I> {
    rest: I,
    value: Option<&'v Spanned<DeValue<'v>>>,
}

impl<'de, 'v, I> MapAccess<'de> for Entries<'v, I>
where
    I: Iterator<Item = (&'v Spanned<DeString<'v>>, &'v Spanned<DeValue<'v>>)>,
{
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let word: StrDeserializer<'_, Wrong> = key.get_ref().as_ref().into_deserializer();
        seed.deserialize(word).map(Some).map_err(|wrong| wrong.at(key.span()))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Wrong> {
        let value = self.value.take().ok_or_else(|| Wrong::custom("a value without a key"))?;
        seed.deserialize(Value(value)).map_err(|wrong| wrong.at(value.span()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fragment::Fragment;

    /// The same is taken and the same is said, and of the same line, as by the crate itself.
    #[test]
    fn as_the_crate_reads_it() {
        let keys = [
            "target.iqn",
            "target.portals",
            "target.discovery",
            "target.noop_interval",
            "target.chap",
            "target.chap.username",
            "target.chap.password_file",
            "etcd.data_dir",
            "etcd.runtime",
            "etcd.metrics",
            "lun.min_size",
            "lun.mount_options",
            "lun.label",
            "boot.gate",
            "health.interval",
            "node",
            "target",
            "etcd",
            "target.unknown",
            "unknown",
            "unknown.deeper",
            "health.unknown.deeper",
        ];
        let values = [
            "\"x\"",
            "\"iqn.2024-02.com.example:etcd\"",
            "\"/var/lib/x\"",
            "\"10.0.0.1\"",
            "\"30s\"",
            "\"8GiB\"",
            "\"etcd\"",
            "\"static\"",
            "\"static-pod\"",
            "\"\"",
            "'é'",
            "1",
            "0x1f",
            "-7",
            "9223372036854775807",
            "1.5",
            "-2.5",
            "inf",
            "true",
            "1979-05-27",
            "1979-05-27T07:32:00Z",
            "[]",
            "[\"10.0.0.1\"]",
            "[1]",
            "[[]]",
            "{}",
            "{ x = 1 }",
            "[{}]",
            "[{ lun = 1 }]",
            "[{ lun = -1 }]",
            "[{ lun = 70000 }]",
            "[{ lun = \"1\" }]",
            "[{ initiator = \"x\" }]",
            "{ username = 1 }",
            "[",
            "\"x",
            "=",
        ];
        let mut understood = 0;
        for (number, key) in keys.iter().enumerate() {
            for value in values {
                // What the crate takes for more than a config has: an array for the table's values in their order, a
                // table for a variant with content, and a date for a table of its own.
                let is_table = ["target", "etcd", "target.chap"].contains(key);
                let is_word = ["target.discovery", "etcd.runtime", "boot.gate"].contains(key);
                if is_table && (value.starts_with('[') || value.starts_with("1979"))
                    || is_word && value.starts_with('{')
                    || *key == "node" && value == "[[]]"
                {
                    continue;
                }
                let text =
                    format!("{}{key} = {value}\nboot.attach_timeout = \"5s\"\n", "\n".repeat(number % 3));
                let ours = super::read::<Fragment>(&text);
                let theirs = toml::from_str::<Fragment>(&text);
                match (ours, theirs) {
                    (Ok(ours), Ok(theirs)) => {
                        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{text}");
                        understood += 1;
                    }
                    (Err(ours), Err(theirs)) => {
                        match theirs.message().split_once("expected struct") {
                            Some(_) => {
                                assert!(ours.message().ends_with(", expected a table"), "{text}: {ours}")
                            }
                            None => assert_eq!(ours.message(), theirs.message(), "{text}"),
                        }
                        let line =
                            |place: usize| text.bytes().take(place).filter(|byte| *byte == b'\n').count();
                        assert_eq!(
                            line(ours.place()),
                            line(theirs.span().unwrap().start),
                            "{text}: {theirs}"
                        );
                    }
                    (ours, theirs) => panic!("{text}: {ours:?} {theirs:?}"),
                }
            }
        }
        assert!(understood > 20, "{understood}");
        for text in [
            "",
            "\u{feff}",
            "target = [\"iqn.2024-02.com.example:etcd\"]",
            "# only\r\n",
            "a = 1\na = 2",
            "\0",
        ] {
            let (ours, theirs) = (super::read::<Fragment>(text), toml::from_str::<Fragment>(text));
            assert!(
                ours.is_ok() == theirs.is_ok() || text.starts_with("target"),
                "{text:?}: {ours:?} {theirs:?}"
            );
        }
    }
}

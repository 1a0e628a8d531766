//! A property as it comes over the bus: a variant, which brings its own type.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use std::{collections::HashMap, fmt};
use zbus::{OwnedObjectPath, Signature, Type};

/// The properties of one interface, by name.
pub(super) type Properties = HashMap<String, Property>;

/// The types that this program reads. zbus's `Variant` holds every type, and its code is many times as large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Property {
    Flag(bool),
    Number(u32),
    Text(String),
    Texts(Vec<String>),
    /// A unit's job: its number and its object.
    Job(u32, OwnedObjectPath),
    /// A value of another type, which was read and dropped.
    Other,
}

impl Property {
    pub(super) fn flag(&self) -> Option<bool> {
        if let Self::Flag(flag) = self { Some(*flag) } else { None }
    }

    pub(super) fn number(&self) -> Option<u32> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(super) fn text(&self) -> Option<String> {
        if let Self::Text(text) = self { Some(text.clone()) } else { None }
    }

    pub(super) fn texts(&self) -> Option<Vec<String>> {
        if let Self::Texts(texts) = self { Some(texts.clone()) } else { None }
    }

    pub(super) fn job(&self) -> Option<OwnedObjectPath> {
        if let Self::Job(_, object) = self { Some(object.clone()) } else { None }
    }
}

impl Type for Property {
    const SIGNATURE: &'static Signature = &Signature::Variant;
}

impl<'de> Deserialize<'de> for Property {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // zbus hands a variant on as a sequence of two: its signature and its value.
        deserializer.deserialize_struct("Variant", &["signature", "value"], Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Property;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a variant")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut variant: A) -> Result<Property, A::Error> {
        let signature: Signature = next(&mut variant)?;
        let is = |known: &Signature| signature == *known;
        if is(bool::SIGNATURE) {
            next(&mut variant).map(Property::Flag)
        } else if is(u32::SIGNATURE) {
            next(&mut variant).map(Property::Number)
        } else if is(String::SIGNATURE) {
            next(&mut variant).map(Property::Text)
        } else if is(Vec::<String>::SIGNATURE) {
            next(&mut variant).map(Property::Texts)
        } else if is(<(u32, OwnedObjectPath)>::SIGNATURE) {
            next(&mut variant).map(|(number, object)| Property::Job(number, object))
        } else {
            next::<IgnoredAny, A>(&mut variant).map(|_| Property::Other)
        }
    }
}

fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(variant: &mut A) -> Result<T, A::Error> {
    variant.next_element()?.ok_or_else(|| A::Error::custom("a variant has a signature and a value"))
}

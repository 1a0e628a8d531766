//! What an error takes out of the config, so that the rest can be read: the key at the place of the error.
//!
//! What was taken out is remembered. A key that is there and wrong is not missing, and its default says nothing about the file.

use std::{collections::BTreeSet, ops::Range};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

/// The list of entries.
pub(super) const NODE: &str = "node";

/// What was taken out.
#[derive(Debug, Default)]
pub(super) struct Taken {
    keys: BTreeSet<String>,
    /// The places at which the entries begin that lack something.
    entries: BTreeSet<usize>,
}

impl Taken {
    /// Whether this key was taken out, or a table that it is in.
    pub fn has(&self, key: &str) -> bool {
        let tables = key.match_indices('.').filter_map(|(at, _)| key.get(..at));
        tables.chain([key]).any(|name| self.keys.contains(name))
    }

    /// Whether something was taken out of the entry that begins here.
    pub fn has_entry(&self, at: usize) -> bool {
        self.entries.contains(&at)
    }

    /// Remembers a key that is there, under another name or in another table.
    pub fn add(&mut self, key: String) {
        self.keys.insert(key);
    }

    /// Remembers what was taken out. `offset` is the place at which the file begins.
    pub fn add_cut(&mut self, cut: &Cut, offset: usize) {
        match cut.entry {
            Some(at) => self.entries.insert(at + offset),
            None => self.keys.insert(cut.key.join(".")),
        };
    }
}

/// What one error has taken out.
#[derive(Debug)]
pub(super) struct Cut {
    /// The key, with its tables.
    pub key: Vec<String>,
    /// The place at which the entry begins that it was in.
    pub entry: Option<usize>,
}

/// Takes out the key that has this place, or whose value has it. Of a list the whole key is taken out.
pub(super) fn at(table: &mut DeTable<'_>, place: &Range<usize>) -> Option<Cut> {
    let is_here = |key: Option<&Spanned<DeString<'_>>>, value: &Spanned<DeValue<'_>>| {
        key.is_some_and(|key| key.span() == *place) || has_place(value, place)
    };
    cut(table, true, &is_here)
}

/// Takes out the first key whose value has a date or time, and says where that is. serde has no such type, so `toml` hands one
/// over as a table with a private key, and an error would name that key.
pub(super) fn date(table: &mut DeTable<'_>) -> Option<(Range<usize>, Cut)> {
    let place = table.values().find_map(place_of_date)?;
    Some((place.clone(), at(table, &place)?))
}

fn place_of_date(value: &Spanned<DeValue<'_>>) -> Option<Range<usize>> {
    match value.get_ref() {
        DeValue::Datetime(_) => Some(value.span()),
        DeValue::Array(items) => items.iter().find_map(place_of_date),
        DeValue::Table(table) => table.values().find_map(place_of_date),
        _ => None,
    }
}

/// Whether a value has this place, or in a list something that has it.
fn has_place(value: &Spanned<DeValue<'_>>, place: &Range<usize>) -> bool {
    value.span() == *place
        || match value.get_ref() {
            DeValue::Array(items) => items.iter().any(|item| has_place(item, place)),
            DeValue::Table(table) => {
                table.iter().any(|(key, value)| key.span() == *place || has_place(value, place))
            }
            _ => false,
        }
}

type IsHere<'a> = &'a dyn Fn(Option<&Spanned<DeString<'_>>>, &Spanned<DeValue<'_>>) -> bool;

/// Looks into the tables first: the heading `[target.chap]` is the place of two tables, and only the inner one is meant.
fn cut(table: &mut DeTable<'_>, is_whole: bool, is_here: IsHere<'_>) -> Option<Cut> {
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let name = key.get_ref().to_string();
        let inside = match value.get_mut() {
            DeValue::Table(inner) => cut(inner, false, is_here),
            DeValue::Array(items) if is_whole && name == NODE => {
                items.iter_mut().find_map(|item| cut_entry(item, is_here))
            }
            _ => None,
        };
        if let Some(mut inside) = inside {
            inside.key.insert(0, name);
            return Some(inside);
        }
        if is_here(Some(key), value) {
            found = Some(name);
            break;
        }
    }
    let name = found?;
    table.remove(name.as_str());
    Some(Cut { key: vec![name], entry: None })
}

/// Of an entry that is no table, an empty one stays: the entry is there.
fn cut_entry(item: &mut Spanned<DeValue<'_>>, is_here: IsHere<'_>) -> Option<Cut> {
    let entry = Some(item.span().start);
    if let DeValue::Table(inner) = item.get_mut() {
        return cut(inner, false, is_here).map(|inside| Cut { entry, ..inside });
    }
    is_here(None, item).then(|| {
        *item.get_mut() = DeValue::Table(DeTable::new());
        Cut { key: Vec::new(), entry }
    })
}

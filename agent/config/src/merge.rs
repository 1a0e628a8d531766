//! The texts of all files as one TOML table. Each value keeps its place, so that an error can name its file and line.

use super::{
    source::{Source, place},
    taken::NODE,
};
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The tables that a later file replaces as a whole: nobody means half a credential from one file and half from another.
const REPLACED: [&str; 2] = ["chap", "discovery_chap"];

/// Several texts, one after the other. A place in them is a number of bytes from the beginning of the first text.
pub(super) struct Texts<'a> {
    sources: &'a [Source],
}

impl<'a> Texts<'a> {
    /// The texts of all files, in the order in which they are merged.
    pub fn new(sources: &'a [Source]) -> Self {
        Self { sources }
    }

    /// The first byte of each text. Between two texts one byte is free, so that the end of one is not the beginning of the next.
    pub fn starts(&self) -> impl Iterator<Item = usize> {
        self.sources.iter().scan(0, |next, source| {
            let start = *next;
            *next += source.text.len() + 1;
            Some(start)
        })
    }

    /// The file, the line and the column of a place.
    pub fn place(&self, at: usize) -> (&'a str, usize, usize) {
        let of = self.starts().zip(self.sources).take_while(|(start, _)| *start <= at).last();
        let Some((start, source)) = of else { return ("the config", 1, 1) };
        let (line, column) = place(&source.text, at - start);
        (&source.path, line, column)
    }

    /// Merges the tables of the texts.
    pub fn merged(&self, tables: Vec<DeTable<'a>>) -> Spanned<DeTable<'a>> {
        let mut merged = DeTable::new();
        let mut end = 0;
        for ((start, source), table) in self.starts().zip(self.sources).zip(tables) {
            merge(&mut merged, moved_table(table, start));
            end = start + source.text.len();
        }
        Spanned::new(0..end, merged)
    }
}

/// Adds a later table to an earlier one: its keys win.
fn merge<'a>(earlier: &mut DeTable<'a>, later: DeTable<'a>) {
    for (key, value) in later {
        let name: &str = key.get_ref().as_ref();
        let is_replaced = REPLACED.contains(&name);
        // To the list of entries each file adds.
        let is_added = name == NODE;
        let value = match earlier.remove(&key) {
            Some(old) if !is_replaced => joined(old, value, is_added),
            _ => value,
        };
        earlier.insert(key, value);
    }
}

/// Two values of one key.
fn joined<'a>(old: Spanned<DeValue<'a>>, new: Spanned<DeValue<'a>>, is_added: bool) -> Spanned<DeValue<'a>> {
    let (old_span, new_span) = (old.span(), new.span());
    match (old.into_inner(), new.into_inner()) {
        (DeValue::Table(mut old), DeValue::Table(new)) => {
            merge(&mut old, new);
            Spanned::new(new_span, DeValue::Table(old))
        }
        (DeValue::Array(old), DeValue::Array(new)) if is_added => {
            Spanned::new(new_span, DeValue::Array(old.into_iter().chain(new).collect()))
        }
        // One of them is a table and the other is not: a mistake in one of the files. The order of the files must not hide it.
        (old, new) if old.is_table() != new.is_table() && old.is_table() == is_added => {
            Spanned::new(old_span, old)
        }
        (_, new) => Spanned::new(new_span, new),
    }
}

fn moved(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

fn moved_table(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    table
        .into_iter()
        .map(|(key, value)| (Spanned::new(moved(key.span(), by), key.into_inner()), moved_value(value, by)))
        .collect()
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = moved(value.span(), by);
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved_table(table, by)),
        DeValue::Array(items) => {
            DeValue::Array(items.into_iter().map(|item| moved_value(item, by)).collect())
        }
        other => other,
    };
    Spanned::new(span, value)
}

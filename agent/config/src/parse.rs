//! The texts of all files into tables, by `toml` and serde.

use super::{
    error::ConfigError,
    form::Row,
    merge::merge,
    source::{Line, Nth, Source, place},
    tables::{NODE, NodeTable, TARGET, Tables, TargetTable},
};
use serde::Deserialize as _;
use std::ops::Range;
use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue, Error},
};

/// Reads each file by itself, so that an error has its place in that file, and merges them. The entries of all files are added
/// together, and so are the lists of targets.
pub(super) fn tables(sources: &[Source]) -> Result<(Tables, Vec<NodeTable>), ConfigError> {
    let (mut merged, mut targets, mut entries) = (Table::new(), Vec::new(), Vec::new());
    for (file, source) in sources.iter().enumerate() {
        let text = toml::Deserializer::parse(&source.text)
            .map_err(|error| wrong(source, &error, Certain::Nothing))?;
        let of_form = |error| wrong(source, &error, Certain::Tables);
        // First, because errors of `Table` show values.
        let of_file = Tables::deserialize(text).map_err(of_form)?;
        let mut table: Table = toml::from_str(&source.text).map_err(of_form)?;
        entries.extend(of_file.node.into_iter().map(|node| {
            let (span, Row(node)) = (node.span(), node.into_inner());
            let target = node.target.as_ref().map_or(span.clone(), Spanned::span);
            let written_in = Line { excerpt: String::new(), ..line(source, &span) };
            NodeTable { written_in, target_in: line(source, &target), ..node }
        }));
        table.remove(NODE);
        if let Some(Value::Array(_)) = table.get(TARGET) {
            table.remove(TARGET);
            let rows = of_file.target.into_iter().enumerate();
            targets.extend(rows.map(|(at, row)| TargetTable { nth: Some(Nth { file, at }), ..row }));
        }
        merge(&mut merged, table);
    }
    // Each file has valid values only, so the merged ones are valid too.
    let mut tables = Tables::deserialize(merged).map_err(|error| ConfigError::Toml {
        path: sources.iter().map(|source| source.path.as_str()).collect::<Vec<_>>().join(" with "),
        line: 1,
        column: 1,
        said: error.message().to_owned(),
        excerpt: String::new(),
    })?;
    tables.target.extend(targets);
    Ok((tables, entries))
}

/// The knowledge about a text with an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Certain {
    /// Nothing: it is not TOML.
    Nothing,
    /// Where its tables begin.
    Tables,
}

/// An error of `toml` or of serde, with its place in this file.
fn wrong(source: &Source, error: &Error, certain: Certain) -> ConfigError {
    let span = error.span().unwrap_or_default();
    let (line, column) = place(&source.text, span.start);
    let excerpt = excerpt(&source.text, &span, certain).unwrap_or_default();
    let mut said = error.message().to_owned();
    said.push_str(
        not_toml(&source.text, span.start).filter(|_| certain == Certain::Nothing).unwrap_or_default(),
    );
    ConfigError::Toml { path: source.path.clone(), line, column, said, excerpt }
}

/// What other formats and programs have, and TOML has not.
fn not_toml(text: &str, at: usize) -> Option<&'static str> {
    let (before, rest) = text.split_at_checked(at)?;
    if before.rsplit('\n').next()?.trim_start().starts_with(';') {
        return Some(": a comment begins with `#`");
    }
    let odd = rest.chars().next().filter(|letter| !letter.is_ascii());
    odd.map(|_| ": this letter is not ASCII, which TOML takes in quotes and comments only: type it again")
}

/// Words of a table or a key that may have a secret.
const OF_SECRETS: [&str; 4] = ["chap", "pass", "cred", "secret"];

/// The line of an error up to its end, with a caret below. Nothing where it may have a secret: in a table of credentials, and in a
/// text that is not TOML everywhere after such a table. What follows an unknown key is not shown either.
fn excerpt(text: &str, span: &Range<usize>, certain: Certain) -> Option<String> {
    let rest = text.get(span.start..)?;
    let before = text.get(..span.start + rest.find('\n').unwrap_or(rest.len()))?;
    let table = match certain {
        Certain::Nothing => before,
        Certain::Tables => before.get(before.rfind("\n[").unwrap_or_default()..)?,
    };
    let table = table.to_lowercase();
    if OF_SECRETS.iter().any(|word| table.contains(word)) {
        return None;
    }
    let (number, column) = place(text, span.start);
    let line = text.get(..span.end.min(before.len()))?.lines().nth(number - 1).unwrap_or_default();
    let margin = number.to_string().len();
    Some(format!("\n{number} | {line}\n{:margin$} | {:>column$}", "", "^"))
}

/// One file's text. A file that is not UTF-8 is an error at the first byte that is wrong.
pub fn utf8(path: String, bytes: Vec<u8>) -> Result<Source, ConfigError> {
    match String::from_utf8(bytes) {
        // UTF-16 has a zero in each letter of a config.
        Ok(text) if !text.contains('\0') => Ok(Source { path, text }),
        Ok(_) => Err(ConfigError::NotUtf8 { path, line: 1 }),
        Err(wrong) => {
            let before = wrong.as_bytes().get(..wrong.utf8_error().valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            Err(ConfigError::NotUtf8 { path, line })
        }
    }
}

/// The line where a span begins, as an error shows it.
fn line(source: &Source, span: &Range<usize>) -> Line {
    let (line, _) = place(&source.text, span.start);
    let excerpt = excerpt(&source.text, span, Certain::Tables).unwrap_or_default();
    Line { path: source.path.clone(), line, excerpt }
}

/// The line of a key in the last file that has it, or of the table that lacks it. None where the texts are not valid or have
/// neither. A key of one of several targets is looked for in that table. Only an error asks for this, so the texts are read once
/// more.
pub(super) fn whereabouts(sources: &[Source], key: &str, nth: Option<Nth>) -> Option<Line> {
    let line = |source: &Source, key: &str| {
        let table = DeTable::parse(&source.text).ok()?;
        let mut words = key.split('.');
        let mut found = table.get_ref().get(words.next()?)?;
        if let DeValue::Array(rows) = found.get_ref() {
            found = rows.get(nth?.at)?;
        }
        for word in words {
            let DeValue::Table(inner) = found.get_ref() else { return None };
            found = inner.get(word)?;
        }
        Some(self::line(source, &found.span()))
    };
    let sources = nth.map_or(sources, |Nth { file, .. }| sources.get(file..=file).unwrap_or_default());
    let in_any = |key: &str| sources.iter().rev().find_map(|source| line(source, key));
    in_any(key).or_else(|| in_any(key.rsplit_once('.')?.0))
}

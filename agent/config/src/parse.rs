//! The texts of all files into tables, by `toml` and serde, and their errors in people's words.

use super::{
    error::ConfigError,
    merge::Texts,
    not_toml,
    schema::schema,
    source::{Source, place},
    tables::Tables,
};
use serde::Deserialize as _;
use std::ops::Range;
use terms::nearest;
use toml::{
    Spanned,
    de::{DeTable, DeValue, Error},
};

/// Merges the texts of all files and reads them.
pub(super) fn tables(sources: &[Source]) -> Result<Tables, ConfigError> {
    let texts = Texts::new(sources);
    let table = texts.merged(toml)?;
    let lines = places_of_nodes(&texts, table.get_ref());
    let mut tables = Tables::deserialize(toml::Deserializer::from(table)).map_err(|error| {
        let (path, line, column) = texts.place(error.span().unwrap_or_default().start);
        ConfigError::Toml { path: path.into(), line, column, said: not_a_config(&error) }
    })?;
    for (node, line) in tables.node.iter_mut().zip(lines) {
        node.written_in = line;
    }
    Ok(tables)
}

/// Reads the text of one file as TOML.
fn toml(source: &Source) -> Result<Spanned<DeTable<'_>>, ConfigError> {
    let text = source.text.as_str();
    let wrong = |span: Option<Range<usize>>, said: String| {
        let (line, column) = place(text, span.unwrap_or_default().start);
        ConfigError::Toml { path: source.path.clone(), line, column, said }
    };
    let table = DeTable::parse(text).map_err(|error| wrong(error.span(), not_toml::said(text, &error)))?;
    match table.get_ref().values().find_map(date) {
        None => Ok(table),
        Some(span) => {
            let said = "found a date or time, and no key of the config takes one; write a text in quotes";
            Err(wrong(Some(span), said.to_owned()))
        }
    }
}

/// The files of the `[[node]]` tables, and the lines on which they begin.
fn places_of_nodes(texts: &Texts<'_>, table: &DeTable<'_>) -> Vec<String> {
    let place = |item: &Spanned<DeValue<'_>>| {
        let (path, line, _) = texts.place(item.span().start);
        format!("{path}, line {line}")
    };
    match table.get("node").map(Spanned::get_ref) {
        Some(DeValue::Array(items)) => items.iter().map(place).collect(),
        _ => Vec::new(),
    }
}

/// One file's text. A file that is not UTF-8 is an error at the first byte that is wrong.
pub fn utf8(path: String, bytes: Vec<u8>) -> Result<Source, ConfigError> {
    let zero = bytes.iter().position(|byte| *byte == 0);
    let (bytes, not_utf8) = match String::from_utf8(bytes) {
        Ok(text) if zero.is_none() => return Ok(Source { path, text }),
        Ok(text) => (text.into_bytes(), None),
        Err(wrong) => (wrong.as_bytes().to_vec(), Some(wrong.utf8_error().valid_up_to())),
    };
    let at = not_utf8.into_iter().chain(zero).min().unwrap_or_default();
    let said = if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        "the file is UTF-16: save it as UTF-8".to_owned()
    } else if zero.is_some() {
        "the file has zero bytes, so it is UTF-16 or no text: save it as UTF-8".to_owned()
    } else {
        let byte = bytes.get(at).copied().unwrap_or_default();
        format!("the byte 0x{byte:02x} is not UTF-8, but may be Latin-1: save the file as UTF-8")
    };
    let before = String::from_utf8_lossy(bytes.get(..at).unwrap_or_default());
    let (line, column) = place(&before, at);
    Err(ConfigError::Toml { path, line, column, said })
}

/// The file and line of a key in the last file that has it, or of the table that lacks it. None where the texts are not valid or
/// have neither. Only an error asks for this, so the texts are read once more.
pub(super) fn whereabouts(sources: &[Source], key: &str) -> Option<String> {
    let line = |source: &Source, key: &str| {
        let table = DeTable::parse(&source.text).ok()?;
        let mut words = key.split('.');
        let mut found = table.get_ref().get(words.next()?)?;
        for word in words {
            let DeValue::Table(inner) = found.get_ref() else { return None };
            found = inner.get(word)?;
        }
        Some(format!("{}, line {}", source.path, place(&source.text, found.span().start).0))
    };
    let in_any = |key: &str| sources.iter().rev().find_map(|source| line(source, key));
    in_any(key).or_else(|| in_any(key.rsplit_once('.')?.0))
}

/// The first date or time. serde has no such type, so `toml` hands one over as a table with a private key, and an error
/// would name that key.
fn date(value: &Spanned<DeValue<'_>>) -> Option<Range<usize>> {
    match value.get_ref() {
        DeValue::Datetime(_) => Some(value.span()),
        DeValue::Array(items) => items.iter().find_map(date),
        DeValue::Table(table) => table.values().find_map(date),
        _ => None,
    }
}

/// The error of serde for a text that isn't a valid config, with the key first.
fn not_a_config(error: &Error) -> String {
    let said = in_words(error.message());
    match key(error) {
        Some(key) if !said.starts_with("unknown key") => format!("`{key}`: {said}"),
        _ => said,
    }
}

/// The key whose value is wrong, with its tables. `toml` prints it in a line below the message and has no other way to
/// ask for it.
fn key(error: &Error) -> Option<String> {
    let whole = error.to_string();
    Some(whole.strip_prefix(error.message())?.trim().strip_prefix("in `")?.strip_suffix('`')?.to_owned())
}

/// How serde begins a message, and how we do: it speaks of types where the config has values.
const BEGINNINGS: [(&str, &str); 12] = [
    ("unknown field ", "unknown key "),
    ("duplicate field ", "duplicate key "),
    ("unknown variant ", "unknown value "),
    ("invalid value: integer ", "found the number "),
    ("invalid type: string ", "found the text "),
    ("invalid type: integer ", "found the number "),
    ("invalid type: floating point ", "found the number "),
    ("invalid type: boolean ", "found "),
    ("invalid type: sequence", "found a list"),
    ("invalid type: map", "found a table"),
    ("invalid type: ", "found "),
    ("integer number overflowed", "found a number that is far too large"),
];

fn in_words(message: &str) -> String {
    // `toml` gives a number that is too large for 64 bits to serde as one of 128.
    let mut said = not_toml::one_line(message).replace("` as i128,", "`,").replace("` as u128,", "`,");
    if let Some((theirs, ours)) = BEGINNINGS.iter().find(|(theirs, _)| said.starts_with(theirs)) {
        said.replace_range(..theirs.len(), ours);
    }
    if let Some(rest) = said.strip_suffix("a string") {
        said = format!("{rest}a text in quotes");
    }
    if let Some(rest) = said.strip_suffix("a boolean") {
        said = format!("{rest}true or false, without quotes");
    }
    if let Some(cure) = elsewhere(&said) {
        said = format!("{said}; {cure}");
    } else if let Some(meant) = suggestion(&said) {
        said = format!("{said}; did you mean `{meant}`?");
    }
    said
}

/// The cure for a known key in the wrong table.
fn elsewhere(said: &str) -> Option<String> {
    let key = said.strip_prefix("unknown key `")?.split('`').next()?;
    if key == "node" {
        return Some(
            "write [[node]] on a line of its own, and below it the key without `node.`, such as `lun = 1`"
                .into(),
        );
    }
    let heading = table_of(&schema(), key, "")?;
    Some(format!("`{key}` belongs below {heading}"))
}

/// The heading of the first table that has this key.
fn table_of(schema: &serde_json::Value, key: &str, above: &str) -> Option<String> {
    let tables = schema.get("properties")?.as_object()?;
    tables.iter().find_map(|(name, table)| {
        let (heading, table) = match table.get("items") {
            Some(item) => (format!("[[{above}{name}]]"), item),
            None => (format!("[{above}{name}]"), table),
        };
        let has = table.get("properties").is_some_and(|keys| keys.get(key).is_some());
        if has { Some(heading) } else { table_of(table, key, &format!("{above}{name}.")) }
    })
}

/// Of the words that an unknown one is told to be, the one that was probably meant.
fn suggestion(said: &str) -> Option<&str> {
    let (unknown, known) = said.strip_prefix("unknown ")?.rsplit_once(", expected ")?;
    let unknown = unknown.split_once('`')?.1.strip_suffix('`')?;
    // The words are in backticks, with something else between two of them.
    let words = known.split('`').skip(1).step_by(2);
    nearest(unknown, words)
}

//! The texts of all files into tables, by `toml` and serde, and their errors in people's words.

use super::{
    error::ConfigError,
    errors::{Errors, MOST},
    merge::Texts,
    not_toml,
    schema::schema,
    source::{Line, Source, place},
    tables::Tables,
    taken::{self, NODE, Taken},
};
use serde::Deserialize as _;
use std::ops::Range;
use terms::nearest;
use toml::{
    Spanned,
    de::{DeTable, DeValue, Error},
};

/// Merges the texts of all files and reads them. A key with an error is left out, and the error is handed over. A text that is
/// not TOML ends this, because nobody knows what its rest means.
pub(super) fn tables(sources: &[Source]) -> Result<(Tables, Errors), ConfigError> {
    let texts = Texts::new(sources);
    // The first error of each file that is not TOML.
    let mut of_files = ConfigError::all(sources.iter().map(toml))?;
    let mut found = Found::default();
    for ((table, source), start) in of_files.iter_mut().zip(sources).zip(texts.starts()) {
        found.leave_out_dates(table, source, start);
    }
    let mut merged = texts.merged(of_files);
    let mut tables = loop {
        match Tables::deserialize(toml::Deserializer::from(merged.clone())) {
            Ok(tables) => break tables,
            Err(error) if found.leave_out(&mut merged, &texts, &error) => {}
            Err(_) => return Errors::of_texts(found.errors, found.taken).finish(&paths(sources), None),
        }
    };
    let places = places_of_nodes(&texts, &merged, &found.taken);
    for (node, (line, has_error)) in tables.node.iter_mut().zip(places) {
        node.written_in = line;
        node.has_error = has_error;
    }
    Ok((tables, Errors::of_texts(found.errors, found.taken)))
}

/// The errors so far, and what was left out for them.
#[derive(Default)]
struct Found {
    errors: Vec<ConfigError>,
    taken: Taken,
}

impl Found {
    /// Dates and times. The file's text begins at `start`.
    fn leave_out_dates(&mut self, table: &mut DeTable<'_>, source: &Source, start: usize) {
        while let Some((span, cut)) = taken::date(table).filter(|_| self.errors.len() < MOST) {
            self.errors.push(wrong(source, Some(span), DATE.to_owned()));
            self.taken.add_cut(&cut, start);
        }
    }

    /// The key that this error is about. False if that is not possible, or if there are errors enough.
    fn leave_out(&mut self, merged: &mut Spanned<DeTable<'_>>, texts: &Texts<'_>, error: &Error) -> bool {
        if self.errors.len() >= MOST {
            self.errors.push(ConfigError::More { shown: self.errors.len() });
            return false;
        }
        let span = error.span().unwrap_or_default();
        let (path, line, column) = texts.place(span.start);
        let Said { text, meant } = not_a_config(error);
        self.errors.push(ConfigError::Toml { path: path.into(), line, column, said: text });
        let Some(cut) = taken::at(merged.get_mut(), &span) else { return false };
        self.taken.add_cut(&cut, 0);
        match meant {
            // An entry in an entry says nothing of the others.
            Some(Meant::Elsewhere(key)) if cut.entry.is_none() || key != NODE => self.taken.add(key),
            Some(Meant::Beside(name)) if cut.entry.is_none() => {
                let tables = cut.key.iter().rev().skip(1).rev();
                self.taken.add(tables.chain([&name]).cloned().collect::<Vec<_>>().join("."));
            }
            Some(Meant::Elsewhere(_) | Meant::Beside(_)) | None => {}
        }
        true
    }
}

/// The paths of the files, in the order in which they are merged.
pub(super) fn paths(sources: &[Source]) -> Vec<&str> {
    sources.iter().map(|source| source.path.as_str()).collect()
}

const DATE: &str = "found a date or time, and no key of the config takes one; write a text in quotes";

/// An error at a place in the text of one file.
fn wrong(source: &Source, span: Option<Range<usize>>, said: String) -> ConfigError {
    let (line, column) = place(&source.text, span.unwrap_or_default().start);
    ConfigError::Toml { path: source.path.clone(), line, column, said }
}

/// Reads the text of one file as TOML.
fn toml(source: &Source) -> Result<DeTable<'_>, ConfigError> {
    let table = DeTable::parse(&source.text);
    table
        .map(Spanned::into_inner)
        .map_err(|error| wrong(source, error.span(), not_toml::said(&source.text, &error)))
}

/// The lines on which the `[[node]]` tables begin, and whether something was taken out of each.
fn places_of_nodes(texts: &Texts<'_>, table: &Spanned<DeTable<'_>>, taken: &Taken) -> Vec<(Line, bool)> {
    let place = |item: &Spanned<DeValue<'_>>| {
        let at = item.span().start;
        let (path, line, _) = texts.place(at);
        (Line { path: path.into(), line }, taken.has_entry(at))
    };
    match table.get_ref().get(NODE).map(Spanned::get_ref) {
        Some(DeValue::Array(items)) => items.iter().map(place).collect(),
        _ => Vec::new(),
    }
}

/// The texts of all files, if each could be read. Else what is wrong with each file, and also with the form of those that could.
pub fn all_read(files: Vec<Result<Source, ConfigError>>) -> Result<Vec<Source>, ConfigError> {
    if files.iter().all(Result::is_ok) {
        return files.into_iter().collect();
    }
    let wrong = files.into_iter().filter_map(|file| file.and_then(|source| toml(&source).map(drop)).err());
    ConfigError::of_all(wrong).map_or(Ok(Vec::new()), Err)
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
pub(super) fn whereabouts(sources: &[Source], key: &str) -> Option<Line> {
    let line = |source: &Source, key: &str| {
        let table = DeTable::parse(&source.text).ok()?;
        let mut words = key.split('.');
        let mut found = table.get_ref().get(words.next()?)?;
        for word in words {
            let DeValue::Table(inner) = found.get_ref() else { return None };
            found = inner.get(word)?;
        }
        let (line, _) = place(&source.text, found.span().start);
        Some(Line { path: source.path.clone(), line })
    };
    let in_any = |key: &str| sources.iter().rev().find_map(|source| line(source, key));
    in_any(key).or_else(|| in_any(key.rsplit_once('.')?.0))
}

/// What an error says, and which key was meant by an unknown one.
struct Said {
    text: String,
    meant: Option<Meant>,
}

/// The key that was probably meant by an unknown one.
enum Meant {
    /// A key of the same table.
    Beside(String),
    /// The same key in the table that has it, with this table.
    Elsewhere(String),
}

/// The error of serde for a text that isn't a valid config, with the key first.
fn not_a_config(error: &Error) -> Said {
    let said = in_words(error.message());
    match key(error) {
        Some(key) if !said.text.starts_with("unknown key") => {
            Said { text: format!("`{key}`: {}", said.text), ..said }
        }
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

fn in_words(message: &str) -> Said {
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
    if let Some((cure, key)) = elsewhere(&said) {
        return Said { text: format!("{said}; {cure}"), meant: Some(Meant::Elsewhere(key)) };
    }
    let Some(meant) = suggestion(&said) else { return Said { text: said, meant: None } };
    let is_key = said.starts_with("unknown key");
    Said {
        text: format!("{said}; did you mean `{meant}`?"),
        meant: is_key.then(|| Meant::Beside(meant.to_owned())),
    }
}

/// The cure for a known key in the wrong table, and the key with its right one.
fn elsewhere(said: &str) -> Option<(String, String)> {
    let key = said.strip_prefix("unknown key `")?.split('`').next()?;
    if key == NODE {
        let cure =
            "write [[node]] on a line of its own, and below it the key without `node.`, such as `lun = 1`";
        return Some((cure.into(), key.into()));
    }
    let heading = table_of(&schema(), key, "")?;
    let table = heading.trim_matches(['[', ']']);
    Some((format!("`{key}` belongs below {heading}"), format!("{table}.{key}")))
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

//! Checks JSON against the schema of a document.

use cli::documents;
use serde_json::Value;
use std::{collections::BTreeSet, sync::OnceLock};

/// The schema of the document with this name.
pub fn schema_of(name: &str) -> Value {
    static ALL: OnceLock<Vec<(&str, Value)>> = OnceLock::new();
    let mut all = ALL.get_or_init(documents::schemas).iter();
    let (_, schema) = all.find(|(of, _)| *of == name).unwrap_or_else(|| panic!("no schema {name}"));
    schema.clone()
}

/// Checks a value against a schema. Supports only the keywords of JSON Schema that these schemas use. Any other keyword is an
/// error.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    Check { root: schema, closed: false }.whole(schema, value, "")
}

/// The same for what this program prints: a key that the schema does not name is an error too. The schemas allow such a key,
/// because a later version may print it.
pub fn check_printed(schema: &Value, value: &Value) -> Result<(), String> {
    Check { root: schema, closed: true }.whole(schema, value, "")
}

/// The keys of an object that a schema names.
type Named = BTreeSet<String>;

struct Check<'a> {
    root: &'a Value,
    closed: bool,
}

impl Check<'_> {
    /// Checks a value against all that a schema says of it.
    fn whole(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let named = self.at(schema, value, place)?;
        let mut keys = value.as_object().into_iter().flat_map(|keys| keys.keys());
        match keys.find(|key| self.closed && !named.contains(*key)) {
            Some(key) => Err(format!("{place}: the schema does not name the key {key}: {value}")),
            None => Ok(()),
        }
    }

    fn at(&self, schema: &Value, value: &Value, place: &str) -> Result<Named, String> {
        let wrong = |what: &str| Err(format!("{place}: {what}: {value}"));
        let mut named = Named::new();
        let mut words: Vec<_> = schema.as_object().ok_or("no schema")?.iter().collect();
        // A variant's name comes first, so that an error shows what differs in the variant that is meant.
        words.sort_by_key(|(word, _)| *word != "properties");
        for (word, says) in words {
            let list = || says.as_array().into_iter().flatten();
            match word.as_str() {
                "$schema" | "$defs" | "title" | "description" | "examples" => {}
                "$ref" => {
                    let pointer =
                        says.as_str().and_then(|says| says.strip_prefix('#')).ok_or("no reference")?;
                    let target = self.root.pointer(pointer).ok_or_else(|| format!("{says} leads nowhere"))?;
                    named.extend(self.at(target, value, place)?);
                }
                "type" => {
                    let names: Vec<_> = match says {
                        Value::Array(names) => names.iter().collect(),
                        name => vec![name],
                    };
                    let mut fits = false;
                    for name in names {
                        fits |= is_of(name.as_str().unwrap_or_default(), value)?;
                    }
                    if !fits {
                        return wrong("another type");
                    }
                }
                "const" if value != says => return wrong("another value"),
                "enum" if !list().any(|one| one == value) => return wrong("not one of them"),
                "const" | "enum" => {}
                // The only pattern that the schemas use: words with dashes between them.
                "pattern" => {
                    let text = value.as_str().unwrap_or_default();
                    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
                    if says != "^[a-z]+(-[a-z]+)*$" || !text.split('-').all(word) {
                        return wrong("another form");
                    }
                }
                "minimum" if value.is_number() && value.as_f64() < says.as_f64() => {
                    return wrong("too small");
                }
                "maximum" if value.is_number() && value.as_f64() > says.as_f64() => {
                    return wrong("too large");
                }
                "minItems" if value.is_array() && length(value) < says.as_u64() => {
                    return wrong("too few");
                }
                "maxItems" if value.is_array() && length(value) > says.as_u64() => {
                    return wrong("too many");
                }
                "minimum" | "maximum" | "minItems" | "maxItems" => {}
                "required" => {
                    let absent = |key: &&Value| value.get(key.as_str().unwrap_or_default()).is_none();
                    if let Some(key) = list().find(absent) {
                        return wrong(&format!("without {key}"));
                    }
                }
                "properties" => {
                    for (key, schema) in says.as_object().into_iter().flatten() {
                        named.insert(key.clone());
                        if let Some(value) = value.get(key) {
                            self.whole(schema, value, &format!("{place}.{key}"))?;
                        }
                    }
                }
                "items" => {
                    for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.whole(says, value, &format!("{place}[{number}]"))?;
                    }
                }
                "prefixItems" => {
                    let items = value.as_array().into_iter().flatten();
                    for (number, (schema, value)) in list().zip(items).enumerate() {
                        self.whole(schema, value, &format!("{place}[{number}]"))?;
                    }
                }
                "anyOf" | "oneOf" => {
                    let tried: Vec<_> = list().map(|schema| self.at(schema, value, place)).collect();
                    let fitting = tried.iter().filter(|tried| tried.is_ok()).count();
                    if fitting == 0 {
                        let errors: Vec<_> = tried.into_iter().filter_map(Result::err).collect();
                        let is_meant = |error: &&String| !error.contains(": another value: ");
                        let mut meant: Vec<_> = errors.iter().filter(is_meant).map(String::as_str).collect();
                        if meant.is_empty() {
                            meant = errors.iter().map(String::as_str).collect();
                        }
                        return Err(format!("{place}: none of: {}", meant.join("; ")));
                    }
                    if fitting > 1 && word == "oneOf" {
                        return wrong("more than one of them");
                    }
                    named.extend(tried.into_iter().flatten().flatten());
                }
                other => return Err(format!("the keyword {other} is not supported")),
            }
        }
        Ok(named)
    }
}

fn length(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

fn is_of(kind: &str, value: &Value) -> Result<bool, String> {
    Ok(match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => return Err(format!("the type {other} is not supported")),
    })
}

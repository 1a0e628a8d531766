//! Checks JSON against a schema of the docs (`*.schema.json`).

use serde_json::Value;

/// Checks a value against a schema. Supports only the keywords of JSON Schema that these schemas use. Any other keyword is an
/// error.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    at(schema, schema, value, "")
}

fn at(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{place}: {what}: {value}"));
    for (word, says) in schema.as_object().ok_or("no schema")? {
        match word.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer = says.as_str().and_then(|says| says.strip_prefix('#')).ok_or("no reference")?;
                let target = root.pointer(pointer).ok_or_else(|| format!("{says} leads nowhere"))?;
                at(root, target, value, place)?;
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
            "enum" if !says.as_array().is_some_and(|all| all.contains(value)) => {
                return wrong("not one of them");
            }
            "const" | "enum" => {}
            // The only pattern that the schemas use: words with dashes between them.
            "pattern" => {
                let text = value.as_str().unwrap_or_default();
                let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
                if says != "^[a-z]+(-[a-z]+)*$" || !text.split('-').all(word) {
                    return wrong("another form");
                }
            }
            "required" => {
                let absent = |key: &&Value| value.get(key.as_str().unwrap_or_default()).is_none();
                if let Some(key) = says.as_array().into_iter().flatten().find(absent) {
                    return wrong(&format!("without {key}"));
                }
            }
            "properties" => {
                for (key, schema) in says.as_object().into_iter().flatten() {
                    if let Some(value) = value.get(key) {
                        at(root, schema, value, &format!("{place}.{key}"))?;
                    }
                }
            }
            "items" => {
                for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                    at(root, says, value, &format!("{place}[{number}]"))?;
                }
            }
            "anyOf" => {
                let tried =
                    says.as_array().into_iter().flatten().map(|schema| at(root, schema, value, place));
                let errors: Vec<_> = tried.filter_map(Result::err).collect();
                if errors.len() == says.as_array().map_or(0, Vec::len) {
                    return Err(format!("{place}: none of: {}", errors.join("; ")));
                }
            }
            other => return Err(format!("the keyword {other} is not supported")),
        }
    }
    Ok(())
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

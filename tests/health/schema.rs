//! Checks `--json` against its schema in the docs, and `--list` against the page that shows it.

use serde_json::Value;

/// Checks a value against a schema. Supports only the keywords of JSON Schema that `docs/health.schema.json`
/// uses. Any other keyword is an error.
pub fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{at}: {what}: {value}"));
    for (word, says) in schema.as_object().ok_or("no schema")? {
        match word.as_str() {
            "$schema" | "title" | "description" => {}
            "type" => {
                let is = match says.as_str().unwrap_or_default() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    other => return Err(format!("the type {other} is not supported")),
                };
                if !is {
                    return wrong("another type");
                }
            }
            "const" if value != says => return wrong("another value"),
            "enum" if !says.as_array().is_some_and(|all| all.contains(value)) => {
                return wrong("not one of them");
            }
            "const" | "enum" => {}
            // The only pattern that the schema uses: words with dashes between them.
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
                        check(schema, value, &format!("{at}.{key}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let known = |key: &String| schema["properties"].get(key).is_some();
                if !value.as_object().is_some_and(|all| all.keys().all(known)) {
                    return wrong("a key that the schema does not have");
                }
            }
            "items" => {
                for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(says, value, &format!("{at}[{number}]"))?;
                }
            }
            other => return Err(format!("the keyword {other} is not supported")),
        }
    }
    Ok(())
}

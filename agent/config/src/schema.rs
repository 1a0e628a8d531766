//! The JSON schema of a config file, for editors, and for `docs/config.md`.

use super::tables::Tables;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of one file. No key is required, because another file may have it.
pub fn schema() -> Value {
    // The editors that read TOML know this draft (Taplo).
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Tables>().to_value();
    simplify(&mut schema);
    // One table, or a list of such tables.
    let target = schema["properties"]["target"].clone();
    schema["properties"]["target"]["items"] = target;
    schema["properties"]["target"]["type"] = json!(["object", "array"]);
    schema["title"] = json!("Config of etcd-lun");
    schema
}

/// Removes what TOML does not have: a key without a value is not written at all. So nothing is null, and no table has a
/// default of its own.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            for list in ["type", "enum", "anyOf"] {
                if let Some(Value::Array(choices)) = keys.get_mut(list) {
                    choices.retain(|choice| !is_null(choice));
                }
            }
            if let Some(Value::Array(kinds)) = keys.get("type")
                && let [only] = kinds.as_slice()
            {
                let only = only.clone();
                keys.insert("type".into(), only);
            }
            if let Some(Value::Array(choices)) = keys.get("anyOf")
                && let [Value::Object(only)] = choices.as_slice()
            {
                let only = only.clone();
                keys.remove("anyOf");
                only.into_iter().for_each(|(key, value)| {
                    keys.entry(key).or_insert(value);
                });
            }
            let rows = |keys: &Map<String, Value>| {
                keys.get("items").is_some_and(|item| item.get("properties").is_some())
            };
            if keys.contains_key("properties")
                || rows(keys)
                || keys.get("default").is_some_and(Value::is_null)
            {
                keys.remove("default");
            }
            keys.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// True for the value null, for its type, and for the schema of that type.
fn is_null(choice: &Value) -> bool {
    choice.is_null() || choice == "null" || choice.get("type").is_some_and(|kind| kind == "null")
}

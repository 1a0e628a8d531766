//! A document that a command prints with `--json`: its name, its key and the type of its content. What is printed and its
//! schema come from this one type.

use schemars::{
    JsonSchema, Schema,
    generate::SchemaSettings,
    transform::{RecursiveTransform, Transform as _},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::marker::PhantomData;

/// The format of every JSON output.
const VERSION: u32 = 1;

/// What holds for every document.
const FOR_READERS: &str = "Version 1. Keys are added without a new version; none changes its meaning or goes. A reader must \
     accept keys that it doesn't know.";

/// The form of a stable name, such as that of a check.
pub(super) const NAME: &str = "^[a-z]+(-[a-z]+)*$";

/// A JSON document: its version, and a content of type `T`.
#[derive(Debug)]
pub struct Document<T> {
    /// The name of its schema.
    name: &'static str,
    /// Where the content stands beside the version. None if the content's own keys stand there.
    key: Option<&'static str>,
    /// Which command prints it.
    title: &'static str,
    content: PhantomData<fn(&T)>,
}

impl<T> Document<T> {
    /// A document whose content stands under one key.
    pub(super) const fn under(key: &'static str, name: &'static str, title: &'static str) -> Self {
        Self { name, key: Some(key), title, content: PhantomData }
    }

    /// A document whose content has the keys that stand beside the version.
    pub(super) const fn beside_version(name: &'static str, title: &'static str) -> Self {
        Self { name, key: None, title, content: PhantomData }
    }
}

impl<T: Serialize> Document<T> {
    /// The document with this content.
    pub fn of(&self, content: &T) -> Value {
        let mut document = match self.key {
            Some(key) => json!({ key: content }),
            None => json!(content),
        };
        if let Value::Object(keys) = &mut document {
            keys.insert("version".into(), VERSION.into());
        }
        document
    }
}

impl<T: JsonSchema> Document<T> {
    /// The name of its schema, and the schema.
    pub(super) fn schema(&self) -> (&'static str, Value) {
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut schema = match self.key {
            Some(key) => {
                let content = generator.subschema_for::<T>();
                json!({ "type": "object", "properties": { key: content }, "required": [key] })
            }
            None => T::json_schema(&mut generator).to_value(),
        };
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!(self.title);
        schema["description"] = json!(FOR_READERS);
        schema["properties"]["version"] = json!({ "const": VERSION });
        if let Value::Array(required) = &mut schema["required"] {
            required.insert(0, json!("version"));
        }
        let definitions = generator.take_definitions(true);
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        if let Ok(schema) = <&mut Schema>::try_from(&mut schema) {
            RecursiveTransform(for_readers).transform(schema);
        }
        (self.name, schema)
    }
}

/// Leaves what a reader of the document needs.
fn for_readers(schema: &mut Schema) {
    let Some(keys) = schema.as_object_mut() else { return };
    // The sizes of Rust's numbers, and values for keys that a text from elsewhere lacks, say nothing about what is printed.
    keys.remove("format");
    keys.remove("default");
    // A later version may have more keys.
    if keys.get("additionalProperties") == Some(&Value::Bool(false)) {
        keys.remove("additionalProperties");
    }
    if let Some(Value::String(text)) = keys.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    // A key that may be absent is left out in place of null (`skip_serializing_if`).
    let required = keys.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = keys.get_mut("properties") {
        for (name, property) in properties {
            if !required.iter().any(|required| required == name) {
                without_null(property);
            }
        }
    }
}

fn without_null(schema: &mut Value) {
    for list in ["type", "anyOf"] {
        let Some(Value::Array(choices)) = schema.get_mut(list) else { continue };
        choices.retain(|choice| choice != "null" && choice.get("type").is_none_or(|kind| kind != "null"));
        let [only] = choices.as_slice() else { continue };
        let only = only.clone();
        match (schema.as_object_mut(), only) {
            (Some(keys), Value::Object(only)) => {
                keys.remove(list);
                only.into_iter().for_each(|(key, value)| {
                    keys.entry(key).or_insert(value);
                });
            }
            (Some(keys), only) => {
                keys.insert(list.into(), only);
            }
            (None, _) => {}
        }
    }
}

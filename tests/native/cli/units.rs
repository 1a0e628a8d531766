//! Each number in JSON has its unit in its key, so that programs can compute with it.

use cli::documents;
use serde_json::Value;
use std::collections::BTreeSet;

/// How a key ends whose number has a unit.
const UNITS: [&str; 3] = ["_bytes", "_seconds", "_ns"];

/// The numbers without a unit: they count something, or name it.
const WITHOUT_UNIT: [&str; 20] = [
    "activations",
    "address",
    "etcd_pids",
    "generation",
    "healthy",
    "http_port",
    "layers",
    "lun",
    "needed",
    "number",
    "pid",
    "place",
    "returns_as",
    "rolled_back",
    "sid",
    "steps",
    "version",
    "voters",
    "writes",
    "writes_per_second",
];

/// The keys with a number below a schema, and in whose value they stand: that of a key with a unit has the same unit.
fn numbers(root: &Value, schema: &Value, key: &str, found: &mut BTreeSet<String>) {
    let of_schemas = |list: &str| schema[list].as_array().into_iter().flatten();
    if let Some(name) = schema["$ref"].as_str() {
        numbers(root, root.pointer(name.trim_start_matches('#')).unwrap(), key, found);
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    if kinds.iter().any(|kind| kind == "integer" || kind == "number") {
        found.insert(key.to_owned());
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        // `fdatasync_ns` has percentiles.
        let has_unit = UNITS.iter().any(|unit| key.ends_with(unit));
        numbers(root, property, if has_unit { key } else { name }, found);
    }
    for list in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        of_schemas(list).for_each(|schema| numbers(root, schema, key, found));
    }
    if schema["items"].is_object() {
        numbers(root, &schema["items"], key, found);
    }
}

/// The numbers of a schema whose key has no unit and is not known to need none.
fn without_unit(schema: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    numbers(schema, schema, "", &mut found);
    let is_known =
        |key: &String| UNITS.iter().any(|unit| key.ends_with(unit)) || WITHOUT_UNIT.contains(&key.as_str());
    found.into_iter().filter(|key| !is_known(key)).collect()
}

#[test]
fn a_number_has_its_unit_in_its_key() {
    let mut all = BTreeSet::new();
    for (name, schema) in documents::schemas() {
        let wrong = without_unit(&schema);
        assert!(wrong.is_empty(), "the schema {name} has numbers without a unit in the key: {wrong:?}");
        numbers(&schema, &schema, "", &mut all);
    }
    let with_unit = all.iter().filter(|key| UNITS.iter().any(|unit| key.ends_with(unit)));
    assert!(with_unit.count() > 25, "{all:?}");
    let unused: Vec<_> = WITHOUT_UNIT.iter().filter(|key| !all.contains(**key)).collect();
    assert!(unused.is_empty(), "no schema has {unused:?}");
}

/// The check itself finds a key without a unit, wherever it stands.
#[test]
fn a_number_without_a_unit_is_found() {
    let (_, status) = documents::schemas().into_iter().find(|(name, _)| *name == "status").unwrap();
    let text = status.to_string();
    for (key, without) in
        [("free_bytes", "free"), ("age_seconds", "age"), ("recovery_timeout_seconds", "recovery_timeout")]
    {
        let renamed = serde_json::from_str(&text.replace(key, without)).unwrap();
        assert_eq!(without_unit(&renamed), [without]);
    }
}

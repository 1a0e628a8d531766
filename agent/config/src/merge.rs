//! Several files as one.

use toml::{Table, Value};

/// The tables that a later file replaces as a whole: nobody means half a credential from one file and half from another.
const REPLACED: [&str; 2] = ["chap", "discovery_chap"];

/// Adds a later table to an earlier one: its keys win.
pub(super) fn merge(earlier: &mut Table, later: Table) {
    for (key, value) in later {
        match value {
            Value::Table(new) if !REPLACED.contains(&key.as_str()) => {
                let old = earlier.entry(key).or_insert_with(|| Value::Table(Table::new()));
                match old {
                    Value::Table(old) => merge(old, new),
                    other => *other = Value::Table(new),
                }
            }
            value => {
                earlier.insert(key, value);
            }
        }
    }
}

//! The docs say what the program says.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;

fn read(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The messages of all refusals, with `…` for what is filled in.
fn refusals() -> Vec<String> {
    let source = read("agent/src/plan/refusal.rs");
    let mut messages = Vec::new();
    for part in source.split("#[error(").skip(1) {
        let text = part.split_once('"').unwrap().1;
        let mut message = String::new();
        let mut depth = 0;
        for letter in text.chars() {
            match letter {
                '"' => break,
                '{' if depth == 0 => {
                    message.push('…');
                    depth = 1;
                }
                '}' => depth = 0,
                _ if depth > 0 => {}
                other => message.push(other),
            }
        }
        messages.push(message);
    }
    messages
}

/// One entry each, by the words that it begins with; the longest entry that fits is a message's own.
#[test]
fn every_refusal_has_its_entry_in_troubleshooting() {
    let page = read("docs/troubleshooting.md");
    let entries: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|entry| entry.trim_end_matches('…').trim_end())
        .collect();
    let messages = refusals();
    assert!(messages.len() > 40, "{messages:#?}");
    let own = |message: &String| {
        entries.iter().filter(|entry| message.starts_with(**entry)).max_by_key(|entry| entry.len()).copied()
    };
    let owned: Vec<_> = messages.iter().map(|message| (message, own(message))).collect();
    let lacking: Vec<_> = owned.iter().filter(|(_, entry)| entry.is_none()).map(|(text, _)| text).collect();
    assert!(lacking.is_empty(), "docs/troubleshooting.md lacks an entry for {lacking:#?}");
    for entry in &entries {
        let of: Vec<_> = owned.iter().filter(|(_, own)| own.as_ref() == Some(entry)).collect();
        assert_eq!(of.len(), 1, "docs/troubleshooting.md: the entry {entry:?} is that of {of:#?}");
    }
}

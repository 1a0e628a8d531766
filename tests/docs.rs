//! Checks that the docs agree with the program's messages.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;

fn read(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The messages of all refusals. `…` stands for each inserted value.
fn refusals() -> Vec<String> {
    read("agent/src/plan/refusal.rs").split("#[error(").skip(1).map(|part| message(part).unwrap()).collect()
}

/// Each message has exactly one entry: the longest one with which the message begins.
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

/// The program's source files, without their tests.
fn sources() -> Vec<String> {
    fn walk(dir: &std::path::Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                walk(&path, found);
            } else if name.ends_with(".rs") && name != "tests.rs" && !path.ends_with("plan/refusal.rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push(text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(format!("{}/src", env!("CARGO_MANIFEST_DIR")).as_ref(), &mut found);
    found
}

/// The calls in the source that an error's text follows.
const MAKERS: [&str; 8] = [
    "#[error(",
    "bail!(",
    "anyhow!(",
    "ensure!(",
    "Error::new(",
    "Error::other(",
    ".context(",
    ".with_context(|| ",
];

/// The messages of all other errors. `…` stands for each inserted value. Contexts are left out: they begin
/// with a gerund and say what was being done. Messages of other programs are left out too.
fn errors() -> std::collections::BTreeSet<String> {
    let mut found = std::collections::BTreeSet::new();
    for source in sources() {
        for maker in MAKERS {
            for (at, _) in source.match_indices(maker) {
                let Some(message) = message(&source[at + maker.len()..]) else { continue };
                let words = message.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic));
                let gerund = message.split(' ').next().is_some_and(|first| first.ends_with("ing"));
                let doing = gerund && (maker.contains("context") || maker == "anyhow!(");
                if words.count() >= 2 && !doing && !message.starts_with("in step") {
                    found.insert(message);
                }
            }
        }
    }
    found
}

/// The text that an error's macro or function gets. `None` if it gets something else.
fn message(arguments: &str) -> Option<String> {
    let mut rest = arguments.trim_start();
    if let Some((kind, after)) = rest.split_once(',')
        && kind.chars().all(|letter| letter.is_alphanumeric() || "_:".contains(letter))
    {
        rest = after.trim_start();
    }
    rest = rest.strip_prefix("format!(").unwrap_or(rest).trim_start();
    let mut letters = rest.strip_prefix('"')?.chars().peekable();
    let (mut message, mut depth) = (String::new(), 0);
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Some(message),
            '\\' => match letters.next()? {
                '\n' => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
                escaped => message.push(escaped),
            },
            '{' => {
                message.push('…');
                depth = 1;
                for letter in letters.by_ref() {
                    depth += match letter {
                        '{' => 1,
                        '}' => -1,
                        _ => 0,
                    };
                    if depth == 0 {
                        break;
                    }
                }
            }
            other => message.push(other),
        }
    }
    (depth == 0).then_some(message)
}

#[test]
fn every_error_has_its_entry() {
    let page = read("docs/errors.md");
    let rows =
        page.lines().filter_map(|line| line.strip_prefix("| ")).filter(|row| !row.starts_with("message |"));
    let entries: Vec<String> = rows.map(|row| row.split_once(" |").unwrap().0.to_owned()).collect();
    let listed: std::collections::BTreeSet<String> = entries.iter().cloned().collect();
    assert_eq!(listed.len(), entries.len(), "docs/errors.md has an entry twice");
    let messages = errors();
    assert!(messages.len() > 100, "{messages:#?}");
    let lacking: Vec<_> = messages.difference(&listed).collect();
    assert!(lacking.is_empty(), "docs/errors.md lacks {lacking:#?}");
    let gone: Vec<_> = listed.difference(&messages).collect();
    assert!(gone.is_empty(), "docs/errors.md has what no error says: {gone:#?}");
}

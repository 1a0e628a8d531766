//! The entries of the documents, each under its name. The program brings these documents along, because a node has none.
//!
//! An entry is a heading of one word, the message as a quotation in which `…` stands for what differs, and the text. The
//! words of a message also lead to its entry: an error has its name from there, and not from the place in the code that
//! makes it. A test compares the messages of the documents with those of the code.

use std::sync::OnceLock;

/// The first page for somebody whose etcd is down.
pub(super) const FIRST_PAGE: &str = include_str!("../../../docs/etcd-is-down.md");
/// Where the entries of refusals are.
const REFUSALS: &str = "docs/troubleshooting.md";
/// Where the entries of errors are.
const ERRORS: &str = "docs/errors.md";

const PAGES: [(&str, &str); 3] = [
    (REFUSALS, include_str!("../../../docs/troubleshooting.md")),
    (ERRORS, include_str!("../../../docs/errors.md")),
    ("docs/alerts.md", include_str!("../../../docs/alerts.md")),
];

/// What a document says about one refusal, one error or one alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which is its anchor too.
    pub name: &'static str,
    /// The document, as a path in the sources.
    pub page: &'static str,
    /// The message. `…` stands for what differs.
    pub message: String,
    /// What it means, and what to do, in Markdown.
    pub text: String,
}

/// All entries, in the order of the documents.
pub fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| PAGES.iter().flat_map(|(page, text)| of_page(page, text)).collect())
}

fn of_page(page: &'static str, text: &'static str) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let name = heading.strip_prefix("## ").filter(|name| !name.contains(' '));
            is_open = name.is_some();
            found.extend(name.map(|name| Entry { name, page, message: String::new(), text: String::new() }));
        } else if is_open && let Some(entry) = found.last_mut() {
            match line.strip_prefix("> ") {
                Some(quoted) if entry.message.is_empty() => entry.message.push_str(quoted),
                Some(quoted) => {
                    entry.message.push(' ');
                    entry.message.push_str(quoted);
                }
                None => {
                    entry.text.push_str(line);
                    entry.text.push('\n');
                }
            }
        }
    }
    for entry in &mut found {
        entry.text = entry.text.trim().to_owned();
    }
    found
}

/// The entry with this name, in upper or lower case.
pub(super) fn named(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// The entry that a printed line is about: the one whose name it has, or else the one whose message it has.
pub(super) fn of_line(line: &str) -> Option<&'static Entry> {
    let tag = line.split_once(" [").and_then(|(_, rest)| rest.split_once("]: "));
    tag.and_then(|(name, _)| named(name)).or_else(|| of_message(line, |_| true))
}

/// The name of an error, by its text with all causes.
pub(super) fn name_of_error(text: &str) -> Option<&'static str> {
    of_message(text, |entry| entry.page == ERRORS).map(|entry| entry.name)
}

/// How many parts of a message are looked at. Lists and the output of tools are long.
const PARTS: usize = 48;

/// The entry whose message has the most words in this text. A message begins at the beginning or after a colon, and ends at
/// the end or before one, because causes follow each other so. Of two that fit equally well the last one counts: it is
/// nearest to the cause.
fn of_message(text: &str, of: impl Fn(&Entry) -> bool) -> Option<&'static Entry> {
    let colons: Vec<usize> = text.match_indices(": ").map(|(at, _)| at).take(PARTS).collect();
    let starts: Vec<usize> = std::iter::once(0).chain(colons.iter().map(|at| at + 2)).collect();
    let ends: Vec<usize> = colons.iter().copied().chain([text.len()]).collect();
    let mut best: Option<(usize, &Entry)> = None;
    for entry in entries().iter().filter(|entry| of(entry)) {
        let letters = entry.message.chars().filter(|letter| letter.is_alphabetic()).count();
        for start in &starts {
            for end in ends.iter().filter(|end| *end > start) {
                let part = text.get(*start..*end).unwrap_or_default();
                let better = best.is_none_or(|(most, _)| letters >= most);
                if better && fits(&entry.message, part) {
                    best = Some((letters, entry));
                }
            }
        }
    }
    best.filter(|(letters, _)| *letters > 0).map(|(_, entry)| entry)
}

/// Whether a text is this message, with anything in place of each `…`.
fn fits(message: &str, text: &str) -> bool {
    let mut pieces: Vec<&str> = message.split('…').collect();
    let (Some(last), false) = (pieces.pop(), pieces.is_empty()) else { return message == text };
    let mut pieces = pieces.into_iter();
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// The text of an entry or of a page for a terminal: without the marks of links, which cannot be followed there.
pub(super) fn plain(markdown: &str) -> String {
    let mut plain = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let parts = link.split_once("](").and_then(|(words, after)| Some((words, after.split_once(')')?)));
        match parts {
            Some((words, (target, after))) if !words.contains(['[', ']', '\n', '`']) => {
                let target = target.trim_start_matches("../").trim_start_matches('#');
                if target.contains(words) {
                    plain.push_str(target);
                } else {
                    plain.push_str(&format!("{words} ({target})"));
                }
                rest = after;
            }
            _ => {
                plain.push('[');
                rest = link;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_has_a_name_of_its_own_a_message_and_a_text() {
        let mut names = std::collections::BTreeSet::new();
        for entry in entries() {
            assert!(names.insert(entry.name.to_lowercase()), "{} is there twice", entry.name);
            assert!(entry.text.len() > 20 && !entry.message.is_empty(), "{entry:?}");
            // Read alone, there is nothing that it could be the same as.
            assert!(!entry.text.starts_with("The same"), "{entry:?}");
            assert!(entry.text.lines().all(|line| line.chars().count() <= 120), "{entry:?}");
        }
        assert!(names.len() > 280, "{}", names.len());
    }

    #[test]
    fn the_words_of_an_error_lead_to_its_name() {
        for (text, name) in [
            (
                "in step \"log in\": no session to iqn.x: 10.0.0.1: iscsiadm exited with 8 (x): y",
                "iscsiadm-failed",
            ),
            ("in step \"mount\": mounting sda as XFS: wrong fs type, bad option", "mount-failed"),
            (
                "no config: write /etc/etcd-lun/config.toml (`etcd-lun config example` prints one)",
                "no-config",
            ),
            ("reading c.toml, line 3, column 1: `lunn` is not a key", "config-syntax"),
            ("portals: `10.0.0` is not a portal, such as 10.0.0.1", "wrong-form"),
            ("interrupted while waiting for udev", "interrupted-udev"),
        ] {
            assert_eq!(name_of_error(text), Some(name), "{text}");
        }
        assert_eq!(name_of_error("opening x: No such file or directory"), None);
        assert_eq!(name_of_error(""), None);
        // A refusal is found by its words too, as an older program has printed them.
        let line = "LUN naa.6 is held by md0: remove what is stacked on it first (see `lsblk`)";
        assert_eq!(of_line(line).map(|entry| entry.name), Some("held"));
        assert_eq!(
            of_line("Nov 27 refused [two-histories]: x").map(|entry| entry.name),
            Some("two-histories")
        );
    }

    #[test]
    fn a_message_fits_with_anything_in_its_gaps() {
        for (message, text, is) in [
            ("a … b", "a x b", true),
            ("a … b", "a x b c", false),
            ("a …", "a ", true),
            ("… b", "a b", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("……", "", true),
            ("a … b … c", "a 1 b 2 c", true),
            ("a … b … c", "a 1 c 2 b", false),
        ] {
            assert_eq!(fits(message, text), is, "{message} {text}");
        }
    }

    #[test]
    fn links_are_text_on_a_terminal() {
        for (markdown, text) in [
            ("See [guide.md](guide.md#x).", "See guide.md#x."),
            (
                "See [the guide](../docs/guide.md), `[[node]]` [x]",
                "See the guide (docs/guide.md), `[[node]]` [x]",
            ),
            ("[a", "[a"),
        ] {
            assert_eq!(plain(markdown), text);
        }
    }
}

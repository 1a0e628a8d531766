//! The entries of the documents, each under its name. The program brings these documents along, because a node has none.
//!
//! An entry is a heading of one word, the message as a quotation in which `…` stands for what differs, and the text. The
//! words of a message also lead to its entry: an error has its name from there, and not from the place in the code that
//! makes it. A test compares the messages of the documents with those of the code.

use std::{cmp::Reverse, sync::OnceLock};

/// The first page for somebody whose etcd is down.
pub(super) const FIRST_PAGE: &str = include_str!("../../../docs/etcd-is-down.md");
const TROUBLESHOOTING: &str = include_str!("../../../docs/troubleshooting.md");
/// Where the entries of refusals are.
const REFUSALS: &str = "docs/troubleshooting.md";
/// Where the entries of errors are.
const ERRORS: &str = "docs/errors.md";

const PAGES: [(&str, &str); 3] = [
    (REFUSALS, TROUBLESHOOTING),
    (ERRORS, include_str!("../../../docs/errors.md")),
    ("docs/alerts.md", include_str!("../../../docs/alerts.md")),
];

/// The pages that somebody on a node may want to read as a whole, by their names.
const WHOLE: [(&str, &str); 6] = [
    ("etcd-is-down", FIRST_PAGE),
    ("troubleshooting", TROUBLESHOOTING),
    ("recovery", include_str!("../../../docs/recovery.md")),
    ("lost-lun", include_str!("../../../docs/lost-lun.md")),
    ("health", include_str!("../../../docs/health.md")),
    ("bench", include_str!("../../../docs/bench.md")),
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

/// How the text of an entry begins that explains what a message's beginning says, and not why.
const ONLY_A_BEGINNING: &str = "The end of the message has the cause.";

impl Entry {
    /// How much this message says. Of two that a text has, the one that says more gives the name.
    fn weight(&self) -> Weight {
        Weight {
            is_cause: !self.text.starts_with(ONLY_A_BEGINNING),
            letters: self.message.chars().filter(|letter| letter.is_alphabetic()).count(),
            gaps: Reverse(self.message.matches(GAP).count()),
        }
    }
}

/// See [`Entry::weight`]. The first difference counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    is_cause: bool,
    letters: usize,
    gaps: Reverse<usize>,
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

/// The names of the pages that can be read as a whole.
pub(super) fn pages() -> impl Iterator<Item = &'static str> {
    WHOLE.into_iter().map(|(name, _)| name)
}

/// The page with this name, also as other pages name it: `recovery`, `recovery.md`, `docs/recovery.md`.
pub(super) fn page(name: &str) -> Option<&'static str> {
    let name = name.split('#').next().unwrap_or(name);
    let name = name.strip_prefix("docs/").unwrap_or(name);
    let name = name.strip_suffix(".md").unwrap_or(name);
    WHOLE.into_iter().find(|(page, _)| page.eq_ignore_ascii_case(name)).map(|(_, text)| text)
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

/// The entry whose message says most of this text. A message begins at the beginning, or after a colon or semicolon, and ends
/// at the end or before one: causes follow each other so, and what is known of the target follows a semicolon. Of two that say
/// as much, the last one counts: it is nearest to the cause.
fn of_message(text: &str, of: impl Fn(&Entry) -> bool) -> Option<&'static Entry> {
    let separators: Vec<usize> = text
        .match_indices(CAUSE)
        .filter(|(at, _)| text.get(at + 1..).is_some_and(|rest| rest.starts_with(' ')))
        .map(|(at, _)| at)
        .take(PARTS)
        .collect();
    let starts: Vec<usize> = std::iter::once(0).chain(separators.iter().map(|at| at + 2)).collect();
    let ends: Vec<usize> = separators.iter().copied().chain([text.len()]).collect();
    let mut best: Option<(Weight, usize, &Entry)> = None;
    for entry in entries().iter().filter(|entry| of(entry)) {
        let weight = entry.weight();
        for start in &starts {
            if best.is_some_and(|(most, at, _)| (weight, *start) < (most, at)) {
                continue;
            }
            let mut parts = ends.iter().filter(|end| *end > start).filter_map(|end| text.get(*start..*end));
            if weight.letters > 0 && parts.any(|part| fits(&entry.message, part)) {
                best = Some((weight, *start, entry));
            }
        }
    }
    best.map(|(_, _, entry)| entry)
}

/// What stands in a message for what differs.
const GAP: char = '…';

/// How many words may stand for a gap at the beginning or the end of a message, in each part of a list. Such a gap has a literal
/// on one side only, so a message of two words would otherwise fit every sentence that has them. A list is as long as what it
/// tells of: a message has up to a dozen LUNs, each with its WWID, size and addressing.
const EDGE: usize = 16;

/// Whether a text is this message, with anything in place of each gap.
fn fits(message: &str, text: &str) -> bool {
    let pieces: Vec<&str> = message.split(GAP).collect();
    let [first, inner @ .., last] = pieces.as_slice() else { return message == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut is_begin = first.is_empty();
    for (number, piece) in inner.iter().enumerate() {
        // The gap at the end begins as late as it can, so that it is as short as it can be.
        let is_last = number + 1 == inner.len() && last.is_empty();
        let parts = if is_last { rest.rsplit_once(piece) } else { rest.split_once(piece) };
        let Some((gap, after)) = parts else { return false };
        if is_begin && !(is_short(gap) || piece.starts_with(CAUSE)) {
            return false;
        }
        (rest, is_begin) = (after, false);
    }
    let Some(gap) = rest.strip_suffix(last) else { return false };
    match (is_begin, last.is_empty()) {
        (true, false) => is_short(gap) || last.starts_with(CAUSE),
        (_, true) => is_short(gap) || inner.last().unwrap_or(first).trim_end().ends_with(CAUSE),
        (false, false) => true,
    }
}

/// What separates a message from its cause. Beside it anything may stand, such as the output of a tool.
const CAUSE: [char; 2] = [':', ';'];

fn is_short(gap: &str) -> bool {
    let mut depth = 0_usize;
    let mut outside = gap.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && letter == ','
    });
    outside.all(|part| part.split_whitespace().count() <= EDGE)
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
                "in step log-in: no session to iqn.x: 10.0.0.1: iscsiadm exited with 8 (x): y",
                "iscsiadm-failed",
            ),
            ("in step mount-data: mounting sda as XFS: wrong fs type, bad option", "mount-failed"),
            (
                "no config: write /etc/etcd-lun/config.toml (`etcd-lun config example` prints one)",
                "no-config",
            ),
            ("reading c.toml, line 3, column 1: `lunn` is not a key", "config-syntax"),
            ("portals: `10.0.0` is not a portal, such as 10.0.0.1", "wrong-form"),
            ("interrupted while waiting for udev", "interrupted-udev"),
            // What was not done follows what was found.
            (
                "in step commit-local: the record has changed since it was read: nothing is committed",
                "record-changed",
            ),
            (
                "in step unmount-data: /data is not fenced beneath the mount: the LUN stays mounted",
                "not-fenced-beneath",
            ),
            ("in step mount-data: nothing is mounted for etcd: the record is gone", "record-gone"),
            // What the kernel says of the LUN follows the cause.
            (
                "in step copy: LUN naa.6 is read-only now; the kernel says `x`: check LUN 1",
                "lun-read-only-now",
            ),
            (
                "in step unmount-data: etcd (pid 7), sh (pid 8) has files open in /data though etcd is stopped: end it first",
                "files-open-after-stop",
            ),
            (
                "in step mount-data: the mount on /data was not accepted, and was undone: the record is gone",
                "record-gone",
            ),
            (
                "in step commit: nothing is committed: the data or its copy has changed since they were compared",
                "data-changed",
            ),
            (
                "in step attach-lun: iqn.x shows LUN 1 at 10.0.0.1:3260, but it cannot be used: it cannot be read (Device busy): another computer holds a SCSI reservation on it; find out whose it is (`sg_persist --in --read-reservation /dev/sda`), and release it at the target; tried for 20s (`boot.attach_timeout`)",
                "lun-reserved-for-reads",
            ),
            (
                "in step attach-lun: no session to iqn.x; iqn.x shows LUN 1 at 10.0.0.1:3260, but it cannot be used: it cannot be read (EIO): the array may serve it over another portal only; packets over eth1 may have 9000 bytes, and the network may lose large ones: `ping -M do -s 8972 10.77.0.1` must be answered; tried for 20s (`boot.attach_timeout`)",
                "lun-unreadable",
            ),
            (
                "in step attach-lun: iqn.x shows LUN 1 at 10.0.0.1:3260, but it cannot be used: udev has not processed its disk within 20 s; see `lsscsi` and `journalctl -u systemd-udevd`; tried for 20s (`boot.attach_timeout`)",
                "disk-not-processed",
            ),
            (
                "in step attach-lun: iqn.x shows this initiator no LUN 9 at 10.0.0.1:3260, and shows LUN 1; tried for 10s (`boot.attach_timeout`): map it to iqn.y there, or correct `node.wwid`, `node.lun` or `target.portals`",
                "lun-not-shown",
            ),
        ] {
            assert_eq!(name_of_error(text), Some(name), "{text}");
        }
        // In no part of a list may as many words stand.
        let long = format!("a list, of {}disks is not empty", "large ".repeat(EDGE));
        for unnamed in ["opening x: No such file or directory", "there is no such file", long.as_str()] {
            assert_eq!(name_of_error(unnamed), None, "{unnamed}");
        }
        assert_eq!(name_of_error(""), None);
        // A refusal is found by its words too, as an older program has printed them.
        let line = "LUN naa.6 is held by md0: remove what is stacked on it first (see `lsblk`)";
        assert_eq!(of_line(line).map(|entry| entry.name), Some("held"));
        assert_eq!(
            of_line("Nov 27 refused [two-histories]: x").map(|entry| entry.name),
            Some("two-histories")
        );
    }

    /// Whatever stands in the gaps of a message, it has the name of its own entry.
    #[test]
    fn each_error_has_the_name_of_its_own_entry() {
        let values = [
            "/var/lib/etcd",
            "sdb",
            "7",
            "one or two words",
            "naa.60014050123456789abcdef012345678",
            "10.0.0.1:3260",
            "etcd (pid 7), sh (pid 8)",
            "etcd.service: failed; see more",
            "LUN 44 (naa.6001, 1GiB, peripheral addressing, 44 in the kernel), LUN 300 (naa.6002, 1GiB, flat addressing, 16684 in the kernel)",
        ];
        let mut wrong = Vec::new();
        for entry in entries().iter().filter(|entry| entry.page == ERRORS) {
            let gaps = entry.message.matches(GAP).count();
            for (first, alike) in (0..values.len()).flat_map(|first| [(first, true), (first, false)]) {
                let text = (0..gaps).fold(entry.message.clone(), |text, gap| {
                    let value = values[(if alike { first } else { first + gap }) % values.len()];
                    text.replacen(GAP, value, 1)
                });
                match name_of_error(&text) {
                    Some(name) if name == entry.name => {}
                    other => wrong.push(format!("{text:?} is {}, and not {other:?}", entry.name)),
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
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
            ("a … b …", "a 1 b 2 b 3", true),
            ("a: …", "a: a cause", true),
        ] {
            assert_eq!(fits(message, text), is, "{message} {text}");
        }
        // At the edges of a message only some words may stand for a gap. Beside a colon, anything may.
        let (few, many) = ("x ".repeat(EDGE), "x ".repeat(EDGE + 1));
        for (message, before, after) in
            [("… b", "", "b"), ("a …", "a ", ""), ("… b c …", "", "b c y"), ("… b c …", "y b c ", "")]
        {
            assert!(fits(message, &format!("{before}{few}{after}")), "{message}");
            assert!(!fits(message, &format!("{before}{many}{after}")), "{message}");
        }
        for (message, before, after) in
            [("…; b", "", "; b"), ("a: …", "a: ", ""), ("…: b …", "", ": b y"), ("a … b", "a ", " b")]
        {
            assert!(fits(message, &format!("{before}{many}{after}")), "{message}");
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

//! The entries of the documents, each under its name. The program brings these documents along, because a node has none.
//!
//! An entry is a heading of one word, then the beginning of a refusal's message as a quotation, in which `…` stands for what
//! differs, and the text.

use std::sync::OnceLock;

/// The pages with entries, by their paths in the sources.
const PAGES: [&str; 2] = ["docs/troubleshooting.md", "docs/alerts.md"];

macro_rules! pages {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../../docs/", $name, ".md")))),*] };
}

/// The pages that can be read as a whole, by their names: what somebody on a node may need, and what these pages point to.
pub(super) const WHOLE: &[(&str, &str)] = pages!(
    "etcd-is-down" "troubleshooting" "recovery" "lost-lun" "health" "bench" "alerts" "guide" "rollout" "one-node"
    "config" "commands" "storage" "updates" "requirements" "release" "selinux" "security" "files"
);

/// What a document says about one refusal, one error or one alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which is its anchor too.
    pub name: &'static str,
    /// The document, as a path in the sources.
    pub page: &'static str,
    /// How the message of a refusal begins. `…` stands for what differs. Empty for an error.
    pub message: String,
    /// What it means, and what to do, in Markdown.
    pub text: String,
}

/// All entries, in the order of the documents.
pub fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        PAGES.iter().flat_map(|page| of_page(page, whole(page).unwrap_or_default())).collect()
    })
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
            let (to, line) = match line.strip_prefix("> ") {
                Some(quoted) => (&mut entry.message, quoted),
                None => (&mut entry.text, line),
            };
            to.push_str(line);
            to.push('\n');
        }
    }
    for entry in &mut found {
        entry.message = entry.message.trim().replace('\n', " ");
        entry.text = entry.text.trim().to_owned();
    }
    found
}

/// The entry with this name, in upper or lower case.
pub(super) fn named(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// The entries that have all words of a text.
pub(super) fn with_words(text: &str) -> impl Iterator<Item = &'static Entry> {
    let words: Vec<_> = text.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let has_all = move |entry: &&Entry| {
        let all = format!("{} {} {}", entry.name, entry.message, entry.text).to_lowercase();
        words.iter().all(|word| all.contains(word.as_str()))
    };
    entries().iter().filter(has_all)
}

/// The page with this name, also as other pages name it: `recovery`, `recovery.md`, `docs/recovery.md`. With an anchor, as in
/// `guide.md#growing-a-lun`, only that section; an anchor alone is one of any page.
pub(super) fn page(name: &str) -> Option<String> {
    let (page, anchor) = name.split_once('#').unwrap_or((name, ""));
    let in_any = || WHOLE.iter().find_map(|(_, text)| section(text, &name.to_lowercase()));
    whole(page).map(|text| section(text, anchor).unwrap_or_else(|| text.to_owned())).or_else(in_any)
}

fn whole(page: &str) -> Option<&'static str> {
    let page = page.strip_prefix("docs/").unwrap_or(page);
    let page = page.strip_suffix(".md").unwrap_or(page);
    WHOLE.iter().find(|(name, _)| name.eq_ignore_ascii_case(page)).map(|(_, text)| *text)
}

/// The section of a page whose heading has this anchor, as GitHub makes it.
fn section(page: &str, anchor: &str) -> Option<String> {
    let kept =
        |line: &str| line.to_lowercase().replace(|c: char| !c.is_alphanumeric() && !" -_".contains(c), "");
    let mut lines = page.lines().scan(false, |is_code, line| {
        *is_code ^= line.starts_with("```");
        Some((if *is_code { 0 } else { line.len() - line.trim_start_matches('#').len() }, line))
    });
    let (level, top) =
        lines.find(|(depth, line)| *depth > 0 && kept(line).trim().replace(' ', "-") == anchor)?;
    let rest = lines.take_while(|(depth, _)| *depth == 0 || *depth > level);
    Some(rest.fold(top.to_owned(), |text, (_, line)| text + "\n" + line))
}

/// The text of an entry or of a page for a terminal: without the marks of links, which cannot be followed there.
pub(super) fn plain(markdown: &str) -> String {
    let mut plain = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let parts = link.split_once("](").and_then(|(words, after)| Some((words, after.split_once(')')?)));
        match parts {
            Some((words, (target, after))) if !words.contains(['[', ']', '`']) => {
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
    fn each_entry_has_a_name_of_its_own_and_a_text() {
        let mut names = std::collections::BTreeSet::new();
        for entry in entries() {
            assert!(names.insert(entry.name.to_lowercase()), "{} is there twice", entry.name);
            assert!(entry.text.len() > 20, "{entry:?}");
            assert!(entry.text.lines().all(|line| line.chars().count() <= 120), "{entry:?}");
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

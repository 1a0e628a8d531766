//! Checks the language of the commits that main does not have yet: subjects, and first lines of new doc comments.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Words that begin a sentence about a thing, and no command.
const NO_VERBS: &str = "a an the what which where who how why when it its no not one two each every more whole behaviour nothing \
                        names words plain whoever this that there we they";
/// Verbs that end as other words do.
const VERBS: &str = "bring embed exceed feed need seed shed speed";
/// Beginnings of a doc comment that depend on another item or name no item.
const NO_SUMMARIES: [&str; 3] = ["The same", "What becomes of", "Whether"];

/// Checks all commits since main; on main itself, the newest ten.
pub fn check() -> Result<()> {
    let since = if git(&["rev-list", "-n", "1", "main..HEAD"]).is_ok_and(|text| !text.is_empty()) {
        "main..HEAD"
    } else {
        "HEAD"
    };
    let subjects = git(&[
        "log",
        "--no-merges",
        "-n",
        if since == "HEAD" { "10" } else { "1000" },
        "--format=%s",
        since,
    ])?;
    let mut wrong: Vec<String> = subjects.lines().filter_map(subject).collect();
    if since != "HEAD" {
        wrong.extend(summaries(&git(&["diff", "--unified=1", "main...HEAD", "--", "*.rs"])?));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

/// What is wrong with a subject.
fn subject(subject: &str) -> Option<String> {
    let (_, rest) = subject.split_once(": ").unwrap_or_default();
    let first = rest.split(' ').next().unwrap_or_default();
    let word = first.to_lowercase();
    let is_in = |words: &str| words.split_whitespace().any(|one| one == word);
    let is_verb = is_in(VERBS) || !(word.ends_with("ing") || word.ends_with("ed") || is_in(NO_VERBS));
    let is_right = first.starts_with(|letter: char| letter.is_ascii_uppercase()) && is_verb;
    (!is_right).then(|| format!("subject `{subject}`: write `area: ` and a verb in the imperative"))
}

/// The first lines of new doc comments that are no summaries.
fn summaries(diff: &str) -> Vec<String> {
    let mut before = "";
    let mut wrong = Vec::new();
    for line in diff.lines().filter(|line| !line.starts_with('-')) {
        let text = line.get(1..).unwrap_or_default().trim_start();
        let comment = ["/// ", "//! "].iter().find_map(|mark| text.strip_prefix(mark));
        let begins = !before.starts_with("//");
        if let Some(comment) = comment
            && line.starts_with('+')
            && begins
            && NO_SUMMARIES.iter().any(|words| comment.starts_with(words))
        {
            wrong.push(format!("doc comment `{comment}`: begin with a verb or the noun that the item is"));
        }
        before = text;
    }
    wrong
}

fn git(words: &[&str]) -> Result<String> {
    let output = Command::new("git").args(words).output().context("git")?;
    if !output.status.success() {
        bail!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[test]
fn a_subject_is_an_area_and_a_verb() {
    for right in
        ["copy: Compare the tail once more", "config init, route: Remove the client", "docs: Embed it"]
    {
        assert_eq!(subject(right), None);
    }
    for wrong in [
        "Compare it",
        "desk: What a node has",
        "copy: compare",
        "bed: Added a case",
        "x: Making it",
        "y: The end",
    ] {
        assert!(subject(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn a_new_doc_comment_begins_with_its_item() {
    let diff = "+++ b/a.rs\n@@ -1 +1,5 @@\n x\n+/// The same of b.\n+fn a() {}\n-/// Whether.\n+/// Returns the first.\n\
                +/// Whether it lasts is another question.\n";
    assert_eq!(summaries(diff).len(), 1, "{:?}", summaries(diff));
}

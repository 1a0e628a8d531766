//! `explain`: what a refusal, an error, an alert or a check of health means.

use super::{
    entries::{self, Entry, entries},
    exit::Exit,
    output::print_out,
};
use clap::Args;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use health::CHECKS;
use std::fmt::Write as _;
use terms::nearest;

/// What is to be explained.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// A name in brackets, a check, an alert, a page such as recovery, or a whole message in single quotes; without it, what to do while etcd is down
    #[arg(value_name = "NAME", conflicts_with = "list", add = names(), allow_hyphen_values = true)]
    name: Vec<String>,
    /// List all names
    #[arg(long)]
    list: bool,
}

fn names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| known().map(CompletionCandidate::new).collect())
}

/// The names that are explained.
fn known() -> impl Iterator<Item = &'static str> {
    let checks = CHECKS.iter().map(|check| check.name);
    entries().iter().map(|entry| entry.name).chain(checks).chain(entries::pages())
}

/// Prints an entry, the first page, or all names.
pub(super) fn run(options: &Options) -> Result<(), Exit> {
    let asked = options.name.join(" ");
    let asked = asked.trim();
    // As it stands at the beginning of a message.
    let asked = asked.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(asked);
    if options.list {
        print_out(&list());
    } else if asked.is_empty() {
        print_out(&format!(
            "{}\n\n`etcd-lun explain NAME` explains a message: NAME stands in brackets at its beginning.",
            entries::plain(entries::FIRST_PAGE).trim_end()
        ));
    } else if let Some(entry) = entries::named(asked) {
        print_out(&explained(entry));
    } else if let Some(page) = entries::page(asked) {
        print_out(entries::plain(page).trim_end());
    } else if let Some(check) = CHECKS.iter().find(|check| check.name == asked) {
        print_out(&format!(
            "The check {asked} of `etcd-lun health`, {}.\n\nWhat it protects: {}.\nIts limit: {}.\n\nRun `etcd-lun \
             health`: the row of this check says what was found, and what to do.\n\ndocs/health.md",
            check.severity.word(),
            check.protects,
            check.limit
        ));
    } else if let Some(entry) = entries::of_line(asked) {
        print_out(&explained(entry));
    } else {
        let known: Vec<String> = known().map(str::to_lowercase).collect();
        let meant = nearest(asked, known.iter().map(String::as_str));
        let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        let asked: String = asked.chars().take(80).collect();
        return Err(Exit::Usage(format!(
            "`{asked}` is neither a name nor a message of etcd-lun: `etcd-lun explain --list` lists the names{meant}"
        )));
    }
    Ok(())
}

fn explained(entry: &Entry) -> String {
    let Entry { name, page, message, text } = entry;
    format!("{name}: {message}\n\n{}\n\n{page}#{}", entries::plain(text), name.to_lowercase())
}

/// All names, by document.
fn list() -> String {
    let mut text = String::new();
    let mut page = "";
    for entry in entries() {
        if entry.page != page {
            page = entry.page;
            let _ = writeln!(text, "\n{page}");
        }
        let _ = writeln!(text, "  {}", entry.name);
    }
    let _ = writeln!(text, "\npages");
    for page in entries::pages() {
        let _ = writeln!(text, "  {page}");
    }
    let _ = writeln!(text, "\nchecks of `etcd-lun health`");
    for check in CHECKS {
        let _ = writeln!(text, "  {}", check.name);
    }
    text.trim_start().to_owned()
}

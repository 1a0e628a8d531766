//! Man pages. clap_mangen writes what is in the table of commands, and this module adds the sections that every page of a system
//! command has.

use anyhow::{Context as _, Result};
use clap::Command;
use clap_mangen::Man;
use etcd_lun::cli::grammar::{ENVIRONMENT, EXIT_CODES};

use crate::examples::EXAMPLES;

/// The files that an administrator meets.
const FILES: [(&str, &str); 5] = [
    (
        "/etc/etcd-lun/config.toml",
        "The config, mode 0600. `etcd-lun config example` prints one to begin with.",
    ),
    ("/etc/etcd-lun/config.d/*.toml", "More of the config, in the order of the names. Later files win."),
    (
        "/var/lib/etcd-lun/authority.json",
        "The record: which copy of etcd's data is the authoritative one. Do not edit or remove it.",
    ),
    (
        "/var/lib/etcd-lun/retired/GENERATION",
        "The local data of an earlier migration. `etcd-lun retired delete` removes it.",
    ),
    ("/run/etcd-lun", "What the running system needs: the lock, the last outcomes of health."),
];

/// The page of a command. Its words are empty for the program as a whole.
pub fn page(command: Command, words: &[&str]) -> Result<String> {
    let version = command.get_version().unwrap_or_default().to_owned();
    let man = Man::new(command).section("8").source(format!("etcd-lun {version}")).manual("etcd-lun");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if words.is_empty() {
        man.render_subcommands_section(&mut text)?;
    } else {
        man.render_extra_section(&mut text)?;
    }
    // clap_mangen has a name for this section that no other manual has.
    let mut text =
        String::from_utf8(text).context("a page is not UTF-8")?.replacen(".SH EXTRA", ".SH NOTES", 1);
    if words.is_empty() {
        text.push_str(&list("ENVIRONMENT", &ENVIRONMENT));
    }
    let codes: Vec<_> =
        EXIT_CODES.iter().enumerate().map(|(code, means)| (code.to_string(), *means)).collect();
    let codes: Vec<_> = codes.iter().map(|(code, means)| (code.as_str(), *means)).collect();
    text.push_str(&list("EXIT STATUS", &codes));
    text.push_str(&list("FILES", &FILES));
    text.push_str(".SH EXAMPLES\n");
    for (_, line, means) in EXAMPLES.iter().filter(|(of, ..)| *of == words) {
        text.push_str(&format!(".TP\n{}\n.nf\n.B {}\n.fi\n", plain(means), plain(line)));
    }
    Ok(text)
}

fn list(title: &str, entries: &[(&str, &str)]) -> String {
    let mut text = format!(".SH \"{title}\"\n");
    for (name, means) in entries {
        text.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", plain(name), plain(means)));
    }
    text
}

/// A text as roff takes it literally.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::commands::pages;

    #[test]
    fn every_page_has_its_sections_and_the_version() {
        for (command, words) in pages() {
            let text = page(command, words).unwrap();
            let title = text.lines().find(|line| line.starts_with(".TH")).unwrap();
            assert!(title.contains(concat!("etcd-lun ", env!("CARGO_PKG_VERSION"))), "{title}");
            for section in [".SH NAME", ".SH \"EXIT STATUS\"", ".SH \"FILES\"", ".SH EXAMPLES\n.TP"] {
                assert!(text.contains(section), "{words:?} lacks {section}: {text}");
            }
        }
    }

    /// What nobody calls by hand stands at the end.
    #[test]
    fn internal_commands_come_last() {
        let (command, words) = pages().remove(0);
        let text = page(command, words).unwrap();
        let places: Vec<_> = text.match_indices("\netcd\\-lun\\-").map(|(at, _)| &text[at + 1..]).collect();
        let last: Vec<_> = places.iter().rev().take(2).map(|rest| rest.lines().next().unwrap()).collect();
        assert_eq!(last, ["etcd\\-lun\\-let\\-go(8)", "etcd\\-lun\\-mark(8)"], "{text}");
        for line in ["mark", "let\\-go"] {
            let about = text.split(&format!("etcd\\-lun\\-{line}(8)\n")).nth(1).unwrap();
            assert!(about.lines().next().unwrap().contains("(internal"), "{about}");
        }
    }
}

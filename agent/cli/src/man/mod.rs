//! `man`: writes the man pages.
//!
//! clap_mangen writes what is in the grammar. This module adds the sections that every page of a system command has.

use super::{
    env::ENVIRONMENT,
    exit::{EXIT_CODES, Exit},
    output::print_out,
    values::absolute,
};
use anyhow::Context as _;
use clap::{Args, Command, ValueHint};
use clap_mangen::Man;
use host::Host;
use std::path::PathBuf;
use terms::AbsPath;

/// Where the pages go.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The directory, such as /usr/local/share/man/man8; it is made if it is not there
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute())]
    dir: PathBuf,
}

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

/// Writes `etcd-lun.8`, and a page for each command and each group of commands.
pub(super) fn write(options: &Options, grammar: Command) -> Result<(), Exit> {
    let host = Host::machine().context("setting up")?;
    let Some(dir) = options.dir.to_str() else {
        return Err(Exit::Usage("DIR: its name is not UTF-8: name another directory".into()));
    };
    host.root.make_dir(dir, 0o755).context("making the directory")?;
    for (name, text) in pages(grammar)? {
        let path: AbsPath = format!("{dir}/{name}.8").parse().map_err(anyhow::Error::from)?;
        host.root.write_durably(&path, &text, 0o644).context("writing a page")?;
        print_out(&format!("wrote {path}"));
    }
    Ok(())
}

/// The name of each page, and its text.
fn pages(grammar: Command) -> anyhow::Result<Vec<(String, String)>> {
    // clap adds `help` to each group, and a page about it would say nothing.
    let mut grammar = grammar.disable_help_subcommand(true);
    grammar.build();
    let mut pages = Vec::new();
    add(&grammar, &[], &mut pages)?;
    Ok(pages)
}

/// Adds the pages of a command with these words, and of what is below it.
fn add(command: &Command, words: &[&str], pages: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    pages.push((command.get_display_name().unwrap_or(command.get_name()).to_owned(), page(command, words)?));
    for below in command.get_subcommands() {
        let words: Vec<_> = words.iter().copied().chain([below.get_name()]).collect();
        add(below, &words, pages)?;
    }
    Ok(())
}

/// The page of a command. Its words are empty for the program as a whole.
fn page(command: &Command, words: &[&str]) -> anyhow::Result<String> {
    // The help's last paragraph has the exit codes, which are a section of their own here.
    let command = if words.is_empty() { command.clone().after_help("") } else { command.clone() };
    let notes = command.get_after_help().is_some_and(|notes| !notes.to_string().is_empty());
    let groups = command.has_subcommands();
    let man = Man::new(command)
        .section("8")
        .source(concat!("etcd-lun ", env!("CARGO_PKG_VERSION")))
        .manual("etcd-lun");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if groups {
        man.render_subcommands_section(&mut text)?;
    }
    if notes {
        man.render_extra_section(&mut text)?;
    }
    // clap_mangen has a name for this section that no other manual has.
    let mut text =
        String::from_utf8(text).context("reading a page as UTF-8")?.replacen(".SH EXTRA", ".SH NOTES", 1);
    if words.is_empty() {
        text.push_str(&list("ENVIRONMENT", &ENVIRONMENT));
    }
    let codes = ["0", "1", "2", "3", "4"];
    let codes: Vec<_> = codes.into_iter().zip(EXIT_CODES).collect();
    text.push_str(&list("EXIT STATUS", &codes));
    text.push_str(&list("FILES", &FILES));
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
mod tests;

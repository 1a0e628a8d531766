//! Help and usage, made from the table.

use super::table::{COMMANDS, Command, GLOBAL};
use std::fmt::Write as _;

/// The purpose of the program.
pub const ABOUT: &str = "Moves a node's etcd to an iSCSI LUN of its own, without ever losing a write";
/// The meaning of the exit codes, from 0 on.
pub const EXIT_CODES: [&str; 5] =
    ["converged or healthy", "error", "usage or config", "refused", "unhealthy"];

/// The version. A build of `packaging/build` adds a line each for its commit and its tools.
pub(super) fn version() -> String {
    let version = concat!("etcd-lun ", env!("CARGO_PKG_VERSION"));
    match option_env!("ETCD_LUN_BUILD") {
        Some(build) => format!("{version}\n{build}"),
        None => version.into(),
    }
}

/// The columns of a terminal that nobody has made wider.
const WIDTH: usize = 80;
/// Where the second of two columns begins.
const COLUMN: usize = 24;

fn usage(words: &[String], command: Option<&Command>) -> String {
    let begun = match command {
        Some(command) => {
            let operand = command.operand.map(|operand| format!("{operand} ")).unwrap_or_default();
            format!("{} {operand}[OPTIONS]", command.words.join(" "))
        }
        None => {
            format!("{}COMMAND [OPTIONS]", words.iter().map(|word| format!("{word} ")).collect::<String>())
        }
    };
    format!("Usage: etcd-lun {begun}\n")
}

/// An error in the command line, with the usage, and with the commands of a group.
pub(super) fn wrong(said: &str, words: &[String], command: Option<&Command>) -> String {
    let mut text = format!("error: {said}\n\n{}\n", usage(words, command));
    // Of all commands there are more than lines on a screen: the error would no longer be seen.
    if command.is_none() && !words.is_empty() {
        text.push_str("Commands:\n");
        list(&mut text, words);
        text.push('\n');
    }
    text.push_str("For more, try --help.");
    text
}

/// The error of a command line without a command, or with half of one.
pub(super) fn missing(words: &[String]) -> String {
    if words.is_empty() {
        let names: Vec<_> = first_words().collect();
        let mut text = format!("error: a command is missing\n\n{}\n", usage(words, None));
        paragraph(&mut text, &format!("Commands: {}", names.join(", ")));
        return text + "\nFor more, try --help.";
    }
    wrong("the second word is missing", words, None)
}

/// The environment variables, and what each does.
pub const ENVIRONMENT: [(&str, &str); 2] = [
    ("ETCD_LUN_LOG", "The level of the log: error, warn, info, debug, trace or off"),
    ("NO_COLOR", "If it is set and not empty, print no colours; TERM=dumb does the same"),
];

/// The first word of each command, once.
pub fn first_words() -> impl Iterator<Item = &'static str> {
    let word = |command: &Command| command.words.first().copied().unwrap_or_default();
    let is_first = move |at: usize| at == 0 || word(&COMMANDS[at - 1]) != word(&COMMANDS[at]);
    COMMANDS.iter().enumerate().filter(move |(at, _)| is_first(*at)).map(move |(_, command)| word(command))
}

pub(super) fn help(words: &[String], command: Option<&Command>) -> String {
    let mut text = String::new();
    paragraph(&mut text, command.map_or(ABOUT, |command| command.about));
    let _ = write!(text, "\n{}\n", usage(words, command));
    if command.is_none() {
        text.push_str("Commands:\n");
        list(&mut text, words);
        text.push('\n');
    }
    text.push_str("Options:\n");
    for flag in command.map_or(&[][..], |command| command.flags).iter().chain(&GLOBAL) {
        let short = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
        let value = flag.value.map(|value| format!(" <{value}>")).unwrap_or_default();
        entry(&mut text, &format!("{short}--{}{value}", flag.name), flag.help);
    }
    if command.is_none() {
        text.push_str("\nExit codes:\n");
        for (code, means) in EXIT_CODES.iter().enumerate() {
            let _ = writeln!(text, "  {code} {means}");
        }
        text.push_str("\nEnvironment:\n");
        for (name, means) in ENVIRONMENT {
            entry(&mut text, name, means);
        }
    }
    if let Some(command) = command.filter(|command| !command.after_help.is_empty()) {
        text.push('\n');
        paragraph(&mut text, command.after_help);
    }
    text
}

/// The commands that begin with these words.
fn list(text: &mut String, words: &[String]) {
    for command in
        COMMANDS.iter().filter(|command| command.words.iter().zip(words).all(|(one, two)| one == two))
    {
        entry(text, &command.words.join(" "), command.about);
    }
}

/// A name and its meaning in two columns.
fn entry(text: &mut String, name: &str, meaning: &str) {
    wrap(text, &format!("  {name:<width$}", width = COLUMN - 2), COLUMN, meaning);
}

fn paragraph(text: &mut String, words: &str) {
    wrap(text, "", 0, words);
}

/// Words in lines of a terminal's width. The first line has something before them, and further lines are indented.
fn wrap(text: &mut String, before: &str, indent: usize, words: &str) {
    let mut line = before.to_owned();
    for word in words.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(indent);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

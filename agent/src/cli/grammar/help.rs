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
    format!("Usage: etcd-lun {begun}\n\nFor more, try --help.")
}

/// An error in the command line, with the usage.
pub(super) fn wrong(said: &str, words: &[String], command: Option<&Command>) -> String {
    format!("error: {said}\n\n{}", usage(words, command))
}

pub(super) fn help(words: &[String], command: Option<&Command>) -> String {
    let mut text = match command {
        Some(command) => format!("{}\n\n", command.about),
        None => format!("{ABOUT}\n\n"),
    };
    let usage = usage(words, command);
    let _ = writeln!(text, "{}\n", usage.lines().next().unwrap_or_default());
    if command.is_none() {
        text.push_str("Commands:\n");
        let listed =
            COMMANDS.iter().filter(|command| command.words.iter().zip(words).all(|(one, two)| one == two));
        for command in listed {
            entry(&mut text, &command.words.join(" "), command.about);
        }
        text.push('\n');
    }
    text.push_str("Options:\n");
    for flag in command.map_or(&[][..], |command| command.flags).iter().chain(&GLOBAL) {
        let value = flag.value.map(|value| format!(" <{value}>")).unwrap_or_default();
        entry(&mut text, &format!("--{}{value}", flag.name), flag.help);
    }
    if command.is_none() {
        entry(&mut text, "--version", "Print the version");
        let codes: Vec<_> =
            EXIT_CODES.iter().enumerate().map(|(code, means)| format!("{code} {means}")).collect();
        let _ = write!(text, "\nExit codes: {}", codes.join(", "));
    }
    if let Some(command) = command.filter(|command| !command.after_help.is_empty()) {
        let _ = write!(text, "\n{}", command.after_help);
    }
    text
}

/// A name and its meaning in two columns, for a terminal of 100 columns.
fn entry(text: &mut String, name: &str, meaning: &str) {
    const COLUMN: usize = 24;
    const WIDTH: usize = 98;
    let mut line = format!("  {name:<width$}", width = COLUMN - 2);
    for word in meaning.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(COLUMN);
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

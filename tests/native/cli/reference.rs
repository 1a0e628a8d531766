//! `docs/commands.md` is made from the grammar.

use clap::{Arg, Command};
use cli::{EXIT_CODES, command};
use std::fmt::Write as _;
use support::wrap::wrapped;

/// The options that clap gives to every command.
const EVERYWHERE: [&str; 3] = ["config", "help", "version"];

/// The text of `docs/commands.md`.
fn text() -> String {
    let mut program = command().disable_help_subcommand(true);
    program.build();
    let mut text = format!(
        "# Commands\n\n{}. This page lists every command and option, for administrators. It is generated from the \
         program's own grammar.\n\n",
        program.get_about().unwrap()
    );
    text.push_str("| exit code | meaning |\n|---|---|\n");
    for (code, means) in EXIT_CODES.iter().enumerate() {
        let _ = writeln!(text, "| {code} | {means} |");
    }
    text.push_str(
        "\nWhat `--json` prints has a schema: for each command `COMMAND.schema.json`, such as `status.schema.json`, and for \
         failures `error.schema.json`. The schemas are in `doc/` of a release, and `cargo xtask schemas` writes them. Keys \
         are added without a new version.\n",
    );
    text.push_str("\nOptions of every command:\n\n");
    for option in program.get_arguments() {
        item(&mut text, &program, option);
    }
    add(&mut text, &mut Vec::new(), &program, "etcd-lun");
    wrapped(text.trim_end())
}

/// Adds each command below this one that does something. `listed` are the longer lists of options that the page has already,
/// each with its command.
fn add(text: &mut String, listed: &mut Vec<(String, String)>, group: &Command, words: &str) {
    for command in group.get_subcommands() {
        let words = format!("{words} {}", command.get_name());
        if command.has_subcommands() {
            add(text, listed, command, &words);
            continue;
        }
        let operands: String = command.get_positionals().map(|operand| format!(" {operand}")).collect();
        let operands = operands.replace(['<', '>'], "");
        let _ = writeln!(text, "\n## {words}{operands}\n\n{}.", command.get_about().unwrap());
        let own: Vec<_> = command
            .get_arguments()
            .filter(|option| !EVERYWHERE.contains(&option.get_id().as_str()))
            .collect();
        if !own.is_empty() {
            text.push('\n');
        }
        let mut options = String::new();
        for option in &own {
            item(&mut options, command, option);
        }
        match listed.iter().find(|(_, other)| *other == options) {
            Some((same, _)) => {
                let _ = writeln!(text, "The options are those of `{same}`.");
            }
            None => text.push_str(&options),
        }
        if own.len() > 3 {
            listed.push((words, options));
        }
        if let Some(notes) = command.get_after_help() {
            let _ = writeln!(text, "\n{notes}");
        }
    }
}

/// An option or an operand, as an item of a list.
fn item(text: &mut String, command: &Command, option: &Arg) {
    let value =
        option.get_action().takes_values().then(|| option.get_value_names().unwrap_or_default().join(" "));
    let name = match (option.get_long(), value) {
        (Some(long), Some(value)) => format!("`--{long} {value}`"),
        (Some(long), None) => format!("`--{long}`"),
        (None, value) => format!("`{}`", value.unwrap_or_default()),
    };
    let short = option.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let _ = write!(text, "- {short}{name}: {}", option.get_help().unwrap());
    let values: Vec<_> =
        option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if option.get_action().takes_values() && !values.is_empty() {
        let _ = write!(text, " [possible values: {}]", values.join(", "));
    }
    if let [default] = option.get_default_values()
        && option.get_action().takes_values()
    {
        let _ = write!(text, " [default: {}]", default.display());
    }
    for other in command.get_arg_conflicts_with(option) {
        let _ = write!(text, "; not with `--{}`", other.get_long().unwrap_or_default());
    }
    text.push('\n');
}

#[test]
fn the_docs_have_the_commands_that_there_are() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
    if std::env::var_os("ETCD_LUN_REWRITE").is_some() {
        std::fs::write(page, text()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(page).unwrap(),
        text(),
        "docs/commands.md differs from the program: make it with ETCD_LUN_REWRITE=1 cargo test --test cli reference"
    );
}

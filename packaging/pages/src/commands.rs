//! Converts the program's table of commands to clap's form. clap's companion crates write man pages and completions from it.

use clap::{Arg, ArgAction, Command, ValueHint, builder::PossibleValuesParser};
use etcd_lun::cli::grammar::{self, COMMANDS, Flag, GLOBAL, Operand};

const NAME: &str = "etcd-lun";

/// The whole command line, with commands nested in groups.
pub fn all() -> Command {
    let mut program = program();
    for command in COMMANDS {
        let (last, before) =
            command.words.split_last().map_or(("", &[][..]), |(last, before)| (*last, before));
        let own = one(last, command).args(args(&GLOBAL));
        program = match before.first() {
            None => program.subcommand(own),
            Some(&group) => match program.find_subcommand(group) {
                Some(_) => program.mut_subcommand(group, |found| found.subcommand(own)),
                None => program.subcommand(bare(group).about(about(group)).subcommand(own)),
            },
        };
    }
    program
}

/// One command for each man page, and its words: the program, and each command under its full name.
pub fn pages() -> Vec<(Command, &'static [&'static str])> {
    // The first page lists the names of the other pages.
    let listed = COMMANDS.iter().map(|command| one(&command.words.join("-"), command));
    let whole = program().subcommands(listed);
    let each = COMMANDS.iter().map(|command| {
        let name = format!("{NAME}-{}", command.words.join("-"));
        let page =
            one(&name, command).args(args(&GLOBAL)).bin_name(format!("{NAME} {}", command.words.join(" ")));
        (page, command.words)
    });
    std::iter::once((whole, &[][..])).chain(each).collect()
}

fn program() -> Command {
    bare(NAME).about(grammar::ABOUT).version(env!("CARGO_PKG_VERSION")).args(args(&GLOBAL))
}

fn bare(name: &str) -> Command {
    // The table has these options itself.
    Command::new(name.to_string())
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
}

fn one(name: &str, command: &grammar::Command) -> Command {
    let operand = command.operand.map(|Operand { name, required }| {
        let operand = Arg::new(name).value_name(name).value_hint(hint(name)).required(required);
        // The shells offer the words after which `help` is of use.
        if name == "COMMAND" {
            operand.value_parser(PossibleValuesParser::new(grammar::first_words()))
        } else {
            operand
        }
    });
    bare(name)
        .about(command.about)
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(command.after_help)
        .args(operand)
        .args(args(command.flags))
}

fn args(flags: &[Flag]) -> Vec<Arg> {
    flags
        .iter()
        .map(|flag| {
            let arg = Arg::new(flag.name)
                .long(flag.name)
                .short(flag.short)
                .help(flag.help)
                .conflicts_with_all(flag.conflicts_with);
            match flag.value {
                Some(value) => arg.value_name(value).value_hint(hint(value)),
                None => arg.action(ArgAction::SetTrue),
            }
        })
        .collect()
}

fn hint(value: &str) -> ValueHint {
    match value {
        "FILE" => ValueHint::FilePath,
        "PATH" => ValueHint::AnyPath,
        "DIR" => ValueHint::DirPath,
        _ => ValueHint::Other,
    }
}

/// The description of a group: the list of its commands.
fn about(group: &str) -> String {
    let known = COMMANDS.iter().filter(|command| command.words.first() == Some(&group));
    let words: Vec<_> = known.filter_map(|command| command.words.last().copied()).collect();
    format!("One of: {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_takes_the_table() {
        all().debug_assert();
        for (page, _) in pages() {
            page.debug_assert();
        }
        let commands =
            all().get_subcommands().map(|found| 1.max(found.get_subcommands().count())).sum::<usize>();
        assert_eq!(commands, COMMANDS.len());
    }
}

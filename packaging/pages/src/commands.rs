//! Converts the program's table of commands to clap's form. clap's companion crates write man pages and completions from it.

use clap::{Arg, ArgAction, Command, ValueHint};
use etcd_lun::cli::grammar::{self, COMMANDS, EXIT_CODES, Flag, GLOBAL, Operand};

const NAME: &str = "etcd-lun";

/// The whole command line, with commands nested in groups.
pub fn all() -> Command {
    let mut program = program();
    for command in COMMANDS {
        let (last, before) =
            command.words.split_last().map_or(("", &[][..]), |(last, before)| (*last, before));
        let own = one(last, command);
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

/// One command for each man page: the program, and each command under its full name.
pub fn pages() -> Vec<Command> {
    let mut codes = "Exit codes:".to_string();
    for (code, means) in EXIT_CODES.iter().enumerate() {
        codes.push_str(&format!("\n\n{code}  {means}"));
    }
    let see = "Files: /etc/etcd-lun/config.toml and config.d/*.toml; /var/lib/etcd-lun/authority.json, which says where \
               etcd's data is.";
    // The first page lists the names of the other pages.
    let listed = COMMANDS.iter().map(|command| one(&command.words.join("-"), command));
    let whole = program().subcommands(listed).after_help(format!("{codes}\n\n{see}"));
    let each = COMMANDS.iter().map(|command| {
        let name = format!("{NAME}-{}", command.words.join("-"));
        one(&name, command).args(args(&GLOBAL)).bin_name(format!("{NAME} {}", command.words.join(" ")))
    });
    std::iter::once(whole).chain(each).collect()
}

fn program() -> Command {
    let version = Arg::new("version").long("version").help("Print the version").action(ArgAction::SetTrue);
    bare(NAME).about(grammar::ABOUT).args(args(&GLOBAL)).arg(version)
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
        Arg::new(name).value_name(name).value_hint(hint(name)).required(required)
    });
    bare(name).about(command.about).after_help(command.after_help).args(operand).args(args(command.flags))
}

fn args(flags: &[Flag]) -> Vec<Arg> {
    flags
        .iter()
        .map(|flag| {
            let arg =
                Arg::new(flag.name).long(flag.name).help(flag.help).conflicts_with_all(flag.conflicts_with);
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
        for page in pages() {
            page.debug_assert();
        }
        let commands =
            all().get_subcommands().map(|found| 1.max(found.get_subcommands().count())).sum::<usize>();
        assert_eq!(commands, COMMANDS.len());
    }
}

//! The command line: the table of commands ([`table`]), the help ([`help`]), and the parser (here).

mod help;
mod table;

pub use help::{ABOUT, ENVIRONMENT, EXIT_CODES, first_words};
pub use table::{COMMANDS, Command, Flag, GLOBAL, Operand};

use crate::terms::nearest;
use help::{help, missing, version, wrong};
use std::{ffi::OsString, fmt, str::FromStr};

/// A parsed command line.
#[derive(Debug)]
pub(super) enum Parsed {
    /// Run this command with these arguments.
    Command(&'static Command, Arguments),
    /// Print this text.
    Text(String),
}

/// Options and operands, as given.
#[derive(Debug, Default)]
pub(super) struct Arguments(Vec<(&'static str, OsString)>);

impl Arguments {
    /// Whether a switch was given.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| *given == name)
    }

    /// The value of an option or operand.
    pub fn value(&self, name: &str) -> Option<&OsString> {
        self.0.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// All values of an option that may be given more than once.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &OsString> {
        self.0.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value)
    }

    /// The parsed value of an option or operand.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, String> {
        self.read(name, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }

    /// The value as a number. The standard library's error would not name the word.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        self.read(name, |text| text.parse().map_err(|_| format!("`{text}` is not a number, or too large")))
    }

    fn read<T>(&self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let text = value.to_str().ok_or_else(|| format!("`{}` is not UTF-8", value.display()));
        let is_operand = COMMANDS.iter().any(|command| command.operand.is_some_and(|one| one.name == name));
        let dashes = if is_operand { "" } else { "--" };
        text.and_then(read).map(Some).map_err(|said| format!("{dashes}{name}: {said}"))
    }
}

/// Parses a command line without the program's name. The error has the usage.
pub(super) fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Parsed, String> {
    use lexopt::Arg::{Long, Short, Value};
    let mut parser = lexopt::Parser::from_args(line);
    let mut words: Vec<String> = Vec::new();
    let mut given = Arguments::default();
    // `help apply` is `apply --help`, and `help` alone is `--help`.
    let mut helping = false;
    loop {
        let found = command(&words);
        let taken = match parser.next().map_err(|error| wrong(&error.to_string(), &words, found))? {
            None => break,
            Some(Short(letter)) => {
                let known = GLOBAL.iter().find(|flag| flag.short == Some(letter));
                known.ok_or_else(|| wrong(&format!("there is no option -{letter}"), &words, found))?
            }
            Some(Long(name)) => {
                let known = || GLOBAL.iter().chain(found.map_or(&[][..], |command| command.flags));
                let unknown = || {
                    let meant = did_you_mean(name, known().map(|flag| flag.name), "--");
                    wrong(&format!("there is no option --{name} here{meant}"), &words, found)
                };
                known().find(|flag| flag.name == name).ok_or_else(unknown)?
            }
            Some(Value(word)) => {
                if let Some(Operand { name, .. }) =
                    found.and_then(|command| command.operand).filter(|_| !helping)
                {
                    if given.has(name) {
                        return Err(wrong(&format!("{name} is given twice"), &words, found));
                    }
                    given.0.push((name, word));
                    continue;
                }
                let word = word.to_string_lossy().into_owned();
                if words.is_empty() && !helping && word == "help" {
                    helping = true;
                    continue;
                }
                if found.is_some() {
                    return Err(wrong(&format!("unexpected argument `{word}`"), &words, found));
                }
                let known = || COMMANDS.iter().filter(|command| begins(command, &words));
                let next = || known().filter_map(|command| command.words.get(words.len()).copied());
                if !next().any(|known| known == word) {
                    let meant = did_you_mean(&word, next(), "");
                    return Err(wrong(&format!("`{word}` is not a command here{meant}"), &words, found));
                }
                words.push(word);
                continue;
            }
        };
        if given.has(taken.name) && !taken.is_list {
            return Err(wrong(&format!("--{} is given twice", taken.name), &words, found));
        }
        let value = match taken.value {
            Some(_) => parser.value().map_err(|error| wrong(&error.to_string(), &words, found))?,
            None => OsString::new(),
        };
        given.0.push((taken.name, value));
    }
    let found = command(&words);
    if given.has("help") || helping && !given.has("version") {
        return Ok(Parsed::Text(help(&words, found)));
    }
    if given.has("version") || words == ["version"] {
        return Ok(Parsed::Text(version()));
    }
    let Some(command) = found else {
        return Err(missing(&words));
    };
    for flag in command.flags {
        if let Some(other) = flag.conflicts_with.filter(|other| given.has(flag.name) && given.has(other)) {
            return Err(wrong_value(command, &format!("--{} and --{other} exclude each other", flag.name)));
        }
    }
    Ok(Parsed::Command(command, given))
}

/// An error in the value of an option, with the usage.
pub(super) fn wrong_value(command: &Command, said: &str) -> String {
    wrong(said, &[], Some(command))
}

/// Whether a command has more words than these, and begins with them.
fn begins(command: &Command, words: &[String]) -> bool {
    command.words.len() > words.len() && command.words.iter().zip(words).all(|(one, two)| one == two)
}

fn did_you_mean<'a>(unknown: &str, known: impl Iterator<Item = &'a str>, dashes: &str) -> String {
    nearest(unknown, known).map(|meant| format!("; did you mean `{dashes}{meant}`?")).unwrap_or_default()
}

fn command(words: &[String]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.words == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Parsed, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_before_and_after_the_words() {
        for line in
            ["--config a render target --backstore-dir=/x", "render target --backstore-dir /x --config=a"]
        {
            let Parsed::Command(command, given) = asked(line).unwrap() else { panic!("{line}") };
            assert_eq!(command.words, ["render", "target"]);
            assert_eq!(given.value("config").unwrap(), "a");
            assert_eq!(given.parsed::<String>("backstore-dir"), Ok(Some("/x".into())));
            assert!(!given.has("backstore-block"));
        }
    }

    #[test]
    fn an_operand_before_and_after_options() {
        for line in ["bench /x --json", "bench --json -- /x"] {
            let Parsed::Command(_, given) = asked(line).unwrap() else { panic!("{line}") };
            assert_eq!(given.value("PATH").unwrap(), "/x");
        }
        let Parsed::Command(_, given) = asked("bench").unwrap() else { panic!() };
        assert_eq!(given.value("PATH"), None);
    }

    #[test]
    fn a_value_that_is_wrong_is_named_with_its_option() {
        let Parsed::Command(_, given) = asked("bench --writes x --size 9").unwrap() else { panic!() };
        assert_eq!(given.number::<u32>("writes").unwrap_err(), "--writes: `x` is not a number, or too large");
        assert_eq!(given.number::<u32>("size"), Ok(Some(9)));
        let Parsed::Command(_, given) = asked("retired delete 99999999999999999999").unwrap() else {
            panic!()
        };
        let said = given.number::<u64>("GENERATION").unwrap_err();
        assert!(said.starts_with("GENERATION: `99999999999999999999` is not a number"), "{said}");
    }

    #[test]
    fn wrong_lines_say_what_and_how() {
        for (line, said, usage) in [
            ("", "a command is missing", "etcd-lun COMMAND"),
            ("destroy", "`destroy` is not a command", "etcd-lun COMMAND"),
            ("render", "second word", "etcd-lun render COMMAND"),
            ("render all", "`all` is not a command", "etcd-lun render COMMAND"),
            ("apply now", "unexpected argument `now`", "etcd-lun apply"),
            ("help plan now", "unexpected argument `now`", "etcd-lun plan"),
            ("help destroy", "`destroy` is not a command", "etcd-lun COMMAND"),
            ("aply", "did you mean `apply`?", "etcd-lun COMMAND"),
            ("render butan", "did you mean `butane`?", "etcd-lun render COMMAND"),
            ("plan --jsn", "no option --jsn here; did you mean `--json`?", "etcd-lun plan"),
            ("apply --force", "no option --force", "etcd-lun apply"),
            ("apply -f", "no option -f", "etcd-lun apply"),
            ("--json status", "no option --json", "etcd-lun COMMAND"),
            ("plan --json --json", "--json is given twice", "etcd-lun plan"),
            ("plan --json=yes", "yes", "etcd-lun plan"),
            ("plan --config", "config", "etcd-lun plan"),
            ("bench /a /b", "PATH is given twice", "etcd-lun bench [PATH]"),
            (
                "retired delete 1 2",
                "GENERATION is given twice",
                "etcd-lun retired delete GENERATION [OPTIONS]",
            ),
            (
                "render target --backstore-block --backstore-dir /x",
                "--backstore-dir and --backstore-block exclude each other",
                "etcd-lun render target",
            ),
        ] {
            let error = asked(line).unwrap_err();
            assert!(error.starts_with("error: ") && error.contains(said), "{line}: {error}");
            assert!(error.contains(&format!("Usage: {usage}")), "{line}: {error}");
        }
    }

    #[test]
    fn help_fits_and_names_everything() {
        let lines =
            COMMANDS.iter().map(|command| command.words.join(" ")).chain(["".into(), "render".into()]);
        for line in lines {
            let Parsed::Text(text) = asked(&format!("{line} --help")).unwrap() else { panic!("{line}") };
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            // `help --help` is the help of `help`, and `help help` too.
            let other = if line == "help" { "help help".into() } else { format!("help {line}") };
            let Parsed::Text(same) = asked(&other).unwrap() else { panic!("{line}") };
            assert!(text == same || line == "help", "{text}");
            let named = COMMANDS.iter().find(|command| command.words.join(" ") == line);
            for flag in named.map_or(&[][..], |command| command.flags).iter().chain(&GLOBAL) {
                assert!(text.contains(&format!("--{}", flag.name)), "{text}");
            }
            let Parsed::Text(version) = asked(&format!("{line} --version")).unwrap() else {
                panic!("{line}")
            };
            assert!(version.starts_with("etcd-lun "), "{version}");
        }
        let Parsed::Text(version) = asked("version").unwrap() else { panic!() };
        assert!(version.starts_with("etcd-lun "), "{version}");
        for command in COMMANDS {
            let others: Vec<_> = command.flags.iter().filter_map(|flag| flag.conflicts_with).collect();
            assert!(others.iter().all(|other| command.flags.iter().any(|flag| flag.name == *other)));
        }
    }
}

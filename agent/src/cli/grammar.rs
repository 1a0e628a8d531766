//! The command line as a table: what there is, how it is taken, and the help that says so.

use std::{ffi::OsString, fmt, fmt::Write as _};

/// An option.
#[derive(Debug)]
pub(super) struct Flag {
    /// Its name, without the dashes.
    pub name: &'static str,
    /// What its value is called; none for a switch.
    pub value: Option<&'static str>,
    /// What it does, in a line or two.
    pub help: &'static str,
    /// The only flag that it can't be given together with.
    pub against: Option<&'static str>,
}

/// A verb, or a verb and what it is about.
#[derive(Debug)]
pub(super) struct Command {
    /// One word, or two.
    pub words: &'static [&'static str],
    /// What it does.
    pub about: &'static str,
    /// Its own options.
    pub flags: &'static [Flag],
    /// What its help ends with.
    pub after: &'static str,
}

const fn switch(name: &'static str, help: &'static str) -> Flag {
    Flag { name, value: None, help, against: None }
}

const fn option(name: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag { name, value: Some(value), help, against: None }
}

const fn plain(words: &'static [&'static str], about: &'static str, flags: &'static [Flag]) -> Command {
    Command { words, about, flags, after: "" }
}

const ABOUT: &str = "Moves a node's etcd to an iSCSI LUN of its own, without ever losing a write";
const EXIT_CODES: &str =
    "Exit codes: 0 converged or healthy, 1 error, 2 usage or config, 3 refused, 4 unhealthy";

const JSON: Flag = switch("json", "Print JSON");

/// Options of every command.
const GLOBAL: [Flag; 2] = [
    option("config", "FILE", "Read this file instead of /etc/etcd-lun/config.toml and config.d/*.toml"),
    switch("help", "Print help"),
];

const DELIVERY: &[Flag] = &[
    option("role", "ROLE", "The role that the MachineConfigPool selects by [default: master]"),
    option("name", "NAME", "The object's name [default: 98-ROLE-etcd-lun]"),
    option("binary", "PATH", "Deliver this build instead of the program that runs"),
    Flag {
        name: "secrets-from",
        value: Some("DIR"),
        help: "Read the files of secrets from here, by their last names, not from where the config says",
        against: Some("without-secrets"),
    },
    switch("without-secrets", "Leave the files of secrets out: they come to the nodes in another way"),
];

/// Every command, in the order of the help.
pub(super) const COMMANDS: &[Command] = &[
    plain(
        &["apply"],
        "Bring the node to what the config wants; idempotent",
        &[
            switch("dry-run", "Print what would be done and change nothing; the same as `plan`"),
            switch(
                "boot",
                "As the service does at boot: an etcd that runs isn't stopped, and nothing waits for etcd",
            ),
            JSON,
        ],
    ),
    plain(&["plan"], "Print what `apply` would do, and why it would not; changes nothing", &[JSON]),
    plain(&["status"], "Show sessions, LUN, filesystem, mount, authority and etcd on one page", &[JSON]),
    plain(
        &["health"],
        "Check this node's etcd storage; exits with 4 unless every check is ok",
        &[switch("list", "Print the checks there are, and what each protects"), JSON],
    ),
    plain(
        &["config", "check"],
        "Print the merged config, secrets hidden, and the node entry that this host takes",
        &[JSON],
    ),
    plain(
        &["render", "units"],
        "Write the systemd units into a directory",
        &[option("into", "DIR", "The directory, such as /etc/systemd/system")],
    ),
    Command {
        words: &["render", "machineconfig"],
        about: "Print a MachineConfig that brings program, config, secrets and units to a pool's nodes",
        flags: DELIVERY,
        after: "Create it with `oc create -f`, change it with `oc replace -f`, or use `oc apply --server-side`:\n\
                a plain `oc apply` keeps a copy of the object in an annotation, which is too small for it.",
    },
    plain(
        &["render", "butane"],
        "Print the same as Butane; the program is a file that `butane --files-dir` finds",
        DELIVERY,
    ),
    plain(
        &["render", "target"],
        "Print a script that makes the target for the config, on a Linux machine with targetcli",
        &[
            Flag {
                name: "backstore-dir",
                value: Some("DIR"),
                help: "Keep the LUNs in files of this directory of the target's machine [default: \
                       /var/lib/etcd-lun-target]",
                against: Some("backstore-block"),
            },
            switch(
                "backstore-block",
                "Keep the LUNs on block devices, which are named when the script is run",
            ),
        ],
    ),
];

/// What was asked for.
#[derive(Debug)]
pub(super) enum Asked {
    /// A command, with its options.
    Command(&'static Command, Given),
    /// Its text is to be printed.
    Text(String),
}

/// Options as given.
#[derive(Debug, Default)]
pub(super) struct Given(Vec<(&'static str, OsString)>);

impl Given {
    /// Whether a switch was given.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| *given == name)
    }

    /// The value of an option.
    pub fn value(&self, name: &str) -> Option<&OsString> {
        self.0.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// The value of an option, parsed.
    pub fn parsed<T: std::str::FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let text = value.to_str().ok_or_else(|| format!("--{name}: `{}` is not UTF-8", value.display()))?;
        text.parse().map(Some).map_err(|error| format!("--{name}: {error}"))
    }
}

/// Takes a command line, without the program's name. The error is for the person who wrote it, with the usage.
pub(super) fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Asked, String> {
    use lexopt::Arg::{Long, Short, Value};
    let mut parser = lexopt::Parser::from_args(line);
    let mut words: Vec<String> = Vec::new();
    let mut given = Given::default();
    loop {
        let found = command(&words);
        let usage = usage(&words, found);
        let wrong = |said: String| format!("error: {said}\n\n{usage}");
        let taken = match parser.next().map_err(|error| wrong(error.to_string()))? {
            None => break,
            Some(Short('h')) => GLOBAL.iter().find(|flag| flag.name == "help"),
            Some(Short('V')) => return Ok(Asked::Text(version())),
            Some(Long("version")) if words.is_empty() => return Ok(Asked::Text(version())),
            Some(Long(name)) => {
                let own = found.map_or(&[][..], |command| command.flags);
                let known = GLOBAL.iter().chain(own).find(|flag| flag.name == name);
                Some(known.ok_or_else(|| wrong(format!("there is no option --{name} here")))?)
            }
            Some(Short(letter)) => return Err(wrong(format!("there is no option -{letter}"))),
            Some(Value(word)) => {
                let word = word.to_string_lossy().into_owned();
                let longer: Vec<_> = words.iter().map(String::as_str).chain([word.as_str()]).collect();
                if found.is_some() || !COMMANDS.iter().any(|command| command.words.starts_with(&longer)) {
                    return Err(wrong(format!("`{word}` is no command here")));
                }
                words.push(word);
                None
            }
        };
        if let Some(flag) = taken {
            if given.has(flag.name) {
                return Err(wrong(format!("--{} is given twice", flag.name)));
            }
            let value = match flag.value {
                Some(_) => parser.value().map_err(|error| wrong(error.to_string()))?,
                None => OsString::new(),
            };
            given.0.push((flag.name, value));
        }
    }
    let found = command(&words);
    if given.has("help") {
        return Ok(Asked::Text(help(&words, found)));
    }
    let wrong = |said: String| format!("error: {said}\n\n{}", usage(&words, found));
    let Some(command) = found else {
        let missing = if words.is_empty() { "a command is missing" } else { "the second word is missing" };
        return Err(wrong(missing.into()));
    };
    for flag in command.flags {
        if let Some(other) = flag.against.filter(|other| given.has(flag.name) && given.has(other)) {
            return Err(wrong(format!("--{} and --{other} exclude each other", flag.name)));
        }
    }
    Ok(Asked::Command(command, given))
}

/// An error in the value of an option, with the usage.
pub(super) fn wrong_value(command: &Command, said: &str) -> String {
    format!("error: {said}\n\n{}", usage(&[], Some(command)))
}

fn command(words: &[String]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.words == words)
}

fn version() -> String {
    concat!("etcd-lun ", env!("CARGO_PKG_VERSION")).into()
}

fn usage(words: &[String], command: Option<&Command>) -> String {
    let begun = match command {
        Some(command) => format!("{} [OPTIONS]", command.words.join(" ")),
        None => {
            format!("{}COMMAND [OPTIONS]", words.iter().map(|word| format!("{word} ")).collect::<String>())
        }
    };
    format!("Usage: etcd-lun {begun}\n\nFor more, try --help.")
}

fn help(words: &[String], command: Option<&Command>) -> String {
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
        let _ = write!(text, "\n{EXIT_CODES}");
    }
    if let Some(command) = command.filter(|command| !command.after.is_empty()) {
        let _ = write!(text, "\n{}", command.after);
    }
    text
}

/// A name and what it means, in two columns of a terminal of 100.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_before_and_after_the_words() {
        for line in
            ["--config a render target --backstore-dir=/x", "render target --backstore-dir /x --config=a"]
        {
            let Asked::Command(command, given) = asked(line).unwrap() else { panic!("{line}") };
            assert_eq!(command.words, ["render", "target"]);
            assert_eq!(given.value("config").unwrap(), "a");
            assert_eq!(given.parsed::<String>("backstore-dir"), Ok(Some("/x".into())));
            assert!(!given.has("backstore-block"));
        }
    }

    #[test]
    fn wrong_lines_say_what_and_how() {
        for (line, said, usage) in [
            ("", "a command is missing", "etcd-lun COMMAND"),
            ("destroy", "`destroy` is no command", "etcd-lun COMMAND"),
            ("render", "second word", "etcd-lun render COMMAND"),
            ("render all", "`all` is no command", "etcd-lun render COMMAND"),
            ("apply now", "`now` is no command", "etcd-lun apply"),
            ("apply --force", "no option --force", "etcd-lun apply"),
            ("apply -f", "no option -f", "etcd-lun apply"),
            ("--json status", "no option --json", "etcd-lun COMMAND"),
            ("plan --json --json", "--json is given twice", "etcd-lun plan"),
            ("plan --json=yes", "yes", "etcd-lun plan"),
            ("plan --config", "config", "etcd-lun plan"),
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
            let Asked::Text(text) = asked(&format!("{line} --help")).unwrap() else { panic!("{line}") };
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
            let named = COMMANDS.iter().find(|command| command.words.join(" ") == line);
            for flag in named.map_or(&[][..], |command| command.flags).iter().chain(&GLOBAL) {
                assert!(text.contains(&format!("--{}", flag.name)), "{text}");
            }
        }
        for command in COMMANDS {
            let others: Vec<_> = command.flags.iter().filter_map(|flag| flag.against).collect();
            assert!(others.iter().all(|other| command.flags.iter().any(|flag| flag.name == *other)));
        }
    }
}

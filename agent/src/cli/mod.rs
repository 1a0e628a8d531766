//! Verbs, exit codes, and the only printing.
//!
//! What each verb does is in its own file; how facts, plans and reports look is in [`show`].

mod apply;
mod bench;
mod config;
mod env;
mod events;
pub mod grammar;
mod health;
mod logging;
mod mark;
mod progress;
mod render;
mod retired;
mod selinux;
mod show;
mod view;

use crate::{
    apply::Failure,
    config::ConfigError,
    delivery::Backstores,
    plan::{Goal, Occasion, Refusal},
    terms::AbsPath,
};
use grammar::{Asked, Given};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{ExitCode, Termination},
};

/// How facts are printed.
#[derive(Debug, Clone, Copy)]
struct OutputFormat {
    json: bool,
}

/// The format of every JSON output.
const JSON_VERSION: u32 = 1;

/// How the program ends: the first word of its last line, and its exit code.
#[derive(Debug)]
pub enum Exit {
    /// Converged or healthy, or help was asked for.
    Success,
    /// Something went wrong.
    Error(anyhow::Error),
    /// The command line or the config is wrong.
    Usage(String),
    /// It will not act; the reason.
    Refused(Box<Refusal>),
    /// A check is not ok; which ones.
    Unhealthy(String),
}

impl Exit {
    fn code(&self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Error(_) => 1,
            Self::Usage(_) => 2,
            Self::Refused(_) => 3,
            Self::Unhealthy(_) => 4,
        }
    }

    /// One line: what, with all its causes.
    fn line(&self) -> Option<String> {
        match self {
            Self::Success => None,
            Self::Error(error) => Some(format!("error: {error:#}")),
            Self::Usage(text) => Some(format!("error: {text}")),
            Self::Refused(refusal) => Some(format!("refused: {refusal}")),
            // The journal has it already, once.
            Self::Unhealthy(text) if text.is_empty() => None,
            Self::Unhealthy(text) => Some(format!("unhealthy: {text}")),
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.code().into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.report()
    }
}

impl From<ConfigError> for Exit {
    fn from(error: ConfigError) -> Self {
        Self::Usage(format!("{:#}", anyhow::Error::from(error)))
    }
}

impl From<anyhow::Error> for Exit {
    fn from(error: anyhow::Error) -> Self {
        Self::Error(error)
    }
}

impl From<Failure> for Exit {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => Self::Refused(refusal),
            Failure::Error(error) => Self::Error(error),
        }
    }
}

impl From<Refusal> for Exit {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

/// Runs the program on this process's arguments.
pub fn main() -> Exit {
    let (command, given) = match grammar::parse(env::arguments()) {
        Ok(Asked::Command(command, given)) => (command, given),
        Ok(Asked::Text(text)) => {
            say(&text);
            return Exit::Success;
        }
        Err(said) => {
            complain(&said);
            return Exit::Usage(String::new());
        }
    };
    let act = match act(command.words, &given) {
        Ok(act) => act,
        Err(said) => {
            complain(&grammar::wrong_value(command, &said));
            return Exit::Usage(String::new());
        }
    };
    logging::install();
    match act(given.value("config").map(Path::new)) {
        Ok(()) => Exit::Success,
        Err(exit) => {
            logging::last_word(&exit, given.has("json"));
            exit
        }
    }
}

/// What a command does with the config in a file, once its options are understood.
type Act = Box<dyn FnOnce(Option<&Path>) -> Result<(), Exit>>;

/// What a command does; the error says what is wrong with its options.
fn act(words: &[&str], given: &Given) -> Result<Act, String> {
    let output = OutputFormat { json: given.has("json") };
    let goal = match words {
        ["rollback"] => Goal::Local,
        _ if given.has("boot") => Goal::Lun(Occasion::Boot),
        _ => Goal::Lun(Occasion::ByHand),
    };
    Ok(match words {
        ["apply" | "rollback"] if given.has("dry-run") => {
            Box::new(move |file| view::plan(file, goal, output))
        }
        ["apply" | "rollback"] => Box::new(move |file| apply::run(file, goal, output)),
        ["retired", "list"] => Box::new(move |file| retired::list(file, output)),
        ["retired", "delete"] => {
            let missing = "GENERATION is missing: `etcd-lun retired list` shows what there is";
            let generation = given.number("GENERATION")?.ok_or(missing)?;
            let dry_run = given.has("dry-run");
            Box::new(move |file| retired::delete(file, generation, dry_run))
        }
        ["mark"] => Box::new(mark::run),
        ["let-go"] => Box::new(mark::let_go),
        ["plan"] => Box::new(move |file| view::plan(file, goal, output)),
        ["status"] => Box::new(move |file| view::status(file, output)),
        ["health"] if given.has("list") => Box::new(|_| {
            say(&health::list());
            Ok(())
        }),
        ["health"] => {
            let options = health::Options::from(given)?;
            Box::new(move |file| health::run(file, &options, output))
        }
        ["selinux", "install"] => Box::new(selinux::install),
        ["selinux", "status"] => Box::new(move |file| selinux::status(file, output)),
        ["selinux", "remove"] => Box::new(selinux::remove),
        ["bench"] => {
            let options = bench::Options::from(given)?;
            Box::new(move |file| bench::run(file, &options, output))
        }
        ["config", "check"] => {
            let node = given.parsed::<String>("node")?;
            Box::new(move |file| config::check(file, node.as_deref(), output))
        }
        ["render", "units"] => {
            let into: PathBuf = given.value("into").ok_or("--into <DIR> is missing")?.into();
            let packaged = given.has("packaged");
            Box::new(move |file| render::units(file, &into, packaged))
        }
        ["render", "machineconfig"] => {
            let options = render::Options::from(given)?;
            Box::new(move |file| render::machineconfig(file, &options))
        }
        ["render", "butane"] => {
            let options = render::Options::from(given)?;
            Box::new(move |file| render::butane(file, &options))
        }
        ["render", "policy"] => Box::new(render::policy),
        ["render", "udev"] => Box::new(render::udev),
        ["render", "target"] => {
            let backstores = match given.parsed::<AbsPath>("backstore-dir")? {
                _ if given.has("backstore-block") => Backstores::Devices,
                Some(dir) => Backstores::Files(dir),
                None => Backstores::Files(BACKSTORE_DIR.parse().map_err(|error| format!("{error}"))?),
            };
            Box::new(move |file| render::target(file, &backstores))
        }
        other => return Err(format!("`{}` is not understood", other.join(" "))),
    })
}

/// Where a target's machine keeps the LUNs unless told otherwise.
const BACKSTORE_DIR: &str = "/var/lib/etcd-lun-target";

/// Prints to standard output. A reader that went away (`| head`) is not an error.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
}

/// Prints to standard error.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
}

/// Prints a value as JSON, with the version of the format beside it.
fn say_json(kind: &str, value: &impl serde::Serialize) -> Result<(), Exit> {
    let text = serde_json::to_string_pretty(&serde_json::json!({ "version": JSON_VERSION, kind: value }))
        .map_err(anyhow::Error::from)?;
    say(&text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_table_is_understood() {
        for command in grammar::COMMANDS {
            let into = command.flags.iter().any(|flag| flag.name == "into").then_some("--into=/x");
            let operand = command.operand.filter(|operand| operand.required).map(|_| "1");
            let line = command.words.iter().copied().chain(into).chain(operand).map(Into::into);
            let Ok(Asked::Command(found, given)) = grammar::parse(line) else { panic!("{command:?}") };
            assert!(act(found.words, &given).is_ok(), "{command:?}");
        }
    }
}

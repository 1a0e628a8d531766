//! The command line: verbs, exit codes, and all printing.
//!
//! Each verb has its own file. [`show`] writes facts and plans for a person.

mod apply;
mod bench;
mod check;
mod config;
mod env;
mod events;
mod exit;
mod follow;
pub mod grammar;
mod health;
mod logging;
mod luns;
mod mark;
mod output;
mod page;
mod progress;
mod render;
mod retired;
mod selinux;
mod show;
mod show_config;
mod view;

pub use exit::Exit;

use crate::plan::{Goal, Occasion};
use grammar::{Arguments, Parsed};
use output::{OutputFormat, print_err, print_out};
use std::path::{Path, PathBuf};

/// Runs the program with this process's arguments.
pub fn main() -> Exit {
    let (command, given) = match grammar::parse(env::arguments()) {
        Ok(Parsed::Command(command, given)) => (command, given),
        Ok(Parsed::Text(text)) => {
            print_out(&text);
            return Exit::Success;
        }
        Err(wrong) => {
            print_err(&wrong);
            return Exit::Usage(String::new());
        }
    };
    let action = match action(command.words, &given) {
        Ok(action) => action,
        Err(wrong) => {
            print_err(&grammar::wrong_value(command, &wrong));
            return Exit::Usage(String::new());
        }
    };
    if let Err(wrong) = logging::install(is_run(command.words) && !given.has("dry-run")) {
        let exit = Exit::Usage(wrong);
        logging::report_failure(&exit, given.has("json"));
        return exit;
    }
    let exit = match action(given.value("config").map(Path::new)) {
        Ok(()) => Exit::Success,
        Err(exit) => {
            logging::report_failure(&exit, given.has("json"));
            exit
        }
    };
    output::finish();
    exit
}

/// Whether a command may change where etcd's data is.
fn is_run(words: &[&str]) -> bool {
    matches!(words, ["apply" | "rollback" | "claim"])
}

/// What a command does, given the config file that the command line names.
type Action = Box<dyn FnOnce(Option<&Path>) -> Result<(), Exit>>;

/// What a command does. The error says which option is wrong.
fn action(words: &[&str], given: &Arguments) -> Result<Action, String> {
    let output = OutputFormat { json: given.has("json") };
    let goal = match words {
        ["rollback"] => Goal::Local,
        ["claim"] => Goal::Claim,
        _ if given.has("boot") => Goal::Lun(Occasion::Boot),
        _ => Goal::Lun(Occasion::ByHand),
    };
    Ok(match words {
        ["apply" | "rollback" | "claim"] if given.has("dry-run") => {
            Box::new(move |file| view::plan(file, goal, output))
        }
        ["apply" | "rollback" | "claim"] => {
            let follow = !given.has("no-follow");
            Box::new(move |file| apply::run(file, goal, follow, output))
        }
        ["retired", "list"] => Box::new(move |file| retired::list(file, output)),
        ["retired", "delete"] => {
            let missing = "GENERATION is missing: `etcd-lun retired list` shows the generations";
            let generation = given.number("GENERATION")?.ok_or(missing)?;
            let dry_run = given.has("dry-run");
            Box::new(move |file| retired::delete(file, generation, dry_run))
        }
        ["mark"] => Box::new(mark::run),
        ["let-go"] => Box::new(mark::let_go),
        ["luns"] => Box::new(move |file| luns::run(file, output)),
        ["plan"] => Box::new(move |file| view::plan(file, goal, output)),
        ["status"] => Box::new(move |file| view::status(file, output)),
        ["health"] if given.has("list") => Box::new(move |_| health::list(output)),
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
            Box::new(move |file| check::check(file, node.as_deref(), output))
        }
        ["config", "example"] => Box::new(|_| check::example()),
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
        ["render", "multipath"] => Box::new(render::multipath),
        ["render", "target"] => {
            let kind = render::TargetKind::from(given)?;
            Box::new(move |file| render::target(file, &kind))
        }
        other => return Err(format!("`{}` is not a command", other.join(" "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_table_has_an_action() {
        for command in grammar::COMMANDS {
            let into = command.flags.iter().any(|flag| flag.name == "into").then_some("--into=/x");
            let operand = command.operand.filter(|operand| operand.required).map(|_| "1");
            let line = command.words.iter().copied().chain(into).chain(operand).map(Into::into);
            let (found, given) = match grammar::parse(line).unwrap() {
                Parsed::Command(found, given) => (found, given),
                Parsed::Text(_) if matches!(command.words, ["help" | "version"]) => continue,
                Parsed::Text(text) => panic!("{command:?}: {text}"),
            };
            assert!(action(found.words, &given).is_ok(), "{command:?}");
        }
    }
}

//! The command line: verbs, exit codes, and all printing.
//!
//! Each verb has its own file. [`show`] writes facts and plans for a person.

mod apply;
mod bench;
mod check;
mod completion;
mod config;
mod document;
pub mod documents;
mod entries;
mod env;
mod events;
mod exit;
mod explain;
mod failure;
mod follow;
mod grammar;
mod hands;
mod health;
mod init;
mod logging;
mod luns;
mod man;
mod mark;
mod output;
mod page;
mod pool;
mod progress;
mod render;
mod render_target;
mod report;
mod retired;
mod secrets;
mod selinux;
mod show;
mod show_config;
mod values;
mod view;
mod wrapped;
mod written;

pub use entries::{Entry, entries};
pub use env::ENVIRONMENT;
pub use exit::{EXIT_CODES, Exit};
pub use grammar::command;

use grammar::{CommandLine, Config, Parsed, Render, Retired, Selinux, Verb};
use output::{print_document, print_err, print_out};
use plan::{Goal, Occasion};
use std::path::Path;

/// Runs the program with this process's arguments.
pub fn main() -> Exit {
    match completion::answer(grammar::command) {
        Ok(false) => {}
        Ok(true) => return Exit::Success,
        Err(exit) => {
            logging::report_failure(&exit, false);
            return exit;
        }
    }
    let (CommandLine { config, verb }, json) = match grammar::parse(env::arguments()) {
        Ok(Parsed::CommandLine { line, json }) => (*line, json),
        Ok(Parsed::Text(text)) => {
            print_out(&text);
            return whole(Exit::Success);
        }
        Err(mistake) => {
            print_err(&mistake.text);
            let exit = Exit::Usage(mistake.line);
            if mistake.json {
                logging::report_failure_as_json(&exit);
            }
            return exit;
        }
    };
    if let Err(wrong) = logging::install(verb.is_run(), matches!(verb, Verb::Hands(_))) {
        let exit = Exit::Usage(wrong);
        logging::report_failure(&exit, json);
        return exit;
    }
    let exit = match run(&verb, config.as_deref()) {
        Ok(()) => Exit::Success,
        Err(exit) => {
            logging::report_failure(&exit, json);
            exit
        }
    };
    output::finish();
    whole(exit)
}

/// The end of a run whose output was lost, such as on a full disk, is an error: somebody would take half of it for the whole.
fn whole(exit: Exit) -> Exit {
    match (exit, output::lost()) {
        (Exit::Success | Exit::Unhealthy(_), Some(why)) => {
            let exit = Exit::Error(anyhow::anyhow!("printing to standard output: {why}"));
            logging::report_failure(&exit, false);
            exit
        }
        (exit, _) => exit,
    }
}

/// Does what the command line asks for, with the config that it names.
fn run(verb: &Verb, file: Option<&Path>) -> Result<(), Exit> {
    let by_hand = Goal::Lun(Occasion::ByHand);
    match verb {
        Verb::Apply(options) if options.if_lost => apply::run_if_lost(file),
        Verb::Apply(options) if options.boot => apply::run(file, Goal::Lun(Occasion::Boot), &options.by_hand),
        Verb::Apply(options) => apply::run(file, by_hand, &options.by_hand),
        Verb::Rollback(options) => apply::run(file, Goal::Local, options),
        Verb::Claim(options) => apply::claim(file, options),
        Verb::Plan(output) => view::plan(file, by_hand, None, *output),
        Verb::Status(output) => view::status(file, *output),
        Verb::Luns(output) => luns::run(file, *output),
        Verb::Health(options) => health::run(file, options),
        Verb::Retired(Retired::List(output)) => retired::list(file, *output),
        Verb::Retired(Retired::Delete(options)) => retired::delete(file, options),
        Verb::Bench(options) => bench::run(file, options),
        Verb::Selinux(Selinux::Install) => selinux::install(file),
        Verb::Selinux(Selinux::Status(output)) => selinux::status(file, *output),
        Verb::Selinux(Selinux::Remove) => selinux::remove(file),
        Verb::Config(Config::Check(options)) => check::check(file, options),
        Verb::Config(Config::Init(_)) if file.is_some() => Err(Exit::Usage(
            "--config: `config init` reads no config: name the file that it writes by --output".into(),
        )),
        Verb::Config(Config::Init(options)) => init::run(options),
        Verb::Config(Config::Example) => check::example(),
        Verb::Config(Config::Schema) => check::schema(),
        Verb::Render(Render::Units(options)) => render::units(file, options),
        Verb::Render(Render::Machineconfig(options)) => render::machineconfig(file, options),
        Verb::Render(Render::Butane(options)) => render::butane(file, options),
        Verb::Render(Render::Pinnedimageset(options)) => render::pinned(options),
        Verb::Render(Render::Nodedisruptionpolicy) => print_document(&delivery::disruption_policy()),
        Verb::Render(Render::Policy) => render::policy(file),
        Verb::Render(Render::Udev) => render::udev(file),
        Verb::Render(Render::Multipath) => render::multipath(file),
        Verb::Render(Render::Target(options)) => render_target::target(file, options),
        Verb::Report(options) => report::run(file, options, &grammar::version()),
        Verb::Pool(pool::Verb::Health(options)) => pool::health(file, options),
        Verb::Pool(pool::Verb::Fetch(options)) => pool::fetch(file, options),
        Verb::Pool(pool::Verb::Apply(options)) => pool::apply(file, options),
        Verb::Explain(options) => explain::run(options),
        Verb::Completion(options) => completion::script(options),
        Verb::Man(options) => man::write(options, grammar::command()),
        Verb::Version => {
            print_out(&grammar::version());
            Ok(())
        }
        Verb::Mark => mark::run(file),
        Verb::LetGo => mark::let_go(file),
        Verb::Hands(options) => hands::run(options),
    }
}

//! Verbs, exit codes, and the only printing.
//!
//! What each verb does is in its own file; how facts, plans and reports look is in [`show`].

mod apply;
mod config;
mod env;
mod logging;
mod progress;
mod render;
mod show;
mod view;

use crate::{
    config::ConfigError,
    delivery::Backstores,
    plan::{Occasion, Refusal},
    terms::AbsPath,
};
use clap::{Args, Parser, Subcommand};
use std::{
    io::Write,
    path::PathBuf,
    process::{ExitCode, Termination},
};

/// Moves a node's etcd to an iSCSI LUN of its own, without ever losing a write.
#[derive(Debug, Parser)]
#[command(
    name = "etcd-lun",
    version,
    after_help = "Exit codes: 0 converged or healthy, 1 error, 2 usage or config, 3 refused, 4 unhealthy"
)]
struct Cli {
    /// Read this file instead of /etc/etcd-lun/config.toml and config.d/*.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Bring the node to what the config wants; idempotent
    Apply {
        /// Print what would be done and change nothing; the same as `plan`
        #[arg(long)]
        dry_run: bool,
        /// As the service does at boot: an etcd that runs isn't stopped, and nothing waits for etcd
        #[arg(long)]
        boot: bool,
        #[command(flatten)]
        output: OutputFormat,
    },
    /// Print what `apply` would do, and why it would not; changes nothing
    Plan {
        #[command(flatten)]
        output: OutputFormat,
    },
    /// Show sessions, LUN, filesystem, mount, authority and etcd on one page
    Status {
        #[command(flatten)]
        output: OutputFormat,
    },
    /// Check this node's etcd storage; exits with 4 unless every check is ok
    Health {
        /// Print the checks there are, and what each protects
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        output: OutputFormat,
    },
    /// Look at the config
    Config {
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Write what the node needs besides this program
    Render {
        #[command(subcommand)]
        what: RenderVerb,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// Print the merged config, secrets hidden, and the node entry that this host takes
    Check {
        #[command(flatten)]
        output: OutputFormat,
    },
}

#[derive(Debug, Subcommand)]
enum RenderVerb {
    /// Write the systemd units into a directory
    Units {
        /// The directory, such as /etc/systemd/system
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
    /// Print a MachineConfig that brings this program, the config, its secrets and the units to every node of a pool
    #[command(
        after_help = "Create it with `oc create -f`, change it with `oc replace -f`, or use `oc apply --server-side`: a plain `oc\napply` keeps a copy of the object in an annotation, which is too small for it."
    )]
    Machineconfig(render::Options),
    /// Print the same as Butane; the program is named as a file that `butane --files-dir` finds
    Butane(render::Options),
    /// Print a script that makes the target for the config, on a Linux machine with targetcli
    Target {
        /// Keep the LUNs in files of this directory of the target's machine
        #[arg(long, value_name = "DIR", default_value = "/var/lib/etcd-lun-target")]
        backstore_dir: AbsPath,
        /// Keep the LUNs on block devices, which are named when the script is run
        #[arg(long, conflicts_with = "backstore_dir")]
        backstore_block: bool,
    },
}

#[derive(Debug, Args, Clone, Copy)]
struct OutputFormat {
    /// Print JSON
    #[arg(long)]
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

impl From<Refusal> for Exit {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

/// Runs the program on this process's arguments.
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            complain(&format!("{error}"));
            return Exit::Usage(String::new());
        }
        Err(help_or_version) => {
            say(&help_or_version.to_string());
            return Exit::Success;
        }
    };
    let json = cli.verb.wants_json();
    match dispatch(cli) {
        Ok(()) => Exit::Success,
        Err(exit) => {
            logging::last_word(&exit, json);
            exit
        }
    }
}

fn dispatch(cli: Cli) -> Result<(), Exit> {
    logging::install();
    let file = cli.config.as_deref();
    match cli.verb {
        Verb::Apply { dry_run: false, boot, output } => apply::run(file, occasion(boot), output),
        Verb::Apply { dry_run: true, boot, output } => view::plan(file, occasion(boot), output),
        Verb::Plan { output } => view::plan(file, Occasion::ByHand, output),
        Verb::Status { output } => view::status(file, output),
        Verb::Health { list: true, .. } => {
            say(&show::checks());
            Ok(())
        }
        Verb::Health { list: false, output } => view::health(file, output),
        Verb::Config { verb: ConfigVerb::Check { output } } => config::check(file, output),
        Verb::Render { what: RenderVerb::Units { into } } => render::units(file, &into),
        Verb::Render { what: RenderVerb::Machineconfig(options) } => render::machineconfig(file, &options),
        Verb::Render { what: RenderVerb::Butane(options) } => render::butane(file, &options),
        Verb::Render { what: RenderVerb::Target { backstore_dir, backstore_block } } => {
            let backstores =
                if backstore_block { Backstores::Devices } else { Backstores::Files(backstore_dir) };
            render::target(file, &backstores)
        }
    }
}

fn occasion(boot: bool) -> Occasion {
    if boot { Occasion::Boot } else { Occasion::ByHand }
}

impl Verb {
    fn wants_json(&self) -> bool {
        match self {
            Self::Apply { output, .. }
            | Self::Plan { output }
            | Self::Status { output }
            | Self::Health { output, .. }
            | Self::Config { verb: ConfigVerb::Check { output } } => output.json,
            Self::Render { .. } => false,
        }
    }
}

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

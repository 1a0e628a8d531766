//! `cargo xtask`: what a developer does with the checkout. Each command runs the script or the program that does it, and prints
//! its command line first, so that nobody depends on this program.
#![allow(clippy::disallowed_methods, reason = "it runs the checkout's own scripts")]

mod commits;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

/// Builds, tests, shows and releases etcd-lun.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build the static program, and print its path last.
    Build {
        /// As it is released: smaller, and slow to build.
        #[arg(long)]
        release: bool,
    },
    /// Check the form, the lints, the language of new commits, and the tests that need neither root nor a virtual machine.
    Check,
    /// Run all tests, as CI does. As root.
    Test,
    /// Play scenarios on nodes in virtual machines. As root.
    Scenario {
        /// Texts of their names, such as `migrate/`. Without one, print all names.
        names: Vec<String>,
        /// Play the core and this share of the others, as a run of all tests does.
        #[arg(long, conflicts_with = "names")]
        share: Option<usize>,
        /// How many nodes play at the same time.
        #[arg(long, default_value_t = 1)]
        lanes: usize,
    },
    /// Open a shell in a node with a target and an etcd. As root.
    Shell,
    /// Show one migration from beginning to end. As root.
    Demo,
    /// Write the pages that are made from the code.
    Pages,
    /// Write the schemas of the JSON outputs.
    Schemas {
        /// The directory, which is made if it is absent.
        #[arg(default_value = "etcd-lun-schemas")]
        into: String,
    },
    /// Measure (`compare`, `desk`, `faults`, `roll`, `switch`, and their options). As root.
    Measure {
        /// The words of the command line of `measure`, without `--agent`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<String>,
    },
    /// Build the program for aarch64, and test it while qemu-user emulates the processor. As root.
    Emulated,
    /// Check what a panic of the released build prints.
    Backtrace,
    /// Change the protocol in small ways, and see that tests notice (cargo-mutants).
    Mutants {
        /// The options of tests/model/mutants.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Check the metrics and rules with Prometheus. As root.
    Metrics,
    /// Check the SELinux module with the policy tools.
    Policy,
    /// Make all files of a release.
    Release {
        /// The options of packaging/release.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

fn main() -> Result<()> {
    match Cli::parse().verb {
        Verb::Build { release: true } => run(&["packaging/build"]),
        Verb::Build { release: false } => run(&["packaging/build", "--dev"]),
        Verb::Check => {
            run(&["cargo", "fmt", "--all", "--check"])?;
            run(&["cargo", "clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
            commits::check()?;
            run(&["cargo", "test"])
        }
        Verb::Test => run(&["tests/all"]),
        Verb::Scenario { share: Some(share), lanes, .. } => {
            bed(&["suite", "--lanes", &lanes.to_string(), "--share", &share.to_string()])
        }
        Verb::Scenario { names, .. } if names.is_empty() => bed(&["suite", "--list", "--only", "/"]),
        Verb::Scenario { names, lanes, .. } => {
            bed(&["suite", "--lanes", &lanes.to_string(), "--only", &names.join(",")])
        }
        Verb::Shell => bed(&["shell"]),
        Verb::Demo => run(&["tests/demo"]),
        Verb::Pages => PAGES.iter().try_for_each(|[package, test, filter]| {
            let words = ["cargo", "test", "--quiet", "--package", package, "--test", test, filter];
            start(&words, |command| command.env("ETCD_LUN_REWRITE", "1"))
        }),
        Verb::Schemas { into } => {
            run(&["cargo", "run", "--quiet", "--package", "etcd-lun", "--example", "schemas", "--", &into])
        }
        Verb::Measure { words } => {
            let agent = built(&["packaging/build"])?;
            on_nodes("measure", &words.iter().map(String::as_str).collect::<Vec<_>>(), &agent)
        }
        Verb::Emulated => run(&["tests/native/emulated"]),
        Verb::Backtrace => run(&["tests/native/backtrace"]),
        Verb::Metrics => run(&["tests/root/metrics"]),
        Verb::Policy => run(&["selinux/check", "--mutants"]),
        Verb::Mutants { words } => with_words("tests/model/mutants", &words),
        Verb::Release { words } => with_words("packaging/release", &words),
    }
}

/// Runs a script with the options that were given.
fn with_words(script: &str, words: &[String]) -> Result<()> {
    run(&[vec![script], words.iter().map(String::as_str).collect()].concat())
}

/// The tests that write pages: the package, the test, and its filter.
const PAGES: [[&str; 3]; 5] = [
    ["native", "cli", "reference"],
    ["native", "cli", "keys"],
    ["model", "laws", "decisions"],
    ["native", "health", ""],
    ["model", "guards", "each_step_does_what_is_listed"],
];

/// Runs the test bed with the program of this checkout.
fn bed(words: &[&str]) -> Result<()> {
    on_nodes("nodes", words, &built(&["packaging/build", "--dev"])?)
}

fn on_nodes(package: &str, words: &[&str], agent: &str) -> Result<()> {
    run(&[&["cargo", "run", "--quiet", "--package", package, "--"], words, &["--agent", agent]].concat())
}

/// The path of the program, which is built first.
fn built(words: &[&str]) -> Result<String> {
    eprintln!("+ {}", words.join(" "));
    let output = command(words)?.stderr(Stdio::inherit()).output().context("packaging/build")?;
    if !output.status.success() {
        bail!("packaging/build ended with {}", output.status);
    }
    let said = String::from_utf8(output.stdout)?;
    Ok(said.lines().last().context("packaging/build has printed no path")?.to_owned())
}

fn run(words: &[&str]) -> Result<()> {
    start(words, |command| command)
}

fn start(words: &[&str], with: impl FnOnce(&mut Command) -> &mut Command) -> Result<()> {
    eprintln!("+ {}", words.join(" "));
    let status = with(&mut command(words)?).status().with_context(|| words.join(" "))?;
    if !status.success() {
        bail!("`{}` ended with {status}", words.join(" "));
    }
    Ok(())
}

/// A command in the root of the checkout.
fn command(words: &[&str]) -> Result<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (program, arguments) = words.split_first().context("no command")?;
    let program = if program.contains('/') { root.join(program) } else { program.into() };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root);
    Ok(command)
}

//! `bed`: the test bed's command line.
#![allow(clippy::disallowed_methods, reason = "as in the library")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use nodes::bed::Bed;
use nodes::core::{self, SHARES};
use nodes::image::Image;
use nodes::lanes::{self, Claims};
use nodes::node::Node;
use nodes::release::Release;
use nodes::shared::Shared;
use nodes::shell::{self, ShellOptions};
use nodes::stage::Stage;
use nodes::suite::Scenario;
use nodes::{demo, exit, ledger, packages, scenarios, suite, tour};

/// Sets up a real node in a virtual machine with a real iSCSI target and a real etcd, and tests etcd-lun
/// there.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// The Debian release of the nodes. The older ones stand for the older nodes of OpenShift.
    #[arg(long, global = true, value_enum, default_value = "trixie")]
    release: Release,
}

#[derive(Subcommand)]
enum Verb {
    /// Boot a node with a target and a running etcd, and open a shell in it.
    Shell(ShellOptions),
    /// Show a migration from beginning to end.
    Demo {
        /// The static etcd-lun binary.
        #[arg(long)]
        agent: PathBuf,
        /// Instead play the commands of docs/tour.md on a node, and write into the page what they print.
        #[arg(long)]
        write_tour: bool,
    },
    /// Play the scenarios and print how many passed and failed.
    Suite {
        /// The static etcd-lun binary.
        #[arg(long)]
        agent: PathBuf,
        /// Play the scenarios whose name contains this text. Separate several texts with commas; one match is
        /// enough. `/` plays all of them, which takes hours. Without this the core and a share of the others are played.
        #[arg(long, default_value = "")]
        only: String,
        /// Which of the fifteen shares is played with the core. A larger number begins again with the first.
        #[arg(long, default_value_t = 0)]
        share: usize,
        /// Print the scenarios' names and play none.
        #[arg(long)]
        list: bool,
        /// How many nodes play scenarios at the same time. Default: three for two processors, and never more
        /// than three.
        #[arg(long)]
        lanes: Option<usize>,
        /// Take scenarios from this list (internal; the suite starts each lane with it).
        #[arg(long, hide = true)]
        claims: Option<PathBuf>,
    },
    /// Install the packages, make the node's image, and find out which accelerator boots a node. Later runs reuse
    /// all of this. For another release, make the image only.
    Prepare,
    /// End everything that killed runs left behind.
    Clean,
}

fn main() -> ExitCode {
    let Cli { verb, release } = Cli::parse();
    release.choose();
    let done = match verb {
        Verb::Shell(options) => shell(&options),
        Verb::Demo { agent, write_tour } => {
            let play = if write_tour { tour::write } else { demo::play };
            Bed::make().and_then(|bed| play(&bed, &agent)).map(|()| ExitCode::SUCCESS)
        }
        Verb::Suite { agent, only, share, list, lanes, claims } => {
            suite(&agent, &only, share % SHARES, list, lanes, claims.as_deref())
        }
        Verb::Prepare => prepare().map(|()| ExitCode::SUCCESS),
        Verb::Clean => ledger::sweep().map(|runs| {
            println!("bed: ended what {runs} killed runs left behind");
            ExitCode::SUCCESS
        }),
    };
    exit::code(done)
}

/// Installs the packages, makes the image, and finds out which accelerator boots a node with it.
fn prepare() -> Result<()> {
    packages::ensure()?;
    if Release::chosen() != Release::Trixie {
        return Image::ensure().map(drop);
    }
    Node::try_accelerator(&Bed::make()?)
}

fn shell(options: &ShellOptions) -> Result<ExitCode> {
    let status = shell::open(&Bed::make()?, options)?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The scenarios whose names contain one of the texts; without a text the core and a share, and with `/` all of them.
fn chosen(only: &str, share: usize) -> Vec<Scenario> {
    let scenarios = scenarios::all();
    let all: Vec<_> = scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    let shared: Vec<_> = core::with_share(&all, share).into_iter().map(String::from).collect();
    let is_chosen = |scenario: &Scenario| match only {
        "" => shared.contains(&scenario.name),
        _ => only.split(',').any(|part| scenario.name.contains(part)),
    };
    scenarios.into_iter().filter(is_chosen).collect()
}

fn suite(
    agent: &Path,
    only: &str,
    share: usize,
    list: bool,
    lanes: Option<usize>,
    claims: Option<&Path>,
) -> Result<ExitCode> {
    let scenarios = chosen(only, share);
    if list {
        scenarios.iter().for_each(|scenario| println!("{}", scenario.name));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = claims {
        let claims = Claims::open(file)?;
        let shared = Shared::at(file.with_extension("shared"))?;
        suite::play(&mut Stage::build(&Bed::make()?, agent, shared)?, &scenarios, &claims)?;
        return Ok(ExitCode::SUCCESS);
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let lanes = lanes.unwrap_or((processors * 3 / 2).min(3)).clamp(1, scenarios.len().max(1));
    let agent = agent.to_str().context("the agent's path is not UTF-8")?;
    if only.is_empty() {
        println!(
            "bed: the core and share {share} of {SHARES}; again by `cargo xtask scenario --share {share}`"
        );
    }
    let (release, number) = (Release::chosen().name(), share.to_string());
    let words = ["suite", "--agent", agent, "--only", only, "--share", &number, "--release", release];
    let tally = lanes::play(lanes, scenarios.len(), &words)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(if tally.failed == 0 && tally.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

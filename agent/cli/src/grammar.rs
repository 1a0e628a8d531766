//! The command line. clap makes the parser, the help, the errors, the completions and the man pages from these types. A
//! test makes `docs/commands.md` from them.
//!
//! The first paragraph of a comment on a verb or an option is its help.

use super::{
    apply, bench, completion, env::ENVIRONMENT, exit::EXIT_CODES, explain, hands, health, init, man,
    output::OutputFormat, pool, render, render_target, report, retired, values::absolute,
};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueHint, error::ErrorKind};
use std::{ffi::OsString, fmt::Write as _, path::PathBuf};

/// The widest help, in columns: the width of a terminal that nobody has made wider.
const WIDTH: usize = 80;
/// Puts an option behind a verb's own, and before `--help`, which clap puts at 999.
const LAST: usize = 900;

/// Moves a node's etcd to an iSCSI LUN of its own, without ever losing a write
#[derive(Debug, Parser)]
#[command(name = "etcd-lun", version, propagate_version = true, arg_required_else_help = false, max_term_width = WIDTH, after_help = codes_and_variables())]
pub(super) struct CommandLine {
    /// Read this file instead of /etc/etcd-lun/config.toml and config.d/*.toml; - is standard input
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, display_order = LAST)]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub verb: Verb,
}

/// What the program is asked to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Bring the node to the state that the config asks for; idempotent
    Apply(apply::Options),
    /// Move etcd's data from the LUN back to the local disk, to stay there; by hand only
    #[command(
        after_help = "Run it before you remove the MachineConfig or the target. Afterwards the service does not \
                            move the data at boot. `etcd-lun apply` by hand moves it to the LUN again."
    )]
    Rollback(apply::ByHand),
    /// Take this node's LUN though it is newer than the record, or after a new machine id; by hand only
    #[command(
        after_help = "Switch off every other computer that could use the LUN first, such as a clone of this node. It \
                            looks at the LUN for longer than two periods of `health.interval`, and refuses if the use \
                            counter moves."
    )]
    Claim(apply::ClaimOptions),
    /// Print the steps that `apply` would take, or the reason of a refusal; changes nothing
    Plan(OutputFormat),
    /// Show sessions, LUN, filesystem, mount, authoritative copy and etcd on one page
    Status(OutputFormat),
    /// Print the LUNs that each portal of the target shows this node, with number, WWID, size and content; by hand only
    #[command(
        after_help = "It logs in at each portal, asks, and logs out. It writes to no LUN. While a LUN is in use it \
                            asks for nothing and prints what the kernel knows."
    )]
    Luns(OutputFormat),
    /// Check this node's etcd storage; exit with 4 unless every check is ok
    Health(health::Options),
    /// List or delete retired data, the local data of earlier migrations
    #[command(subcommand)]
    Retired(Retired),
    /// Measure a disk with etcd's write pattern; exit with 4 if it is too slow for etcd
    #[command(
        after_help = "A run writes up to 64 MB into a file without a name, which disappears when the run ends in \
                            any way. It ends after the last write, or after a minute for each directory and size. An \
                            etcd on the same disk is slower meanwhile: do not measure two members at the same time."
    )]
    Bench(bench::Options),
    /// Install, show or remove the SELinux policy module
    #[command(subcommand)]
    Selinux(Selinux),
    /// Check a config, or begin with one
    #[command(subcommand)]
    Config(Config),
    /// Make what is brought to nodes, and the script that sets up a target
    #[command(subcommand)]
    Render(Render),
    /// Pack what a colleague or a ticket needs into one archive, without secrets; by hand only
    #[command(
        after_help = "The archive has what `status`, `plan` and `health` say, the merged config without secrets, the \
                            record, the journals of etcd-lun, etcd and iscsid, the kernel's log, sessions, paths, disks \
                            and units. Each part has 1 MiB at most. It changes nothing."
    )]
    Report(report::Options),
    /// The nodes of the config together, from an administrator's machine
    #[command(subcommand)]
    Pool(pool::Verb),
    /// Say what a refusal, an error, an alert, a check or a config key means, and what to do
    #[command(
        after_help = "Without a name it prints what to do while etcd is down. The text is that of the documents, which \
                            this program brings along."
    )]
    Explain(explain::Options),
    /// Print the script with which a shell completes this program's command line
    #[command(
        after_help = "For the shell that runs: `source <(etcd-lun completion bash)`, the same with zsh, or \
                            `etcd-lun completion fish | source`. The script asks this program at each Tab, so it also \
                            offers the nodes of the config."
    )]
    Completion(completion::Options),
    /// Write the man pages into a directory
    Man(man::Options),
    /// Print the version
    Version,
    /// Advance the LUN's use counter, which detects restored snapshots (internal)
    #[command(
        after_help = "etcd-lun-health.service runs it. A snapshot that the array took earlier has a lower use \
                            counter from then on, and `apply` refuses to mount it. If etcd's data is not on the LUN, or \
                            while `apply` runs, this does nothing and exits with 0."
    )]
    Mark,
    /// Stop waiting for an unreachable target at shutdown (internal; run by etcd-lun-shutdown.service)
    LetGo,
    /// Do one thing for etcd-lun.service that its SELinux domain may not do (internal; run by etcd-lun-hands@.service)
    Hands(hands::Options),
}

/// `retired`
#[derive(Debug, Subcommand)]
pub(super) enum Retired {
    /// List retired data, the local data of earlier migrations, with size and age
    List(OutputFormat),
    /// Delete the retired data of this generation, if etcd has run on the LUN for long enough
    #[command(
        after_help = "Refuses until `lun.keep_retired` (7d) is over, and while etcd does not run on the LUN."
    )]
    Delete(retired::DeleteOptions),
}

/// `selinux`
#[derive(Debug, Subcommand)]
pub(super) enum Selinux {
    /// Install the SELinux policy module and label the files; does nothing if that is done
    Install,
    /// Show whether SELinux enforces, which module is in force, and which files have other labels
    Status(OutputFormat),
    /// Remove the policy module, and relabel the files without it; while etcd's data is on the LUN, from the policy store only
    Remove,
}

/// `config`
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Print the merged config without secrets, the files that were read, and the node entry for this host; on a machine that is no node, all entries
    Check(Check),
    /// Ask a few questions, and write a first config
    #[command(
        after_help = "The questions are on standard error. The answers are lines of standard input, so they can also \
                            come from a file."
    )]
    Init(init::Options),
    /// Print a config to begin with
    Example,
    /// Print the JSON schema of a config, with which an editor completes and checks one
    Schema,
}

/// `config check`
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Check the entry of the node with this host name or machine id instead, without reading secrets
    #[arg(long, value_name = "NAME", add = completion::nodes())]
    pub node: Option<String>,
    /// Also read the files of secrets, from this directory instead of the paths in the config, and judge them as `render` does
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute())]
    pub secrets_from: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputFormat,
}

/// `render`
#[derive(Debug, Subcommand)]
pub(super) enum Render {
    /// Write the systemd units into a directory
    Units(render::UnitOptions),
    /// Print a MachineConfig that brings program, config and units to the nodes of a pool
    #[command(
        after_help = "One of --image, --without-program and --embed says how the program reaches the nodes. With \
                            --image, each node fetches it once and accepts only the program that you render with, by \
                            its checksum.",
        override_usage = "etcd-lun render machineconfig [OPTIONS] --image <IMAGE>\n       \
                          etcd-lun render machineconfig [OPTIONS] <--without-program|--embed>"
    )]
    Machineconfig(render::Options),
    /// Print the same as a Butane config
    #[command(override_usage = "etcd-lun render butane [OPTIONS] --image <IMAGE>\n       \
                          etcd-lun render butane [OPTIONS] <--without-program|--embed>")]
    Butane(render::Options),
    /// Print a PinnedImageSet, with which nodes fetch the image beforehand (OpenShift 4.20 and later)
    Pinnedimageset(render::PinnedOptions),
    /// Print a NodeDisruptionPolicy, with which nodes take a new program without a reboot (OpenShift 4.17 and later)
    #[command(
        after_help = "Every cluster has one object with all such policies. If it has any, add this one to its list \
                            with `oc edit machineconfiguration cluster`. Otherwise use `oc apply --server-side -f`."
    )]
    Nodedisruptionpolicy,
    /// Print the SELinux policy module as CIL, for packages, for layered images, and for review
    Policy,
    /// Print the udev rule that labels the LUN for SELinux, for /etc/udev/rules.d/90-etcd-lun.rules
    Udev,
    /// Print multipathd's settings for the LUNs, for /etc/multipath/conf.d/etcd-lun.conf
    Multipath,
    /// Print a script that sets up the target for this config
    Target(render_target::TargetOptions),
}

impl Verb {
    /// Whether it may change where etcd's data is.
    pub fn is_run(&self) -> bool {
        match self {
            Self::Apply(options) => !options.by_hand.dry_run,
            Self::Rollback(options) => !options.dry_run,
            Self::Claim(options) => !options.by_hand.dry_run,
            _ => false,
        }
    }
}

/// The grammar as a value, for completions, man pages and `docs/commands.md`.
pub fn command() -> clap::Command {
    CommandLine::command()
}

/// A parsed command line.
#[derive(Debug)]
pub(super) enum Parsed {
    /// Do what it says.
    CommandLine {
        /// The line.
        line: Box<CommandLine>,
        /// Whether JSON was asked for.
        json: bool,
    },
    /// Print this text.
    Text(String),
}

/// A wrong command line.
#[derive(Debug)]
pub(super) struct Mistake {
    /// What is wrong, a hint where there is one, and the usage.
    pub text: String,
    /// What is wrong, in one line and without `error: `.
    pub line: String,
    /// Whether JSON was asked for.
    pub json: bool,
}

/// Parses a command line without the program's name.
pub(super) fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Parsed, Mistake> {
    let words: Vec<OsString> = line.into_iter().collect();
    let json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    // clap takes the last one of an option that may stand before and after the verb. `apply` must not guess its config.
    let is_config = |word: &&OsString| {
        word.to_str().is_some_and(|word| word == "--config" || word.starts_with("--config="))
    };
    let configs = words.iter().take_while(|word| *word != "--").filter(is_config).count();
    let named = std::iter::once(OsString::from("etcd-lun")).chain(words);
    let error = match CommandLine::try_parse_from(named) {
        Ok(_) if configs > 1 => {
            let said = "the argument '--config <FILE>' cannot be used multiple times";
            command().error(ErrorKind::ArgumentConflict, said)
        }
        Ok(line) => return Ok(Parsed::CommandLine { line: Box::new(line), json }),
        Err(error) => error,
    };
    let mut text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp => return Ok(Parsed::Text(text)),
        ErrorKind::DisplayVersion => return Ok(Parsed::Text(version())),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            text = format!("error: a command is missing\n\n{text}");
        }
        _ => {}
    }
    // The other paragraphs are clap's tips and the usage.
    let said = text.split("\n\n").next().unwrap_or(&text).trim_start_matches("error: ");
    let mut line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(tip) = tips::tip(&error, &command()) {
        line = format!("{line}; {tip}");
        text = format!("{}\n\n  tip: {tip}\n", text.trim_end());
    }
    Err(Mistake { text, line, json })
}

/// The version. A build of `packaging/build` adds a line each for its commit and its tools.
pub(super) fn version() -> String {
    let version = concat!("etcd-lun ", env!("CARGO_PKG_VERSION"));
    match option_env!("ETCD_LUN_BUILD") {
        Some(build) => format!("{version}\n{build}"),
        None => version.into(),
    }
}

/// The end of the program's help.
fn codes_and_variables() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, means) in EXIT_CODES.iter().enumerate() {
        let _ = writeln!(text, "  {code} {means}");
    }
    text.push_str("\nEnvironment:\n");
    for (name, means) in ENVIRONMENT {
        let _ = writeln!(text, "  {name:<13} {means}");
    }
    text.trim_end().to_owned()
}

mod tips;

#[cfg(test)]
mod tests;

//! `completion`, and the answers to a shell's Tab.
//!
//! The script of a shell calls this program with [`VARIABLE`] set, and clap_complete answers from the grammar. So values that
//! are known at run time are offered too. A script serves only the version that printed it, which the package guarantees.

use super::{config::load_pool, env, exit::Exit, output::print_document};
use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCandidates, CompletionCandidate},
    env::{Bash, Fish, Shells, Zsh},
};
use host::Host;
use node::layout::RETIRED;
use std::path::PathBuf;

/// With this variable a script asks for completions.
const VARIABLE: &str = "ETCD_LUN_COMPLETE";
/// The program's name, by which a script also calls it.
const NAME: &str = "etcd-lun";

/// The shells that a test drives.
const SHELLS: Shells<'static> = Shells(&[&Bash, &Zsh, &Fish]);

/// What `completion` is asked for.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The shell
    shell: Shell,
}

/// A shell that can be completed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// zsh loads a file of completions at the first Tab by calling it as a function. The script only defines what completes, so
/// that Tab would be lost.
const ZSH_FIRST_TAB: &str = "
if [[ $funcstack[1] == _etcd-lun ]]; then
    _clap_dynamic_completer_etcd_lun \"$@\"
fi
";

/// Prints the script of a shell.
pub(super) fn script(options: &Options) -> Result<(), Exit> {
    let (name, more) = match options.shell {
        Shell::Bash => ("bash", ""),
        Shell::Zsh => ("zsh", ZSH_FIRST_TAB),
        Shell::Fish => ("fish", ""),
    };
    let shell = SHELLS;
    let shell = shell.completer(name).context("finding the script of this shell")?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script).context("writing the script")?;
    let script = String::from_utf8(script).context("writing the script")?;
    print_document(&(script + more))
}

/// Answers a script that asks for completions. False if no script asks.
pub(super) fn answer(grammar: fn() -> clap::Command) -> Result<bool, Exit> {
    let here = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(grammar).var(VARIABLE).shells(SHELLS);
    asked.try_complete(env::command_line(), here.as_deref()).map_err(|error| {
        let said = error.to_string();
        Exit::Error(anyhow!("completing a command line: {}", said.trim_start_matches("error: ").trim()))
    })
}

/// The nodes of the config, by host name or machine id.
pub(super) fn nodes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let rows = load_pool(typed_config().as_deref()).and_then(|(_, pool, _)| Ok(pool.rows()?));
        // A Tab has no place for an error. `config check` prints it.
        rows.unwrap_or_default().into_iter().map(|row| CompletionCandidate::new(row.name)).collect()
    })
}

/// The generations that have retired data.
pub(super) fn generations() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = Host::machine().ok().and_then(|host| host.root.list_opt(RETIRED).ok().flatten());
        let generations = names.unwrap_or_default().into_iter().filter(|name| name.parse::<u64>().is_ok());
        generations.map(CompletionCandidate::new).collect()
    })
}

/// The config that the command line on the terminal names. clap_complete does not tell a completer the other words.
fn typed_config() -> Option<PathBuf> {
    let mut words = env::arguments().filter_map(|word| word.into_string().ok());
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.strip_prefix("--config=") {
            return Some(path.into());
        }
    }
    None
}

//! Makes documentation from the program's own source. From the table of commands: man pages, completions for shells, and
//! `docs/commands.md`. From the fields that the config is read into: `docs/config.md`.

#![allow(clippy::disallowed_methods, reason = "this program runs where etcd-lun is built, never on a node")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap_complete::Shell;

mod commands;
mod completion;
mod examples;
mod keys;
mod man;
mod reference;
mod wrap;

const USAGE: &str = "Usage: pages man DIR | completions DIR | reference | keys";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["man", dir] => man(dir.as_ref()),
        ["completions", dir] => completions(dir.as_ref()),
        ["reference"] => {
            print!("{}", reference::text());
            Ok(())
        }
        ["keys"] => keys::text().map(|text| print!("{text}")),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes `etcd-lun.8` and a page for each command.
fn man(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create the directory {}", dir.display()))?;
    for (page, words) in commands::pages() {
        let name = page.get_name().to_owned();
        write(dir.join(format!("{name}.8")), man::page(page, words)?.as_bytes())?;
    }
    Ok(())
}

/// Writes the completions, under the names by which each shell finds them.
fn completions(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create the directory {}", dir.display()))?;
    for (shell, name) in
        [(Shell::Bash, "etcd-lun"), (Shell::Zsh, "_etcd-lun"), (Shell::Fish, "etcd-lun.fish")]
    {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut commands::all(), "etcd-lun", &mut text);
        write(dir.join(name), completion::fixed(shell, text)?.as_bytes())?;
    }
    Ok(())
}

fn write(path: PathBuf, text: &[u8]) -> Result<()> {
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

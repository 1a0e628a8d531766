//! `retired list` and `retired delete`

use super::{
    completion, config,
    document::Document,
    exit::Exit,
    output::{OutputFormat, print_json, print_out},
    show, view,
};
use crate::{
    apply::retired,
    node::{Fact, Retired, layout::RETIRED},
};
use clap::Args;
use std::path::Path;

/// What `retired list` prints.
pub const RETIRED_LIST: Document<Fact<Vec<Retired>>> =
    Document::under("retired", "retired-list", "etcd-lun retired list --json");

/// What `retired delete` is asked for.
#[derive(Debug, Args)]
pub(super) struct DeleteOptions {
    /// The generation, as `etcd-lun retired list` shows it
    #[arg(value_name = "GENERATION", add = completion::generations())]
    generation: u64,
    /// Print what would be deleted, or the reason of a refusal, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Lists the retired data.
pub(super) fn list(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (_, node) = view::look(file, false)?;
    if output.json {
        return print_json(&RETIRED_LIST, &node.retired);
    }
    let all = node.retired.require().map_err(|why| Exit::Error(anyhow::anyhow!("{RETIRED}: {why}")))?;
    print_out(&show::retired(all));
    Ok(())
}

/// Deletes the retired data of a generation, or says what it would delete.
pub(super) fn delete(file: Option<&Path>, options: &DeleteOptions) -> Result<(), Exit> {
    let DeleteOptions { generation, dry_run } = *options;
    let (host, identity, config) = config::load_to_change(file)?;
    config::hold(&host)?;
    let gone = retired::delete(&host, &config, &identity, generation, dry_run)?;
    let did = if dry_run { "Would delete" } else { "Deleted" };
    print_out(&format!("{did} {}", show::retired(std::slice::from_ref(&gone))));
    Ok(())
}

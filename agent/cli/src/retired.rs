//! `retired list` and `retired delete`

use super::{
    completion, config,
    document::Document,
    exit::Exit,
    output::{OutputFormat, print_json, print_out},
    show,
};
use apply::retired;
use clap::Args;
use hands::Door;
use node::{Fact, Retired, layout::RETIRED};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What `retired list` prints.
pub const RETIRED_LIST: Document<Fact<Vec<Retired>>> =
    Document::under("retired", "retired-list", "etcd-lun retired list --json");

/// What `retired delete` prints.
pub const RETIRED_DELETE: Document<Deleted> =
    Document::beside_version("retired-delete", "etcd-lun retired delete --json");

/// What `retired delete` has deleted, or would.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Deleted {
    /// False after a dry run.
    pub deleted: bool,
    /// The retired data.
    pub retired: Retired,
}

/// What `retired delete` is asked for.
#[derive(Debug, Args)]
pub(super) struct DeleteOptions {
    /// The generation, as `etcd-lun retired list` shows it
    #[arg(value_name = "GENERATION", value_parser = generation, add = completion::generations())]
    generation: u64,
    /// Print what would be deleted, or the reason of a refusal, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) output: OutputFormat,
}

fn generation(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "it is a number: `etcd-lun retired list` shows those that there are".to_owned())
}

/// Lists the retired data.
pub(super) fn list(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (host, identity, config) = config::TO_LOOK.load(file)?;
    let door = Door::of(&host, &config)?;
    let node = observe::node(&door, &config, identity, observe::Viewpoint::Reader, observe::Asked::NOTHING);
    if output.json {
        return print_json(&RETIRED_LIST, &node.retired);
    }
    let all = node.retired.require().map_err(|why| Exit::Error(anyhow::anyhow!("{RETIRED}: {why}")))?;
    print_out(&show::retired(all));
    Ok(())
}

/// Deletes the retired data of a generation, or says what it would delete.
pub(super) fn delete(file: Option<&Path>, options: &DeleteOptions) -> Result<(), Exit> {
    let DeleteOptions { generation, dry_run, output } = *options;
    let (host, identity, config) = config::TO_CHANGE.load(file)?;
    config::hold(&host)?;
    let gone = retired::delete(&Door::of(&host, &config)?, &config, &identity, generation, dry_run)?;
    if output.json {
        return print_json(&RETIRED_DELETE, &Deleted { deleted: !dry_run, retired: gone });
    }
    let did = if dry_run { "Would delete" } else { "Deleted" };
    print_out(&format!("{did} {}", show::retired(std::slice::from_ref(&gone))));
    Ok(())
}

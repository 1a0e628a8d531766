//! `retired list` and `retired delete`

use super::{Exit, OutputFormat, config, say, say_json, show, view};
use crate::{apply::retired, node::layout::RETIRED};
use std::path::Path;

/// Lists what lies retired.
pub(super) fn list(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (_, node) = view::look(file)?;
    if output.json {
        return say_json("retired", &node.retired);
    }
    let all = node.retired.require().map_err(|why| Exit::Error(anyhow::anyhow!("{RETIRED}: {why}")))?;
    say(&show::retired(all));
    Ok(())
}

/// Deletes one generation's, or says that it would.
pub(super) fn delete(file: Option<&Path>, generation: u64, dry_run: bool) -> Result<(), Exit> {
    let (host, identity, config) = config::load_to_change(file)?;
    let gone = retired::delete(&host, &config, &identity, generation, dry_run)?;
    let did = if dry_run { "Would delete" } else { "Deleted" };
    say(&format!("{did} {}", show::retired(std::slice::from_ref(&gone))));
    Ok(())
}

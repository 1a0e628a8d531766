//! Deleting retired data, when a person asks for it.

use crate::{alone::take_lock, outcome::Failure, users};
use anyhow::Context as _;
use config::Config;
use hands::Door;
use host::{Host, dir, inode, tree};
use node::{
    Identity, Retired,
    layout::{RETIRED, RETIRED_MARK},
};
use observe::{Asked, Viewpoint};
use terms::{AbsPath, require};

/// Deletes the retired data of a generation, and returns what it was. A dry run only checks whether it may be deleted.
pub fn delete(
    door: &Door<'_>,
    config: &Config,
    identity: &Identity,
    generation: u64,
    dry_run: bool,
) -> Result<Retired, Failure> {
    let _lock = take_lock(door).context("making sure that no apply runs")?;
    let node = observe::node(door, config, identity.clone(), Viewpoint::Reader, Asked::NOTHING);
    let retired = plan::may_delete(config, &node, generation)?.clone();
    if !dry_run {
        remove(door.host, &retired.name).context("deleting retired data")?;
    }
    Ok(retired)
}

fn remove(host: &Host, name: &str) -> anyhow::Result<()> {
    let retired: AbsPath = RETIRED.parse()?;
    let shelf = tree::open(&host.root.locate(retired.as_path()))?;
    let mark = inode::attribute(dir::open(&shelf, name)?, RETIRED_MARK)?;
    require!(
        mark.as_deref() == Some(name.as_bytes()),
        DataChanged,
        "{retired}/{name} has lost its mark: it is not deleted"
    );
    users::nobody_in(host, &retired.join(name))?;
    dir::remove_tree(&shelf, name).with_context(|| format!("removing {retired}/{name}"))
}

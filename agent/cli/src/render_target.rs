//! `render target`: prints the script that sets up the target.

use super::{
    config::load_pool,
    exit::Exit,
    output::print_document,
    values::{FROM_CLUSTER, node_names},
};
use clap::Args;
use config::{ConfigError, Nodes};
use delivery::Backstores;
use std::path::Path;
use terms::AbsPath;

/// What `render target` is asked for.
#[derive(Debug, Args)]
pub(super) struct TargetOptions {
    /// Keep the LUNs in files in this directory of the target's machine [default: /var/lib/etcd-lun-target]
    #[arg(long, value_name = "DIR", conflicts_with = "backstore_block")]
    backstore_dir: Option<AbsPath>,
    /// Keep the LUNs on block devices; you name them when you run the script
    #[arg(long)]
    backstore_block: bool,
    /// The target of this machine, if the config has several
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// A node whose entry is a pattern; may be given several times, or with several names in it
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,
}

/// Where the target's machine keeps the LUNs by default.
const BACKSTORE_DIR: &str = "/var/lib/etcd-lun-target";

/// Prints the script that sets up the target.
pub(super) fn target(file: Option<&Path>, options: &TargetOptions) -> Result<(), Exit> {
    let backstores = match &options.backstore_dir {
        _ if options.backstore_block => Backstores::Devices,
        Some(dir) => Backstores::Files(dir.clone()),
        None => Backstores::Files(BACKSTORE_DIR.parse().map_err(anyhow::Error::from)?),
    };
    let pool = load_pool(file)?.1.before_its_luns();
    let names = node_names(&options.node);
    if let ([], [first, ..]) = (names.as_slice(), pool.patterns().as_slice()) {
        return Err(Exit::Usage(format!(
            "render target: the config does not name the nodes that {first} matches, and each needs a LUN and an access list of its own: name them with --node, \
             such as {FROM_CLUSTER}"
        )));
    }
    if let Some(name) = names.iter().find(|name| !pool.knows(name)) {
        let known = pool.rows()?.into_iter().map(|row| row.name).collect();
        return Err(ConfigError::NoSuchNode { asked: name.clone(), known }.into());
    }
    let Nodes::Iscsi(mut nodes) = pool.nodes_named(&names)? else {
        return Err(Exit::Usage(
            "render target: the config has a [device] and no [target], so there is no target to set up: attach a disk to each node instead".into(),
        ));
    };
    let targets = pool.storage.targets();
    let target = match (&options.target, targets) {
        (None, [only]) => Some(only),
        (name, all) => all.iter().find(|one| name.is_some() && one.name == *name),
    };
    let Some(target) = target else {
        let known: Vec<_> =
            targets.iter().map(|one| one.name.as_deref().unwrap_or("one without a name")).collect();
        return Err(Exit::Usage(format!(
            "render target: the script sets up one target: name it with --target; the config has {}",
            known.join(", ")
        )));
    };
    nodes.retain(|node| node.target == *target);
    let script = delivery::target(target, &nodes, pool.lun.min_size, &backstores);
    print_document(&script.map_err(|error| Exit::Usage(error.to_string()))?)
}

//! `render target`: prints the script that sets up the target.

use super::{
    config::load_pool,
    exit::Exit,
    output::print_document,
    values::{FROM_CLUSTER, node_names},
};
use clap::{Args, ValueEnum};
use config::{ConfigError, Nodes};
use delivery::{Appliance, Backstores};
use std::path::Path;
use terms::AbsPath;

/// What `render target` is asked for.
#[derive(Debug, Args)]
pub(super) struct TargetOptions {
    /// lio: with targetcli, on a Linux machine; targetd: with curl and jq, at an appliance that runs targetd
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Lio)]
    kind: Kind,
    /// With targetd: the appliance's pool that the LUNs are made in
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// With lio: keep the LUNs in files in this directory of the target's machine [default: /var/lib/etcd-lun-target]
    #[arg(long, value_name = "DIR", conflicts_with = "backstore_block")]
    backstore_dir: Option<AbsPath>,
    /// With lio: keep the LUNs on block devices; you name them when you run the script
    #[arg(long)]
    backstore_block: bool,
    /// A node whose entry is a pattern; may be given several times, or with several names in it
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,
}

/// The software of a target.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Lio,
    Targetd,
}

/// What the target is made with.
#[derive(Debug)]
enum TargetKind {
    /// targetcli on a Linux machine.
    Lio(Backstores),
    /// The API of targetd.
    Targetd(Appliance),
}

impl TargetKind {
    fn from(options: &TargetOptions) -> Result<Self, String> {
        let backstores = match &options.backstore_dir {
            _ if options.backstore_block => Some(Backstores::Devices),
            dir => dir.clone().map(Backstores::Files),
        };
        match (options.kind, options.pool.clone(), backstores) {
            (Kind::Lio, None, Some(backstores)) => Ok(Self::Lio(backstores)),
            (Kind::Lio, None, None) => {
                Ok(Self::Lio(Backstores::Files(BACKSTORE_DIR.parse().map_err(|error| format!("{error}"))?)))
            }
            (Kind::Lio, Some(_), _) => Err("--pool: only --kind targetd has a pool".into()),
            (Kind::Targetd, Some(pool), None) => Ok(Self::Targetd(Appliance { pool })),
            (Kind::Targetd, None, _) => {
                Err("--kind targetd: --pool must name the pool of the appliance (`block_pools` in /etc/target/targetd.yaml)".into())
            }
            (Kind::Targetd, Some(_), Some(_)) => {
                Err("--backstore-…: targetd keeps the LUNs in its pool".into())
            }
        }
    }
}

/// Where the target's machine keeps the LUNs by default.
const BACKSTORE_DIR: &str = "/var/lib/etcd-lun-target";

/// Prints the script that sets up the target.
pub(super) fn target(file: Option<&Path>, options: &TargetOptions) -> Result<(), Exit> {
    let kind = TargetKind::from(options).map_err(Exit::Usage)?;
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
    let Nodes::Iscsi { target, nodes } = pool.nodes_named(&names)? else {
        return Err(Exit::Usage(
            "render target: the config has a [device] and no [target], so there is no target to set up: attach a disk to each node instead".into(),
        ));
    };
    let least = pool.lun.min_size;
    let script = match kind {
        TargetKind::Lio(backstores) => delivery::target(target, &nodes, least, &backstores),
        TargetKind::Targetd(appliance) => delivery::targetd(target, &nodes, least, &appliance),
    };
    print_document(&script.map_err(|error| Exit::Usage(error.to_string()))?)
}

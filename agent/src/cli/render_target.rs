//! `render target`: prints the script that sets up the target.

use super::{config::load_pool, exit::Exit, grammar::Arguments, output::print_document};
use crate::{
    config::Nodes,
    delivery::{self, Appliance, Backstores},
    terms::AbsPath,
};
use std::path::Path;

/// What the target is made with.
#[derive(Debug)]
pub(super) enum TargetKind {
    /// targetcli on a Linux machine.
    Lio(Backstores),
    /// The API of targetd.
    Targetd(Appliance),
}

impl TargetKind {
    /// As given on the command line.
    pub fn from(given: &Arguments) -> Result<Self, String> {
        let backstores = match given.parsed::<AbsPath>("backstore-dir")? {
            _ if given.has("backstore-block") => Some(Backstores::Devices),
            dir => dir.map(Backstores::Files),
        };
        let (kind, pool) = (given.parsed::<String>("kind")?, given.parsed::<String>("pool")?);
        match (kind.as_deref().unwrap_or("lio"), pool, backstores) {
            ("lio", None, Some(backstores)) => Ok(Self::Lio(backstores)),
            ("lio", None, None) => {
                Ok(Self::Lio(Backstores::Files(BACKSTORE_DIR.parse().map_err(|error| format!("{error}"))?)))
            }
            ("lio", Some(_), _) => Err("--pool: only --kind targetd has a pool".into()),
            ("targetd", Some(pool), None) => Ok(Self::Targetd(Appliance { pool })),
            ("targetd", None, _) => {
                Err("--kind targetd: --pool must name the pool of the appliance (`block_pools` in /etc/target/targetd.yaml)".into())
            }
            ("targetd", Some(_), Some(_)) => Err("--backstore-…: targetd keeps the LUNs in its pool".into()),
            (kind, ..) => Err(format!("--kind: `{kind}` is neither \"lio\" nor \"targetd\"")),
        }
    }
}

/// Where the target's machine keeps the LUNs by default.
const BACKSTORE_DIR: &str = "/var/lib/etcd-lun-target";

/// Prints the script that sets up the target.
pub(super) fn target(file: Option<&Path>, kind: &TargetKind) -> Result<(), Exit> {
    let (_, pool, _) = load_pool(file)?;
    let Nodes::Iscsi { target, nodes } = pool.nodes()? else {
        return Err(Exit::Usage(
            "render target: the config has a [device] and no [target], so there is no target to set up: attach a disk to each node instead".into(),
        ));
    };
    let least = pool.lun.min_size;
    let script = match kind {
        TargetKind::Lio(backstores) => delivery::target(target, &nodes, least, backstores),
        TargetKind::Targetd(appliance) => delivery::targetd(target, &nodes, least, appliance),
    };
    print_document(&script.map_err(|error| Exit::Usage(error.to_string()))?)
}

//! The whole config of one node.

use super::{
    backing::{Backing, Place},
    parts::{ClusterConfig, EtcdConfig, NodeEntry},
    pattern::InitiatorName,
    plain_tables::{Boot, HealthConfig, LunConfig},
};
use schemars::JsonSchema;
use serde::Serialize;
use terms::{WantedLun, Wwid};

/// The whole config of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Config {
    /// Where etcd's data goes.
    pub backing: Backing,
    /// etcd on this node.
    pub etcd: EtcdConfig,
    /// How etcd is asked about its cluster.
    pub cluster: ClusterConfig,
    /// Requirements for the LUN, and its filesystem.
    pub lun: LunConfig,
    /// Behaviour at boot.
    pub boot: Boot,
    /// The health check that the timer starts.
    pub health: HealthConfig,
    /// The entry of this node.
    pub node: NodeEntry,
}

impl Config {
    /// The LUNs of a list, while it is not known which of them is this node's; else empty.
    pub fn listed(&self) -> &[Wwid] {
        self.backing.iscsi().map_or(&[], |iscsi| &iscsi.lun.listed)
    }

    /// The same config with this LUN of the list, as if the entry had named it alone.
    pub fn with_lun(&self, wwid: &Wwid) -> Self {
        let mut config = self.clone();
        if let Backing::Iscsi(iscsi) = &mut config.backing {
            iscsi.lun = WantedLun::named(wwid.clone());
        }
        config.node.wwid = Some(wwid.clone());
        config
    }
}

/// The entry of one node, of all that a config has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodeRow {
    /// The host name, pattern or machine id in the entry.
    pub name: String,
    /// The line that names the node, its file, and the number of that line.
    pub chosen_by: String,
    /// The node's initiator name, with a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub initiator: Option<InitiatorName>,
    /// How the LUN is found.
    pub place: Place,
    /// The LUN's WWID, if the config requires one.
    pub wwid: Option<Wwid>,
    /// The WWIDs of which the LUN has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wwids: Vec<Wwid>,
    /// False if the node's etcd stays on its local disk for now.
    pub migrate: bool,
}

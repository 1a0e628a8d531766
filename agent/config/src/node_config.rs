//! The whole config of one node.

use super::{
    backing::{Backing, Place, Storage},
    parts::{ClusterConfig, EtcdConfig, NodeEntry},
    pattern::InitiatorName,
    plain_tables::{Boot, HealthConfig, LunConfig},
};
use schemars::JsonSchema;
use serde::Serialize;
use terms::Wwid;

/// The whole config of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Config {
    /// Where etcd's data goes.
    pub backing: Backing,
    /// The storage of the pool: units and policy are the same on every node.
    #[serde(skip)]
    pub storage: Storage,
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
    /// The name of the node's target, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// How the LUN is found.
    pub place: Place,
    /// The LUN's WWID, if the config requires one.
    pub wwid: Option<Wwid>,
    /// False if the node's etcd stays on its local disk for now.
    pub migrate: bool,
}

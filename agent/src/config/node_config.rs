//! The whole config of one node, and its form in JSON.

use super::{
    backing::{Backing, Device, Place},
    parts::{ClusterConfig, EtcdConfig, NodeEntry, Target},
    pattern::InitiatorName,
    plain_tables::{Boot, HealthConfig, LunConfig},
    words::Gate,
};
use crate::terms::{AbsPath, Bytes, FsLabel, Iqn, LunNumber, Span, WantedLun, Wwid};
use serde::{Serialize, Serializer};

/// The whole config of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeRow {
    /// The host name, pattern or machine id in the entry.
    pub name: String,
    /// The line that names the node, its file, and the number of that line.
    pub chosen_by: String,
    /// The node's initiator name, with a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initiator: Option<InitiatorName>,
    /// How the LUN is found.
    pub place: Place,
    /// The LUN's WWID, if the config requires one.
    pub wwid: Option<Wwid>,
    /// The WWIDs of which the LUN has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wwids: Vec<Wwid>,
}

/// In the tables of the config file: `target` or `device`, and this node's part of the storage in `node`. What a file has as
/// a text with a unit is a number here, in a key with the unit, because programs compute with it.
impl Serialize for Config {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            target: Option<&'a Target>,
            #[serde(skip_serializing_if = "Option::is_none")]
            device: Option<&'a Device>,
            etcd: &'a EtcdConfig,
            cluster: &'a ClusterConfig,
            lun: WrittenLun<'a>,
            boot: WrittenBoot,
            health: WrittenHealth<'a>,
            node: WrittenNode<'a>,
        }
        #[derive(Serialize)]
        struct WrittenNode<'a> {
            name: &'a str,
            chosen_by: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            initiator: Option<&'a Iqn>,
            #[serde(skip_serializing_if = "Option::is_none")]
            lun: Option<LunNumber>,
            wwid: Option<&'a Wwid>,
            #[serde(skip_serializing_if = "<[Wwid]>::is_empty")]
            wwids: &'a [Wwid],
        }
        #[derive(Serialize)]
        struct WrittenLun<'a> {
            min_size_bytes: Bytes,
            mount_options: &'a [String],
            label: &'a FsLabel,
            require_fsync_p99_seconds: Option<Span>,
            keep_retired_seconds: Span,
            max_switch_seconds: Span,
            reserve: bool,
        }
        #[derive(Serialize)]
        struct WrittenBoot {
            gate: Gate,
            attach_timeout_seconds: Span,
        }
        #[derive(Serialize)]
        struct WrittenHealth<'a> {
            interval_seconds: Span,
            textfile: &'a AbsPath,
        }
        let Self { backing, etcd, cluster, lun, boot, health, node } = self;
        let iscsi = backing.iscsi();
        let device = match backing {
            Backing::Iscsi(_) => None,
            Backing::Device(device) => Some(device),
        };
        let node = WrittenNode {
            name: &node.name,
            chosen_by: &node.chosen_by,
            initiator: iscsi.map(|iscsi| &iscsi.initiator),
            lun: iscsi.and_then(|iscsi| iscsi.lun.number),
            wwid: node.wwid.as_ref(),
            wwids: &node.wwids,
        };
        let LunConfig {
            min_size,
            mount_options,
            label,
            require_fsync_p99,
            keep_retired,
            max_switch,
            reserve,
        } = lun;
        let lun = WrittenLun {
            min_size_bytes: *min_size,
            mount_options,
            label,
            require_fsync_p99_seconds: *require_fsync_p99,
            keep_retired_seconds: *keep_retired,
            max_switch_seconds: *max_switch,
            reserve: *reserve,
        };
        let boot = WrittenBoot { gate: boot.gate, attach_timeout_seconds: boot.attach_timeout };
        let health = WrittenHealth { interval_seconds: health.interval, textfile: &health.textfile };
        let target = iscsi.map(|iscsi| &iscsi.target);
        Written { target, device, etcd, cluster, lun, boot, health, node }.serialize(to)
    }
}

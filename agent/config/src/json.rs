//! The form of a node's config in JSON.

use super::{
    backing::{Backing, Device},
    node_config::Config,
    parts::{ClusterConfig, EtcdConfig, Target},
    plain_tables::LunConfig,
    words::Gate,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use terms::{AbsPath, Bytes, FsLabel, Iqn, LunNumber, Span, Wwid};

/// The whole config of a node, in the tables of the config file. What a file has as a text with a unit is a number here, in a
/// key with the unit, because programs compute with it.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    /// The iSCSI target, if the config has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a Target>,
    /// The local or cloud disk, if the config names one in place of a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a Device>,
    /// etcd on this node.
    etcd: &'a EtcdConfig,
    /// How etcd is asked about its cluster.
    cluster: &'a ClusterConfig,
    /// Requirements for the LUN, and its filesystem.
    lun: WrittenLun<'a>,
    /// Behaviour at boot.
    boot: WrittenBoot,
    /// The health check that the timer starts.
    health: WrittenHealth<'a>,
    /// The entry of this node.
    node: WrittenNode<'a>,
}

/// The entry of a node.
#[derive(Serialize, JsonSchema)]
struct WrittenNode<'a> {
    /// The host name or machine id in the entry; of a pattern, the host name that it was chosen for.
    name: &'a str,
    /// The line that made this the node's entry, and its file.
    chosen_by: &'a str,
    /// The node's initiator name, with a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    initiator: Option<&'a Iqn>,
    /// The LUN's number at the target, if the config has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    lun: Option<LunNumber>,
    /// The LUN's WWID, if the config requires one.
    wwid: Option<&'a Wwid>,
    /// The WWIDs of which the LUN has one, if the config has such a list.
    #[serde(skip_serializing_if = "<[Wwid]>::is_empty")]
    wwids: &'a [Wwid],
    /// False if etcd stays on the local disk as long as it is there.
    migrate: bool,
}

/// Requirements for the LUN, and its filesystem.
#[derive(Serialize, JsonSchema)]
struct WrittenLun<'a> {
    /// The smallest size in bytes that a LUN may have.
    min_size_bytes: Bytes,
    /// The options of the config that the LUN is mounted with.
    mount_options: &'a [String],
    /// The filesystem's label.
    label: &'a FsLabel,
    /// The time in seconds within which 99 of 100 `fdatasync` calls must finish; none if the LUN is not measured.
    require_fsync_p99_seconds: Option<Span>,
    /// How long the old local data is kept at least, in seconds.
    keep_retired_seconds: Span,
    /// The longest time in seconds that the last blocks may take while etcd is stopped.
    max_switch_seconds: Span,
}

/// Behaviour at boot.
#[derive(Serialize, JsonSchema)]
struct WrittenBoot {
    /// What waits for the LUN.
    gate: Gate,
    /// How long `apply` waits for the login and for the LUN, in seconds.
    attach_timeout_seconds: Span,
}

/// The health check that the timer starts.
#[derive(Serialize, JsonSchema)]
struct WrittenHealth<'a> {
    /// How often the check runs: every so many seconds.
    interval_seconds: Span,
    /// The file in which the check writes metrics for node-exporter.
    textfile: &'a AbsPath,
}

impl<'a> From<&'a Config> for Written<'a> {
    fn from(config: &'a Config) -> Self {
        let Config { backing, etcd, cluster, lun, boot, health, node } = config;
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
            migrate: node.migrate,
        };
        let LunConfig { min_size, mount_options, label, require_fsync_p99, keep_retired, max_switch } = lun;
        let lun = WrittenLun {
            min_size_bytes: *min_size,
            mount_options,
            label,
            require_fsync_p99_seconds: *require_fsync_p99,
            keep_retired_seconds: *keep_retired,
            max_switch_seconds: *max_switch,
        };
        let boot = WrittenBoot { gate: boot.gate, attach_timeout_seconds: boot.attach_timeout };
        let health = WrittenHealth { interval_seconds: health.interval, textfile: &health.textfile };
        let target = iscsi.map(|iscsi| &iscsi.target);
        Self { target, device, etcd, cluster, lun, boot, health, node }
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Written::from(self).serialize(to)
    }
}

impl JsonSchema for Config {
    fn schema_name() -> Cow<'static, str> {
        "Config".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::json_schema(generator)
    }
}

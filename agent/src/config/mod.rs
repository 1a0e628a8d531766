//! What is wanted: the config, validated and immutable.
//!
//! Fragments as written ([`fragment`]) → merged → validated: a [`Pool`], the same for all nodes → with
//! the entry of this very node ([`entry`]): a [`Config`]. Pure: texts come in, from `/etc/etcd-lun/config.toml` and then
//! `/etc/etcd-lun/config.d/*.toml` in the order of their names.

mod backing;
mod chap;
pub mod defaults;
mod entry;
mod error;
mod form;
mod fragment;
mod parse;
mod pool;
mod timeouts;

pub use backing::{Backing, Device, DeviceNode, Iscsi, IscsiNode, Nodes, Place, Storage};
pub use chap::{ChapSource, SecretSource};
pub use entry::NodeEntry;
pub use error::ConfigError;
pub use fragment::{Discovery, Gate};
pub use pool::Pool;
pub use timeouts::{NOT_IN_USE, TimeoutWish};

use crate::terms::{AbsPath, Bytes, FsLabel, Iqn, MetricsUrl, Portal, Span};
use serde::Serialize;

/// The main file. Fragments lie in [`FRAGMENTS`].
pub const MAIN_FILE: &str = "/etc/etcd-lun/config.toml";
/// The directory of further fragments.
pub const FRAGMENTS: &str = "/etc/etcd-lun/config.d";

/// One file's text.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where it was read, for messages.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// The whole config, as this node takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What etcd's data is brought to.
    pub backing: Backing,
    /// etcd on this node.
    pub etcd: EtcdWish,
    /// What the LUN must be like.
    pub lun: LunWish,
    /// Behaviour at boot.
    pub boot: Boot,
    /// The health check that the timer runs.
    pub health: HealthWish,
    /// The entry of this node.
    pub node: NodeEntry,
}

/// The iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Its name.
    pub iqn: Iqn,
    /// Its portals, in order of preference; at least one.
    pub portals: Vec<Portal>,
    /// How portals are learnt.
    pub discovery: Discovery,
    /// How long it may be silent.
    pub timeouts: TimeoutWish,
    /// Credentials of sessions.
    pub chap: Option<ChapSource>,
    /// Credentials of discovery.
    pub discovery_chap: Option<ChapSource>,
}

/// etcd on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EtcdWish {
    /// Its data directory.
    pub data_dir: AbsPath,
    /// What starts and stops it.
    pub runtime: Runtime,
    /// Where it shows its metrics, for `health`; nothing: they aren't asked for.
    pub metrics: Option<MetricsUrl>,
    /// With what it is asked over TLS.
    pub certificates: Certificates,
}

/// The files that curl shows etcd who asks with; those of OpenShift where one isn't named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Certificates {
    /// Whom to trust.
    pub authority: Option<AbsPath>,
    /// Our own.
    pub certificate: Option<AbsPath>,
    /// Its key.
    pub key: Option<AbsPath>,
}

/// What starts and stops etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A systemd unit.
    Systemd {
        /// Its name, `etcd.service` by default.
        unit: String,
    },
    /// A static pod: the kubelet runs it while its manifest is in the kubelet's directory.
    StaticPod {
        /// The manifest.
        manifest: AbsPath,
    },
}

/// What the LUN must be like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LunWish {
    /// A smaller one is refused.
    pub min_size: Bytes,
    /// Mount options; in the unit `_netdev` is there for iSCSI whether asked for or not.
    pub mount_options: Vec<String>,
    /// The filesystem's label.
    pub label: FsLabel,
    /// A LUN on which 99 of 100 `fdatasync` calls don't end within this is refused; nothing: it isn't measured.
    pub require_fsync_p99: Option<Span>,
    /// For how long local data that was copied is kept at least.
    pub keep_retired: Span,
}

/// Behaviour at boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// What waits for the LUN.
    pub gate: Gate,
    /// How long the first login and the arrival of the LUN are waited for.
    pub attach_timeout: Span,
}

/// The health check that the timer runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthWish {
    /// How often.
    pub interval: Span,
    /// Where its metrics are written for node-exporter, when that directory exists.
    pub textfile: AbsPath,
}

impl Config {
    /// Merges and validates the texts, and takes the entry that matches this node.
    pub fn load(sources: &[Source], machine_id: &str, hostname: &str) -> Result<Self, ConfigError> {
        Pool::load(sources)?.for_node(machine_id, hostname)
    }
}

impl Target {
    /// All secrets that it names, of sessions and of discovery.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretSource> {
        let chaps = self.chap.iter().chain(&self.discovery_chap);
        chaps.flat_map(|chap| {
            std::iter::once(&chap.password).chain(chap.mutual.iter().map(|(_, secret)| secret))
        })
    }
}

impl LunWish {
    /// Mount options as the unit has them: for a LUN that is on the network `_netdev` first.
    pub fn unit_options(&self, on_network: bool) -> Vec<String> {
        if !on_network {
            return self.mount_options.clone();
        }
        let own = self.mount_options.iter().filter(|option| *option != "_netdev").cloned();
        std::iter::once("_netdev".to_owned()).chain(own).collect()
    }
}

#[cfg(test)]
mod tests;

//! The config, validated and immutable: what is wanted. Pure: the caller reads the files.
//!
//! 1. [`merge`] makes one TOML table of all files: first `/etc/etcd-lun/config.toml`, then `/etc/etcd-lun/config.d/*.toml`
//!    in the order of their names.
//! 2. [`parse`] reads it into [`tables`], with the [`defaults`].
//! 3. [`pool`] validates. The result is a [`Pool`], the same for all nodes.
//! 4. [`entry`] finds the entry of this node. The result is a [`Config`].

mod backing;
mod chap;
mod cluster;
pub mod defaults;
mod entries;
mod entry;
mod entry_rules;
mod error;
mod errors;
mod form;
mod merge;
mod mount_options;
mod node_config;
mod node_record;
mod parse;
mod parts;
mod pattern;
mod plain_tables;
mod pool;
mod schema;
mod shared;
mod source;
mod tables;
mod timeouts;
mod words;

pub use backing::{Backing, Device, DeviceNode, Iscsi, IscsiNode, Nodes, Place, Storage};
pub use chap::{ChapSource, SecretSource};
pub use error::ConfigError;
pub use node_config::{Config, NodeRow};
pub use node_record::record_settings;
pub use parse::utf8;
pub use parts::{Certificates, ClusterConfig, EtcdConfig, NodeEntry, Runtime, Target, parked};
pub use pattern::{InitiatorName, is_host_name};
pub use plain_tables::{Boot, HealthConfig, LunConfig};
pub use pool::Pool;
pub use schema::schema;
pub use source::{FRAGMENTS, Line, MAIN_FILE, Source, Spot};
pub use timeouts::{NOT_IN_USE, PATH_FAILS_AFTER, Timeouts};
pub use words::{Digests, Discovery, Gate};

/// A config to begin with, as `config example` prints it.
pub const EXAMPLE: &str = include_str!("example.toml");

impl Config {
    /// Merges and validates the texts, and finds the entry that matches this node.
    pub fn load(sources: &[Source], machine_id: &str, hostname: &str) -> Result<Self, ConfigError> {
        Pool::load(sources)?.for_node(machine_id, hostname)
    }
}

#[cfg(test)]
mod tests;

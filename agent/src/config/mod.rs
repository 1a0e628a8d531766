//! What is wanted: the config, validated and immutable.
//!
//! Fragments as written ([`fragment`]) → merged → validated (here) → with the entry of this very
//! node ([`entry`]). Pure: texts come in, from `/etc/etcd-lun/config.toml` and then
//! `/etc/etcd-lun/config.d/*.toml` in the order of their names.

mod chap;
mod entry;
mod error;
mod fragment;

pub use chap::{ChapSource, SecretSource};
pub use entry::NodeEntry;
pub use error::ConfigError;
pub use fragment::Discovery;

use crate::terms::{AbsPath, Bytes, FsLabel, Iqn, Portal, Span};
use fragment::{EtcdFragment, Fragment, LunFragment, RuntimeName};
use serde::Serialize;
use std::time::Duration;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// The iSCSI target.
    pub target: Target,
    /// etcd on this node.
    pub etcd: EtcdWish,
    /// What the LUN must be like.
    pub lun: LunWish,
    /// Behaviour at boot.
    pub boot: Boot,
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
}

/// What the LUN must be like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LunWish {
    /// A smaller one is refused.
    pub min_size: Bytes,
    /// Mount options; `_netdev` is there for iSCSI whether asked for or not.
    pub mount_options: Vec<String>,
    /// The filesystem's label.
    pub label: FsLabel,
}

/// Behaviour at boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// How long the first login and the arrival of the LUN are waited for.
    pub attach_timeout: Span,
}

/// etcd's own default quota is 2 GiB, OpenShift's 8 GiB; a LUN below that fills up in use.
const DEFAULT_MIN_SIZE: Bytes = Bytes(8 << 30);
/// Half of what open-iscsi's own 8 retries of 15 s would take, times five portals' worth.
const DEFAULT_ATTACH_TIMEOUT: Span = Span(Duration::from_secs(300));
/// mkfs.xfs refuses less (xfsprogs 5.19 and later: "Filesystem must be larger than 300MB").
const SMALLEST_XFS: Bytes = Bytes(300 << 20);

impl Config {
    /// Merges and validates the texts, and takes the entry that matches this node.
    pub fn load(sources: &[Source], machine_id: &str, hostname: &str) -> Result<Self, ConfigError> {
        let merged = merge(sources)?;
        let node = entry::choose(&merged.node, machine_id, hostname)?;
        let missing = |key: &'static str, example: &'static str| ConfigError::Missing { key, example };
        let target = merged.target;
        let portals = target.portals.ok_or_else(|| missing("target.portals", "[\"192.168.10.5:3260\"]"))?;
        if portals.is_empty() {
            return Err(ConfigError::value("target.portals", "the list is empty", "at least one portal"));
        }
        let unique: std::collections::BTreeSet<_> = portals.iter().collect();
        if unique.len() != portals.len() {
            return Err(ConfigError::value("target.portals", "a portal is listed twice", "each portal once"));
        }
        Ok(Self {
            target: Target {
                iqn: target.iqn.ok_or_else(|| missing("target.iqn", "\"iqn.2024-02.com.example:etcd\""))?,
                portals,
                discovery: target.discovery.unwrap_or(Discovery::SendTargets),
                chap: target.chap.map(|table| chap::validate("target.chap", table)).transpose()?,
                discovery_chap: target
                    .discovery_chap
                    .map(|table| chap::validate("target.discovery_chap", table))
                    .transpose()?,
            },
            etcd: etcd(merged.etcd)?,
            lun: lun(merged.lun)?,
            boot: Boot { attach_timeout: merged.boot.attach_timeout.unwrap_or(DEFAULT_ATTACH_TIMEOUT) },
            node,
        })
    }

    /// Mount options as the unit has them: `_netdev` first, for the LUN is on the network.
    pub fn unit_options(&self) -> Vec<String> {
        let own = self.lun.mount_options.iter().filter(|option| *option != "_netdev").cloned();
        std::iter::once("_netdev".to_owned()).chain(own).collect()
    }
}

fn merge(sources: &[Source]) -> Result<Fragment, ConfigError> {
    if sources.is_empty() {
        return Err(ConfigError::NoFile);
    }
    let mut merged = Fragment::default();
    for source in sources {
        let mut fragment: Fragment =
            toml::from_str(&source.text).map_err(|error| ConfigError::toml(source, &error))?;
        for node in &mut fragment.node {
            node.written_in.clone_from(&source.path);
        }
        merged.merge(fragment);
    }
    Ok(merged)
}

fn etcd(written: EtcdFragment) -> Result<EtcdWish, ConfigError> {
    let data_dir = match written.data_dir {
        Some(dir) => dir,
        None => "/var/lib/etcd".parse().map_err(ConfigError::Term)?,
    };
    if data_dir.as_str() == "/" || data_dir.parent().as_str() == "/" {
        return Err(ConfigError::value(
            "etcd.data_dir",
            data_dir.as_str(),
            "a directory below a directory, such as \"/var/lib/etcd\"",
        ));
    }
    let unit = written.unit.unwrap_or_else(|| "etcd.service".into());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@\\".contains(c);
    if !unit.ends_with(".service") || !unit.chars().all(plain) {
        return Err(ConfigError::value(
            "etcd.unit",
            &unit,
            "the name of a service unit, such as \"etcd.service\"",
        ));
    }
    let runtime = match written.runtime {
        Some(RuntimeName::Systemd) => Runtime::Systemd { unit },
        None => return Err(ConfigError::Missing { key: "etcd.runtime", example: "\"systemd\"" }),
    };
    Ok(EtcdWish { data_dir, runtime })
}

fn lun(written: LunFragment) -> Result<LunWish, ConfigError> {
    let min_size = written.min_size.unwrap_or(DEFAULT_MIN_SIZE);
    if min_size < SMALLEST_XFS {
        let given = min_size.to_string();
        return Err(ConfigError::value(
            "lun.min_size",
            &given,
            "at least 300MiB, the smallest XFS that mkfs.xfs makes",
        ));
    }
    let mount_options = written.mount_options.unwrap_or_else(|| vec!["prjquota".into()]);
    for option in &mount_options {
        let plain = |c: char| c.is_ascii_graphic() && c != ',' && c != '%';
        // A read-only or lazily written etcd isn't one; `nouuid` would let a snapshot's clone in.
        let refused =
            ["ro", "norecovery", "nouuid", "nobarrier", "bind", "noauto", "nofail", "user", "users"];
        if option.is_empty() || !option.chars().all(plain) || refused.contains(&option.as_str()) {
            let wanted = "mount options of xfs(5) or mount(8), one per item, and none of ro, norecovery, nouuid, nobarrier, bind, noauto, nofail, user";
            return Err(ConfigError::value("lun.mount_options", option, wanted));
        }
    }
    let label = match written.label {
        Some(label) => label,
        None => "etcd-lun".parse().map_err(ConfigError::Term)?,
    };
    Ok(LunWish { min_size, mount_options, label })
}

#[cfg(test)]
mod tests;

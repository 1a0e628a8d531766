//! The config of a whole pool: what all nodes share, and their entries.

use super::{
    backing::{Nodes, Storage},
    chap::{self, SecretSource},
    cluster, defaults, entry,
    error::ConfigError,
    fragment::{
        EtcdFragment, Fragment, HealthFragment, LunFragment, NodeFragment, RuntimeName, TargetFragment,
    },
    mount_options,
    node_config::{Config, NodeRow},
    parse,
    parts::{Boot, Certificates, ClusterConfig, EtcdConfig, HealthConfig, LunConfig, Runtime, Target},
    source::Source,
    timeouts,
};
use crate::terms::{AbsPath, Bytes, Span};
use std::{collections::BTreeSet, time::Duration};

/// The config that all nodes of a pool share.
#[derive(Debug)]
pub struct Pool {
    /// The part of the storage that all nodes share.
    pub storage: Storage,
    /// etcd on every node.
    pub etcd: EtcdConfig,
    /// How etcd is asked about its cluster.
    pub cluster: ClusterConfig,
    /// Requirements for every LUN, and its filesystem.
    pub lun: LunConfig,
    /// Behaviour at boot.
    pub boot: Boot,
    /// The health check that the timer starts.
    pub health: HealthConfig,
    entries: Vec<NodeFragment>,
}

/// mkfs.xfs refuses less (xfsprogs 5.19 and later: "Filesystem must be larger than 300MB").
const SMALLEST_XFS: Bytes = Bytes(300 << 20);

impl Pool {
    /// Merges and validates the texts. The entries of nodes are validated later, by [`Pool::for_node`] and [`Pool::nodes`].
    pub fn load(sources: &[Source]) -> Result<Self, ConfigError> {
        Self::validate(sources).map_err(|error| error.at(|key| parse::whereabouts(sources, key)))
    }

    fn validate(sources: &[Source]) -> Result<Self, ConfigError> {
        let merged = merge(sources)?;
        let storage = match (merged.target, merged.device) {
            (Some(written), None) => Storage::Iscsi(Box::new(target(written)?)),
            (None, Some(device)) => Storage::Device(device.path),
            (Some(_), Some(_)) => {
                return Err(ConfigError::value("target", "both [target] and [device]", EITHER));
            }
            (None, None) => {
                return Err(ConfigError::value("target", "neither [target] nor [device]", EITHER));
            }
        };
        let etcd = etcd(merged.etcd)?;
        Ok(Self {
            storage,
            cluster: cluster::validate(merged.cluster, &etcd.runtime)?,
            etcd,
            lun: lun(merged.lun)?,
            boot: Boot {
                gate: merged.boot.gate.unwrap_or(defaults::GATE),
                attach_timeout: merged.boot.attach_timeout.unwrap_or(defaults::ATTACH_TIMEOUT),
            },
            health: health(merged.health)?,
            entries: merged.node,
        })
    }

    /// The config of one node. Only the entry that matches this node must be complete.
    pub fn for_node(self, machine_id: &str, hostname: &str) -> Result<Config, ConfigError> {
        let Self { storage, etcd, cluster, lun, boot, health, entries } = self;
        let (backing, node) = entry::choose(storage, &entries, machine_id, hostname)?;
        Ok(Config { backing, etcd, cluster, lun, boot, health, node })
    }

    /// What is legal in this config and probably a mistake. For `config check`.
    pub fn warnings(&self) -> Vec<String> {
        let options = self.lun.mount_options.iter().filter_map(|option| mount_options::warning(option));
        let mut found: Vec<_> = options.map(|said| format!("`lun.mount_options`: {said}")).collect();
        for (table, chap) in self.storage.target().into_iter().flat_map(Target::chaps) {
            if chap
                .secrets()
                .any(|secret| matches!(secret, SecretSource::Inline(secret) if secret.is_short()))
            {
                found.push(SecretSource::short(table));
            }
        }
        let unnamed = match &self.storage {
            Storage::Iscsi(_) => entry::without_wwid(&self.entries),
            Storage::Device(_) => Vec::new(),
        };
        let portals = self.storage.target().into_iter().flat_map(|target| &target.portals);
        for portal in portals.filter(|portal| portal.is_loopback()) {
            found.push(format!(
                "`target.portals`: {portal} is the node itself, and etcd's data would not leave it: this is right for a test only"
            ));
        }
        if !unnamed.is_empty() {
            found.push(format!(
                "`node.wwid`: there is none for {}, so only the number says which LUN is formatted: `etcd-lun luns` prints the WWID on the node",
                unnamed.join(", ")
            ));
        }
        if self.storage.target().is_some_and(|target| target.multipath && !target.has_paths(true)) {
            found.push(
                "`target.multipath`: there is one path, because `target.portals` has one portal".into(),
            );
        }
        found
    }

    /// The entries of all nodes as a table, for people. It is subject to the same rules as [`Pool::nodes`].
    pub fn rows(&self) -> Result<Vec<NodeRow>, ConfigError> {
        self.nodes()?;
        entry::rows(&self.storage, &self.entries)
    }

    /// The entries of all nodes. Each must be complete. No two may name the same node, or have the same initiator name, by which
    /// a target distinguishes nodes, or the same LUN.
    pub fn nodes(&self) -> Result<Nodes<'_>, ConfigError> {
        entry::all(&self.storage, &self.entries)
    }
}

const EITHER: &str = "one of the two: an iSCSI target, or a local or cloud disk";

fn target(written: TargetFragment) -> Result<Target, ConfigError> {
    let timeouts = timeouts::validate(&written)?;
    let portals =
        written.portals.ok_or_else(|| ConfigError::missing("target.portals", "[\"192.168.10.5:3260\"]"))?;
    if portals.is_empty() {
        return Err(ConfigError::value("target.portals", "the list is empty", "at least one portal"));
    }
    let unique: BTreeSet<_> = portals.iter().collect();
    if unique.len() != portals.len() {
        return Err(ConfigError::value("target.portals", "a portal is listed twice", "each portal once"));
    }
    Ok(Target {
        timeouts,
        multipath: written.multipath == Some(true),
        iqn: written
            .iqn
            .ok_or_else(|| ConfigError::missing("target.iqn", "\"iqn.2024-02.com.example:etcd\""))?,
        portals,
        discovery: written.discovery.unwrap_or(defaults::DISCOVERY),
        chap: written.chap.map(|table| chap::validate("target.chap", table)).transpose()?,
        discovery_chap: written
            .discovery_chap
            .map(|table| chap::validate("target.discovery_chap", table))
            .transpose()?,
    })
}

fn merge(sources: &[Source]) -> Result<Fragment, ConfigError> {
    if sources.is_empty() {
        return Err(ConfigError::NoFile);
    }
    let mut merged = Fragment::default();
    for source in sources {
        merged.merge(parse::fragment(source)?);
    }
    Ok(merged)
}

fn etcd(written: EtcdFragment) -> Result<EtcdConfig, ConfigError> {
    let data_dir = match written.data_dir {
        Some(dir) => dir,
        None => defaults::DATA_DIR.parse().map_err(ConfigError::Term)?,
    };
    if data_dir.as_str() == "/" || data_dir.parent().as_str() == "/" {
        return Err(ConfigError::value(
            "etcd.data_dir",
            data_dir.as_str(),
            "a directory below a directory, such as \"/var/lib/etcd\"",
        ));
    }
    let with_unit = written.unit.is_some();
    let unit = written.unit.unwrap_or_else(|| defaults::UNIT.into());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@\\".contains(c);
    if !unit.ends_with(".service") || !unit.chars().all(plain) {
        return Err(ConfigError::value(
            "etcd.unit",
            &unit,
            "the name of a service unit, such as \"etcd.service\"",
        ));
    }
    let runtime = match written.runtime {
        Some(RuntimeName::Systemd) if written.manifest.is_some() => {
            return Err(ConfigError::value(
                "etcd.manifest",
                "it is set",
                "no manifest with runtime = \"systemd\": remove the key",
            ));
        }
        Some(RuntimeName::Systemd) => Runtime::Systemd { unit },
        Some(RuntimeName::StaticPod) if with_unit => {
            return Err(ConfigError::value(
                "etcd.unit",
                "it is set",
                "no unit with runtime = \"static-pod\": remove the key",
            ));
        }
        Some(RuntimeName::StaticPod) => Runtime::StaticPod { manifest: manifest(written.manifest)? },
        None => return Err(ConfigError::missing("etcd.runtime", "\"static-pod\"")),
    };
    let certificates = Certificates {
        authority: written.metrics_ca,
        certificate: written.metrics_cert,
        key: written.metrics_key,
    };
    Ok(EtcdConfig { data_dir, runtime, metrics: written.metrics, certificates })
}

/// The manifest of the static pod. `apply` moves it to a directory beside its own and back, so its directory needs a parent
/// other than the root. The kubelet ignores a file whose name begins with a dot (kubernetes `pkg/kubelet/config/file.go`).
fn manifest(written: Option<AbsPath>) -> Result<AbsPath, ConfigError> {
    let path = match written {
        Some(path) => path,
        None => defaults::MANIFEST.parse().map_err(ConfigError::Term)?,
    };
    let dir = path.parent();
    let hidden = path.as_str().rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    if hidden || dir.as_str() == "/" || dir.parent().as_str() == "/" {
        let wanted = "a file that the kubelet reads, such as \"/etc/kubernetes/manifests/etcd-pod.yaml\"";
        return Err(ConfigError::value("etcd.manifest", path.as_str(), wanted));
    }
    Ok(path)
}

/// A check takes a few seconds, so a shorter interval would keep it running all the time.
const SHORTEST_INTERVAL: Span = Span(Duration::from_secs(15));

fn health(written: HealthFragment) -> Result<HealthConfig, ConfigError> {
    let interval = written.interval.unwrap_or(defaults::INTERVAL);
    if interval < SHORTEST_INTERVAL {
        return Err(ConfigError::value("health.interval", &interval.to_string(), "at least 15s"));
    }
    let textfile = match written.textfile {
        Some(path) => path,
        None => defaults::TEXTFILE.parse().map_err(ConfigError::Term)?,
    };
    // node-exporter reads only files with this suffix. The directory gets an SELinux label of ours, so it must not be a
    // directory that others share, such as /var.
    let parent = textfile.parent();
    if !textfile.name().ends_with(".prom") || parent.as_str() == "/" || parent.parent().as_str() == "/" {
        let wanted = "a file whose name ends with .prom, two directories deep or deeper, such as \"/var/node_exporter/textfile/etcd-lun.prom\"";
        return Err(ConfigError::value("health.textfile", textfile.as_str(), wanted));
    }
    Ok(HealthConfig { interval, textfile })
}

fn lun(written: LunFragment) -> Result<LunConfig, ConfigError> {
    let min_size = written.min_size.unwrap_or(defaults::MIN_SIZE);
    if min_size < SMALLEST_XFS {
        let given = min_size.to_string();
        return Err(ConfigError::value(
            "lun.min_size",
            &given,
            "at least 300MiB, the smallest XFS that mkfs.xfs makes",
        ));
    }
    let mount_options = written
        .mount_options
        .unwrap_or_else(|| defaults::MOUNT_OPTIONS.iter().map(ToString::to_string).collect());
    for option in &mount_options {
        if mount_options::is_refused(option) {
            let wanted = "mount options of xfs(5) or mount(8), one per item, and none of ro, norecovery, nouuid, nobarrier, bind, noauto, nofail, user, users, remount";
            return Err(ConfigError::value("lun.mount_options", option, wanted));
        }
    }
    let label = match written.label {
        Some(label) => label,
        None => defaults::LABEL.parse().map_err(ConfigError::Term)?,
    };
    if written.require_fsync_p99.is_some_and(|limit| limit.0.is_zero()) {
        return Err(ConfigError::value("lun.require_fsync_p99", "0ms", "a time, such as \"10ms\""));
    }
    let keep_retired = written.keep_retired.unwrap_or(defaults::KEEP_RETIRED);
    Ok(LunConfig {
        min_size,
        mount_options,
        label,
        keep_retired,
        require_fsync_p99: written.require_fsync_p99,
        max_switch: written.max_switch.unwrap_or(defaults::MAX_SWITCH),
    })
}

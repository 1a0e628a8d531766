//! The config of a whole pool: what all nodes share, and their entries.

use super::{
    backing::{Nodes, Storage},
    chap::{self, SecretSource},
    cluster, defaults, entry,
    error::ConfigError,
    mount_options,
    node_config::{Config, NodeRow},
    parse,
    parts::{Certificates, ClusterConfig, EtcdConfig, Runtime, Target},
    plain_tables::{Boot, HealthConfig, LunConfig},
    source::Source,
    tables::{EtcdTable, NodeTable, RuntimeName, TargetTable},
    timeouts,
};
use std::{collections::BTreeSet, time::Duration};
use terms::{AbsPath, Bytes, Span};

/// The config that all nodes of a pool share.
#[derive(Debug, Clone)]
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
    entries: Vec<NodeTable>,
}

/// mkfs.xfs refuses less (xfsprogs 5.19 and later: "Filesystem must be larger than 300MB").
const SMALLEST_XFS: Bytes = Bytes(300 << 20);

impl Pool {
    /// Merges and validates the texts. The entries of nodes are validated later, by [`Pool::for_node`] and [`Pool::nodes`].
    pub fn load(sources: &[Source]) -> Result<Self, ConfigError> {
        Self::validate(sources).map_err(|error| error.at(|key| parse::whereabouts(sources, key)))
    }

    fn validate(sources: &[Source]) -> Result<Self, ConfigError> {
        if sources.is_empty() {
            return Err(ConfigError::NoFile);
        }
        let merged = parse::tables(sources)?;
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
        check_lun(&merged.lun)?;
        if merged.lun.reserve && matches!(&storage, Storage::Iscsi(target) if target.multipath) {
            let wanted = "`false` with `target.multipath = true`: a path that multipathd adds to the map is not registered, so etcd's writes over it would fail";
            return Err(ConfigError::value("lun.reserve", "true", wanted));
        }
        check_health(&merged.health)?;
        for (key, span) in
            [("boot.attach_timeout", merged.boot.attach_timeout), ("lun.max_switch", merged.lun.max_switch)]
        {
            if span.0.is_zero() {
                return Err(ConfigError::value(key, "0s", "a time, such as \"5min\""));
            }
        }
        Ok(Self {
            storage,
            cluster: cluster::validate(merged.cluster, &etcd.runtime)?,
            etcd,
            lun: merged.lun,
            boot: merged.boot,
            health: merged.health,
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
        for (one, other) in entry::overlapping(&self.entries) {
            found.push(format!(
                "`node.hostname`: a node may match both {one} and {other}, and then it has no entry: write patterns of which a node matches one"
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

    /// The host names of all entries, in their order. An entry by machine id has none, and one with a pattern neither.
    pub fn host_names(&self) -> Result<Vec<String>, ConfigError> {
        self.nodes()?;
        let patterns = self.patterns();
        let names = self.entries.iter().filter_map(|entry| entry.hostname.clone());
        Ok(names.filter(|name| !patterns.contains(name)).collect())
    }

    /// The patterns of host names. The names of their nodes are not in the config.
    pub fn patterns(&self) -> Vec<String> {
        entry::patterns(&self.entries)
    }

    /// The nodes whose names are known: those of the entries, without the patterns, and these.
    pub fn nodes_named(&self, names: &[String]) -> Result<Nodes<'_>, ConfigError> {
        entry::of_names(&self.storage, &self.entries, names)
    }

    /// The pool as it is before its target has LUNs: nobody knows their WWIDs then, so no entry needs one.
    pub fn before_its_luns(mut self) -> Self {
        if let Storage::Iscsi(target) = &mut self.storage {
            target.multipath = false;
        }
        self
    }

    /// Whether the config has an entry for a node with this name.
    pub fn knows(&self, name: &str) -> bool {
        entry::choose(self.storage.clone(), &self.entries, name, name).is_ok()
    }

    /// The entries of all nodes. Each must be complete. No two may name the same node, or have the same initiator name, by which
    /// a target distinguishes nodes, or the same LUN.
    pub fn nodes(&self) -> Result<Nodes<'_>, ConfigError> {
        entry::all(&self.storage, &self.entries)
    }
}

const EITHER: &str = "one of the two: an iSCSI target, or a local or cloud disk; `etcd-lun config example` prints a config to begin with";

fn target(written: TargetTable) -> Result<Target, ConfigError> {
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
        digests: written.digests,
        multipath: written.multipath,
        safe_logout: written.safe_logout,
        lun_masking: written.lun_masking,
        iqn: written
            .iqn
            .ok_or_else(|| ConfigError::missing("target.iqn", "\"iqn.2024-02.com.example:etcd\""))?,
        portals,
        discovery: written.discovery,
        chap: written.chap.map(|table| chap::validate("target.chap", table)).transpose()?,
        discovery_chap: written
            .discovery_chap
            .map(|table| chap::validate("target.discovery_chap", table))
            .transpose()?,
    })
}

/// What a directory would have to be to hold etcd's data; none for one that can.
fn unusable(dir: &str) -> Option<&'static str> {
    if dir.ends_with("/member") {
        return Some("the directory above it, which etcd has as --data-dir");
    }
    let of_kernel = ["/proc/", "/sys/", "/dev/"].iter().any(|root| dir.starts_with(root));
    of_kernel.then_some("a directory on a disk, such as \"/var/lib/etcd\"")
}

fn etcd(written: EtcdTable) -> Result<EtcdConfig, ConfigError> {
    let data_dir = written.data_dir;
    if data_dir.as_str() == "/" || data_dir.parent().as_str() == "/" {
        return Err(ConfigError::value(
            "etcd.data_dir",
            data_dir.as_str(),
            "a directory below a directory, such as \"/var/lib/etcd\"",
        ));
    }
    if let Some(why) = unusable(data_dir.as_str()) {
        return Err(ConfigError::value("etcd.data_dir", data_dir.as_str(), why));
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
    let path = written.unwrap_or_else(|| AbsPath::of_source(defaults::MANIFEST));
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

fn check_health(HealthConfig { interval, textfile }: &HealthConfig) -> Result<(), ConfigError> {
    if *interval < SHORTEST_INTERVAL {
        return Err(ConfigError::value("health.interval", &interval.to_string(), "at least 15s"));
    }
    // node-exporter reads only files with this suffix. The directory gets an SELinux label of ours, so it must not be a
    // directory that others share, such as /var.
    let parent = textfile.parent();
    if !textfile.name().ends_with(".prom") || parent.as_str() == "/" || parent.parent().as_str() == "/" {
        let wanted = "a file whose name ends with .prom, two directories deep or deeper, such as \"/var/node_exporter/textfile/etcd-lun.prom\"";
        return Err(ConfigError::value("health.textfile", textfile.as_str(), wanted));
    }
    Ok(())
}

fn check_lun(lun: &LunConfig) -> Result<(), ConfigError> {
    if lun.min_size < SMALLEST_XFS {
        let wanted = "at least 300MiB, the smallest XFS that mkfs.xfs makes";
        return Err(ConfigError::value("lun.min_size", &lun.min_size.to_string(), wanted));
    }
    if let Some(option) = lun.mount_options.iter().find(|option| mount_options::is_refused(option)) {
        let wanted = "mount options of xfs(5) or mount(8), one per item, and none of ro, norecovery, nouuid, nobarrier, bind, noauto, nofail, user, users, remount, defcontext, fscontext, rootcontext";
        return Err(ConfigError::value("lun.mount_options", option, wanted));
    }
    if lun.require_fsync_p99.is_some_and(|limit| limit.0.is_zero()) {
        return Err(ConfigError::value("lun.require_fsync_p99", "0ms", "a time, such as \"10ms\""));
    }
    Ok(())
}

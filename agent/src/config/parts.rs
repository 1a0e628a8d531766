//! The validated parts of the config. Each is a table of the config file, with the defaults filled in.

use super::{
    chap::{ChapSource, SecretSource},
    defaults, form,
    timeouts::Timeouts,
    words::{Discovery, Gate},
};
use crate::terms::{AbsPath, Bytes, ClientUrl, FsLabel, Iqn, MetricsUrl, Portal, Span, Wwid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// The target's iSCSI name.
    pub iqn: Iqn,
    /// The target's portals, in order of preference; at least one.
    pub portals: Vec<Portal>,
    /// How portals are discovered.
    pub discovery: Discovery,
    /// How long the target may be silent.
    pub timeouts: Timeouts,
    /// Whether dm-multipath must combine the paths to the portals.
    pub multipath: bool,
    /// Credentials for sessions.
    pub chap: Option<ChapSource>,
    /// Credentials for discovery.
    pub discovery_chap: Option<ChapSource>,
}

/// etcd on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EtcdConfig {
    /// etcd's data directory.
    pub data_dir: AbsPath,
    /// What runs etcd.
    pub runtime: Runtime,
    /// The address of etcd's metrics, for `health`. Without it `health` doesn't read them.
    pub metrics: Option<MetricsUrl>,
    /// The certificates for reading the metrics over HTTPS.
    pub certificates: Certificates,
}

/// The certificates with which curl asks etcd over HTTPS. For a static pod OpenShift's are used where the config names none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Certificates {
    /// The CA certificate.
    pub authority: Option<AbsPath>,
    /// The client certificate.
    pub certificate: Option<AbsPath>,
    /// The key of the client certificate.
    pub key: Option<AbsPath>,
}

/// How etcd is asked about its cluster, by hand only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterConfig {
    /// Where this node's own member answers.
    pub client_url: ClientUrl,
    /// The port at which every member answers HTTP, if that is not the port of its client URL.
    pub http_port: Option<u16>,
    /// The certificates for HTTPS.
    pub certificates: Certificates,
    /// Whether this member is stopped although the others cannot do without it.
    pub without_quorum: bool,
    /// How long a run by hand waits until the member serves again.
    pub serve_timeout: Span,
}

/// What runs etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A systemd unit.
    Systemd {
        /// The unit's name.
        unit: String,
    },
    /// A static pod. The kubelet runs it while its manifest is in the kubelet's directory.
    StaticPod {
        /// The manifest.
        manifest: AbsPath,
    },
}

/// Where a static pod's manifest lies while its etcd is stopped. A manifest there says that we stopped etcd.
///
/// The directory is beside the kubelet's, so that a rename moves the manifest: `/var` would be another mount (ostree's
/// `var.mount`). It is outside the kubelet's directory, because the kubelet runs every manifest in there.
pub fn parked(manifest: &AbsPath) -> AbsPath {
    manifest.parent().parent().join("etcd-lun-parked").join(manifest.name())
}

/// Requirements for the LUN, and its filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LunConfig {
    /// The smallest size that a LUN may have; a smaller one is refused. At least 300MiB, the smallest XFS.
    pub min_size: Bytes,
    /// The options that the LUN is mounted with. For a target `_netdev` is added. Options that make the mount read-only, delay
    /// writes or make the mount optional are refused. `config check` warns of an option that neither mount(8) nor xfs(5) has; it
    /// is no error, because a newer kernel may have it.
    #[serde(deserialize_with = "form::mount_options")]
    pub mount_options: Vec<String>,
    /// The filesystem's label, 12 bytes at most. No other filesystem on the node may have it.
    pub label: FsLabel,
    /// A limit for the LUN's speed. `apply` measures the LUN before it stops etcd, and refuses the LUN unless 99 of 100
    /// `fdatasync` calls finish within this time. Without it the LUN is not measured.
    #[schemars(example = &"10ms")]
    pub require_fsync_p99: Option<Span>,
    /// How long the old local data is kept at least.
    pub keep_retired: Span,
    /// The longest time that the last blocks may take while etcd is stopped. While etcd still runs, `apply` and `rollback`
    /// measure how long they take, and refuse to stop etcd if it is longer.
    pub max_switch: Span,
}

impl Default for LunConfig {
    fn default() -> Self {
        Self {
            min_size: defaults::MIN_SIZE,
            mount_options: defaults::MOUNT_OPTIONS.iter().map(ToString::to_string).collect(),
            label: FsLabel::of_source(defaults::LABEL),
            require_fsync_p99: None,
            keep_retired: defaults::KEEP_RETIRED,
            max_switch: defaults::MAX_SWITCH,
        }
    }
}

/// Behaviour at boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Boot {
    /// What waits for the LUN: `"etcd"`, only etcd; or `"kubelet"`, the kubelet and CRI-O as well.
    #[serde(deserialize_with = "form::word")]
    pub gate: Gate,
    /// How long `apply` waits for the login and for the LUN, at boot and by hand. With `gate = "etcd"`, a boot after the migration
    /// waits for 30 s at most, so that the kubelet starts. The service tries again every 20 s.
    pub attach_timeout: Span,
}

impl Default for Boot {
    fn default() -> Self {
        Self { gate: defaults::GATE, attach_timeout: defaults::ATTACH_TIMEOUT }
    }
}

/// The health check that the timer starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HealthConfig {
    /// How often the check runs; 15s at least.
    pub interval: Span,
    /// The file in which the check writes metrics for node-exporter, if its directory exists.
    pub textfile: AbsPath,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self { interval: defaults::INTERVAL, textfile: AbsPath::of_source(defaults::TEXTFILE) }
    }
}

/// The entry of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeEntry {
    /// The host name or machine id in the entry.
    pub name: String,
    /// The line that made this the node's entry, and its file, for messages.
    pub chosen_by: String,
    /// The LUN's WWID, if the config requires one.
    pub wwid: Option<Wwid>,
}

impl Target {
    /// Whether a node uses several paths. Where the config asks for multipath, a daemon that has stopped is a fault and
    /// changes nothing: otherwise the records would differ from the config until it runs again.
    pub fn has_paths(&self, multipathd_runs: bool) -> bool {
        (self.multipath || multipathd_runs) && self.portals.len() > 1
    }

    /// All secrets that the config names, for sessions and for discovery.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretSource> {
        self.chaps().flat_map(|(_, chap)| chap.secrets())
    }

    /// The tables of credentials, with their names.
    pub fn chaps(&self) -> impl Iterator<Item = (&'static str, &ChapSource)> {
        let all = [("target.chap", &self.chap), ("target.discovery_chap", &self.discovery_chap)];
        all.into_iter().filter_map(|(table, chap)| Some((table, chap.as_ref()?)))
    }
}

impl LunConfig {
    /// The mount options of the unit: for a LUN on the network `_netdev` comes first, and what takes their effect from
    /// device nodes and programs on the LUN comes last. An option of the config that says otherwise wins.
    pub fn unit_options(&self, on_network: bool) -> Vec<String> {
        const WITHOUT_EFFECT: [(&str, &str); 3] = [("nodev", "dev"), ("nosuid", "suid"), ("noexec", "exec")];
        let asked = |name: &str| self.mount_options.iter().any(|option| option == name);
        let first = on_network.then_some("_netdev");
        let own = self.mount_options.iter().filter(|option| !on_network || *option != "_netdev").cloned();
        let last = WITHOUT_EFFECT.into_iter().filter(|(option, other)| !asked(option) && !asked(other));
        let last = last.map(|(option, _)| option.to_owned());
        first.into_iter().map(str::to_owned).chain(own).chain(last).collect()
    }
}

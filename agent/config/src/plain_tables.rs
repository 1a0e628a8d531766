//! The tables whose keys are the same in a file and in the program.

use super::{defaults, form, words::Gate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::{AbsPath, Bytes, CONTEXT, FsLabel, NETDEV, Span, options_for_etcd};

/// Requirements for the LUN, and its filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LunConfig {
    /// The smallest LUN that data is moved to; a smaller one is refused. At least 300MiB, the smallest XFS.
    #[serde(serialize_with = "form::as_written")]
    #[schemars(with = "String")]
    pub min_size: Bytes,
    /// The options that the LUN is mounted with. For a target `_netdev` is added, and always `nodev`, `nosuid`, `noexec`, and
    /// `context=` with the policy module's label: with it no label on the LUN counts. Where SELinux is off, `context=` has no
    /// effect. An option of yours wins, such as another `context=`. Options that make the mount read-only, delay writes or make
    /// the mount optional are refused. `config check` warns of an option that neither mount(8) nor xfs(5) has; it
    /// is no error, because a newer kernel may have it.
    pub mount_options: Vec<String>,
    /// The filesystem's label, 12 bytes at most. No other filesystem on the node may have it.
    pub label: FsLabel,
    /// A limit for the LUN's speed. `apply` measures the LUN before it stops etcd, and refuses the LUN unless 99 of 100
    /// `fdatasync` calls finish within this time. Without it the LUN is not measured.
    #[schemars(example = &"10ms")]
    #[serde(serialize_with = "form::optional_as_written")]
    #[schemars(with = "Option<String>")]
    pub require_fsync_p99: Option<Span>,
    /// How long the old local data is kept at least.
    #[serde(serialize_with = "form::as_written")]
    #[schemars(with = "String")]
    pub keep_retired: Span,
    /// The longest time that the last blocks may take while etcd is stopped. While etcd still runs, `apply` and `rollback`
    /// measure how long they take, and refuse to stop etcd if it is longer.
    #[serde(serialize_with = "form::as_written")]
    #[schemars(with = "String")]
    pub max_switch: Span,
}

impl LunConfig {
    /// The options with which the LUN is mounted for etcd: those that the mount must have ([`Self::options_in_effect`]), and before
    /// them what systemd alone reads: `_netdev` for a LUN on the network.
    pub fn options_for_etcd(&self, on_network: bool) -> Vec<String> {
        options_for_etcd(&self.staging_options(), on_network)
    }

    /// The options that etcd's mount must have.
    pub fn options_in_effect(&self) -> Vec<String> {
        self.options_for_etcd(false).into_iter().filter(|option| option != NETDEV).collect()
    }

    /// The options of the config, with the label. A mount of etcd-lun's own must have those of the filesystem that etcd's mount has:
    /// both may be there at a time.
    pub fn staging_options(&self) -> Vec<String> {
        self.mount_options.iter().cloned().chain(self.label_option()).collect()
    }

    fn label_option(&self) -> Option<String> {
        self.own_label().is_none().then(|| format!("{CONTEXT}{}", self.data_label()))
    }

    /// The SELinux label that every file on the mounted LUN has: the policy module's, or that of the config's own `context=`.
    pub fn data_label(&self) -> &str {
        self.own_label().unwrap_or(defaults::DATA_LABEL)
    }

    fn own_label(&self) -> Option<&str> {
        self.mount_options.iter().find_map(|option| option.strip_prefix(CONTEXT))
    }
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
    /// The services that wait for the LUN: `"etcd"`, only etcd; or `"kubelet"`, the kubelet and CRI-O as well.
    pub gate: Gate,
    /// How long `apply` waits for the login and for the LUN, at boot and by hand. With `gate = "etcd"`, a boot after the migration
    /// waits for 30 s at most, so that the kubelet starts. The service tries again every 20 s.
    #[serde(serialize_with = "form::as_written")]
    #[schemars(with = "String")]
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
    #[serde(serialize_with = "form::as_written")]
    #[schemars(with = "String")]
    pub interval: Span,
    /// The file in which the check writes metrics for node-exporter, if its directory exists.
    pub textfile: AbsPath,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self { interval: defaults::INTERVAL, textfile: AbsPath::of_source(defaults::TEXTFILE) }
    }
}

//! Config as written: TOML fragments, every key optional, and how they merge.

use crate::terms::{AbsPath, Bytes, DiskLink, FsLabel, Iqn, LunNumber, MetricsUrl, Portal, Span, Wwid};
use serde::Deserialize;

/// One file, or several merged.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fragment {
    pub target: Option<TargetFragment>,
    pub device: Option<DeviceFragment>,
    #[serde(default)]
    pub etcd: EtcdFragment,
    #[serde(default)]
    pub lun: LunFragment,
    #[serde(default)]
    pub boot: BootFragment,
    #[serde(default)]
    pub health: HealthFragment,
    #[serde(default)]
    pub node: Vec<NodeFragment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TargetFragment {
    pub iqn: Option<Iqn>,
    pub portals: Option<Vec<Portal>>,
    pub discovery: Option<Discovery>,
    pub replacement_timeout: Option<Span>,
    pub noop_interval: Option<Span>,
    pub noop_timeout: Option<Span>,
    pub chap: Option<ChapFragment>,
    pub discovery_chap: Option<ChapFragment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceFragment {
    pub path: Option<DiskLink>,
}

/// How the target's portals are learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// The target is asked (RFC 7143, SendTargets).
    SendTargets,
    /// The config's portals are taken as they are.
    Static,
}

/// A CHAP table is merged as a whole: half a credential from one file and half from another is
/// never what somebody meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChapFragment {
    pub username: Option<String>,
    pub password: Option<String>,
    pub password_file: Option<AbsPath>,
    pub credential: Option<String>,
    pub username_in: Option<String>,
    pub password_in: Option<String>,
    pub password_in_file: Option<AbsPath>,
    pub credential_in: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EtcdFragment {
    pub data_dir: Option<AbsPath>,
    pub runtime: Option<RuntimeName>,
    pub unit: Option<String>,
    pub manifest: Option<AbsPath>,
    pub metrics: Option<MetricsUrl>,
    pub metrics_ca: Option<AbsPath>,
    pub metrics_cert: Option<AbsPath>,
    pub metrics_key: Option<AbsPath>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RuntimeName {
    Systemd,
    StaticPod,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LunFragment {
    pub min_size: Option<Bytes>,
    pub mount_options: Option<Vec<String>>,
    pub label: Option<FsLabel>,
    pub require_fsync_p99: Option<Span>,
    pub keep_retired: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BootFragment {
    pub gate: Option<Gate>,
    pub attach_timeout: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthFragment {
    pub interval: Option<Span>,
    pub textfile: Option<AbsPath>,
}

/// What waits for the LUN at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Only etcd: without the LUN the fence keeps it down, and the kubelet starts all the same.
    Etcd,
    /// The kubelet and CRI-O too: nothing of the cluster starts on this node without the LUN.
    Kubelet,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFragment {
    pub hostname: Option<String>,
    pub machine_id: Option<String>,
    pub initiator: Option<Iqn>,
    pub lun: Option<LunNumber>,
    pub path: Option<DiskLink>,
    pub wwid: Option<Wwid>,
    /// Where the entry was written; filled in after parsing.
    #[serde(skip)]
    pub written_in: String,
}

impl Fragment {
    /// Lays a later fragment over this one: its keys win; its node entries are added.
    pub fn merge(&mut self, later: Self) {
        fn over<T>(slot: &mut Option<T>, later: Option<T>) {
            if later.is_some() {
                *slot = later;
            }
        }
        if let Some(later) = later.target {
            let target = self.target.get_or_insert_default();
            over(&mut target.iqn, later.iqn);
            over(&mut target.portals, later.portals);
            over(&mut target.discovery, later.discovery);
            over(&mut target.replacement_timeout, later.replacement_timeout);
            over(&mut target.noop_interval, later.noop_interval);
            over(&mut target.noop_timeout, later.noop_timeout);
            over(&mut target.chap, later.chap);
            over(&mut target.discovery_chap, later.discovery_chap);
        }
        if let Some(later) = later.device {
            over(&mut self.device.get_or_insert_default().path, later.path);
        }
        over(&mut self.etcd.data_dir, later.etcd.data_dir);
        over(&mut self.etcd.runtime, later.etcd.runtime);
        over(&mut self.etcd.unit, later.etcd.unit);
        over(&mut self.etcd.manifest, later.etcd.manifest);
        over(&mut self.etcd.metrics, later.etcd.metrics);
        over(&mut self.etcd.metrics_ca, later.etcd.metrics_ca);
        over(&mut self.etcd.metrics_cert, later.etcd.metrics_cert);
        over(&mut self.etcd.metrics_key, later.etcd.metrics_key);
        over(&mut self.lun.min_size, later.lun.min_size);
        over(&mut self.lun.mount_options, later.lun.mount_options);
        over(&mut self.lun.label, later.lun.label);
        over(&mut self.lun.require_fsync_p99, later.lun.require_fsync_p99);
        over(&mut self.lun.keep_retired, later.lun.keep_retired);
        over(&mut self.boot.gate, later.boot.gate);
        over(&mut self.boot.attach_timeout, later.boot.attach_timeout);
        over(&mut self.health.interval, later.health.interval);
        over(&mut self.health.textfile, later.health.textfile);
        self.node.extend(later.node);
    }
}

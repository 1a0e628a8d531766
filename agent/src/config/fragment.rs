//! Config as written: TOML fragments, every key optional, and how they merge.

use super::form::{self, Word};
use crate::terms::{AbsPath, Bytes, DiskLink, FsLabel, Iqn, LunNumber, MetricsUrl, Portal, Span, Wwid};
use serde::Deserialize;

/// One file, or several merged.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fragment {
    /// The iSCSI target, the same for all nodes. This or `[device]`.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub target: Option<TargetFragment>,
    /// In place of the target a local or cloud disk; everything but iSCSI is the same.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub device: Option<DeviceFragment>,
    /// etcd on every node.
    #[serde(default, deserialize_with = "form::table")]
    pub etcd: EtcdFragment,
    /// What every LUN must be like, and what is made of it.
    #[serde(default, deserialize_with = "form::table")]
    pub lun: LunFragment,
    /// What happens at boot.
    #[serde(default, deserialize_with = "form::table")]
    pub boot: BootFragment,
    /// The health check that `etcd-lun-health.timer` runs.
    #[serde(default, deserialize_with = "form::table")]
    pub health: HealthFragment,
    /// One table `[[node]]` for each node: a node takes the one that names it, and needs one; but with `[device]` there may be
    /// none at all, and every node takes the same. Tables of all files add up.
    #[serde(default, deserialize_with = "form::nodes")]
    pub node: Vec<NodeFragment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TargetFragment {
    /// Its name. Required, such as `"iqn.2024-02.com.example:etcd"`.
    pub iqn: Option<Iqn>,
    /// Where it listens: IPv4, `[IPv6]` or a name, port 3260 unless another is given; in order of preference. Required,
    /// such as `["192.168.10.5:3260", "[fd00::5]"]`.
    #[serde(default, deserialize_with = "form::portals")]
    pub portals: Option<Vec<Portal>>,
    /// How its portals are learnt: `"sendtargets"` asks it, `"static"` takes them as they are written. Default
    /// `"sendtargets"`.
    #[serde(default, deserialize_with = "form::word")]
    pub discovery: Option<Discovery>,
    /// How long etcd's writes wait for a target that is away, before the filesystem is told and shuts down: whole
    /// seconds, a day at most. Optional, such as `"10min"`; without it 1h, or 15s where multipathd runs.
    pub replacement_timeout: Option<Span>,
    /// How often the target is asked whether it is there. Default `"5s"`.
    pub noop_interval: Option<Span>,
    /// How long its answer may take; less than 30s together with `noop_interval`, for after that the kernel aborts
    /// commands. Default `"10s"`.
    pub noop_timeout: Option<Span>,
    /// CHAP of sessions; one way, or mutual with `username_in`. A later file's table takes the place of the whole of an
    /// earlier one's.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub chap: Option<ChapFragment>,
    /// CHAP of discovery, apart from that of sessions; the same keys.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub discovery_chap: Option<ChapFragment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceFragment {
    /// The disk of every node that has no `path` of its own: a link below `/dev/disk/by-id` or `by-path`, for kernel names
    /// change from boot to boot. Optional, such as `"/dev/disk/by-id/virtio-etcd0"`: required unless each `[[node]]` has one.
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

impl Word for Discovery {
    const WORDS: &'static str = "\"sendtargets\" or \"static\"";
}

/// A CHAP table is merged as a whole: half a credential from one file and half from another is
/// never what somebody meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChapFragment {
    /// The initiator's name. Required, such as `"initiator1"`.
    pub username: Option<String>,
    /// Its secret, written here; this, `password_file` or `credential` there must be. Optional, such as `"twelve-chars"`.
    #[serde(default, deserialize_with = "form::secret")]
    pub password: Option<String>,
    /// Or the file that holds the secret, for root alone (mode 0600). Optional, such as
    /// `"/etc/etcd-lun/chap.secret"`.
    #[serde(default, deserialize_with = "form::secret_file")]
    pub password_file: Option<AbsPath>,
    /// Or the name of a credential of etcd-lun.service (systemd.exec(5), `LoadCredential=`). Optional, such as
    /// `"chap"`.
    #[serde(default, deserialize_with = "form::secret")]
    pub credential: Option<String>,
    /// The target's name, when it must prove itself too. Optional, such as `"target1"`.
    pub username_in: Option<String>,
    /// Its secret, written here. Optional, such as `"other-12-chars"`.
    #[serde(default, deserialize_with = "form::secret")]
    pub password_in: Option<String>,
    /// Or the file that holds it. Optional, such as `"/etc/etcd-lun/chap-in.secret"`.
    #[serde(default, deserialize_with = "form::secret_file")]
    pub password_in_file: Option<AbsPath>,
    /// Or the name of a credential. Optional, such as `"chap-in"`.
    #[serde(default, deserialize_with = "form::secret")]
    pub credential_in: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EtcdFragment {
    /// The data directory. Default `"/var/lib/etcd"`.
    pub data_dir: Option<AbsPath>,
    /// What starts and stops etcd: `"static-pod"`, the kubelet with a manifest, as on OpenShift; or `"systemd"`, a
    /// unit. Required, such as `"static-pod"`.
    #[serde(default, deserialize_with = "form::word")]
    pub runtime: Option<RuntimeName>,
    /// Its unit, with `runtime = "systemd"`. Default `"etcd.service"`.
    pub unit: Option<String>,
    /// Its manifest, with `runtime = "static-pod"`. Default `"/etc/kubernetes/manifests/etcd-pod.yaml"`.
    pub manifest: Option<AbsPath>,
    /// Where `health` asks for etcd's own metrics. Optional, such as `"http://127.0.0.1:2381"`; without it they aren't
    /// asked for.
    pub metrics: Option<MetricsUrl>,
    /// Whom to trust, over HTTPS. Optional, such as `"/etc/etcd/ca.crt"`; without it OpenShift's.
    pub metrics_ca: Option<AbsPath>,
    /// The certificate to show, over HTTPS. Optional, such as `"/etc/etcd/client.crt"`; without it OpenShift's of the
    /// node.
    pub metrics_cert: Option<AbsPath>,
    /// Its key. Optional, such as `"/etc/etcd/client.key"`; without it OpenShift's.
    pub metrics_key: Option<AbsPath>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RuntimeName {
    Systemd,
    StaticPod,
}

impl Word for RuntimeName {
    const WORDS: &'static str = "\"static-pod\" or \"systemd\"";
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LunFragment {
    /// A smaller LUN is refused; 300MiB at least, the smallest XFS. Default `"8GiB"`.
    pub min_size: Option<Bytes>,
    /// How it is mounted; `_netdev` is added. What makes it read-only, lazy or optional is refused. Default
    /// `["prjquota"]`.
    #[serde(default, deserialize_with = "form::mount_options")]
    pub mount_options: Option<Vec<String>>,
    /// The filesystem's label, 12 bytes at most; no other filesystem on the node may have it. Default `"etcd-lun"`.
    pub label: Option<FsLabel>,
    /// The LUN is measured before etcd is stopped, and refused unless 99 of 100 `fdatasync` calls end within this.
    /// Optional, such as `"10ms"`.
    pub require_fsync_p99: Option<Span>,
    /// How long the old local data is kept at least. Default `"168h"`.
    pub keep_retired: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BootFragment {
    /// What waits for the LUN: `"etcd"` alone, or `"kubelet"`: the kubelet and CRI-O too. Default `"etcd"`.
    #[serde(default, deserialize_with = "form::word")]
    pub gate: Option<Gate>,
    /// How long login and LUN are waited for, at boot and by hand. Default `"5min"`.
    pub attach_timeout: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthFragment {
    /// How often it runs; 15s at least. Default `"1min"`.
    pub interval: Option<Span>,
    /// Where it writes metrics for node-exporter, if that directory exists. Default
    /// `"/var/node_exporter/textfile/etcd-lun.prom"`.
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

impl Word for Gate {
    const WORDS: &'static str = "\"etcd\" or \"kubelet\"";
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFragment {
    /// The node's name, short or fully qualified. This or `machine_id` is required, such as `"master-0"`.
    pub hostname: Option<String>,
    /// Its machine id (machine-id(5)). Optional, such as `"648db89cc13440329143f5cf9e0700df"`.
    pub machine_id: Option<String>,
    /// The initiator name, by which the target knows the node; no two have the same. With a target
    /// required, such as `"iqn.1994-05.com.redhat:master0"`.
    pub initiator: Option<Iqn>,
    /// The LUN's number at the target. With a target required, such as `1`.
    pub lun: Option<LunNumber>,
    /// This node's disk, in place of `device.path`. Optional, such as `"/dev/disk/by-id/nvme-example_1"`.
    pub path: Option<DiskLink>,
    /// The LUN's WWID, as `etcd-lun status` has it. Optional, such as `"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4"`:
    /// another LUN under that number is refused before there is a record that says which it is.
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

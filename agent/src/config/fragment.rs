//! The config as written: TOML fragments, every key optional, and how they merge.
//!
//! `docs/config.md` is made from the comments on the fields, and the values of the defaults from the constants that the comments
//! link to.

use super::form::{self, Word};
use crate::terms::{
    AbsPath, Bytes, ChapAlg, ClientUrl, DiskLink, FsLabel, Iqn, LunNumber, MetricsUrl, Portal, Span, Wwid,
};
use serde::Deserialize;

/// One file, or several merged.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fragment {
    /// The iSCSI target, the same for all nodes. The config has this table or `[device]`.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub target: Option<TargetFragment>,
    /// A local or cloud disk instead of a target. Everything but iSCSI is the same.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub device: Option<DeviceFragment>,
    /// etcd on every node.
    #[serde(default, deserialize_with = "form::table")]
    pub etcd: EtcdFragment,
    /// How `apply` and `rollback` by hand ask etcd about its cluster. They stop this member only while the other members can do
    /// without it.
    #[serde(default, deserialize_with = "form::table")]
    pub cluster: ClusterFragment,
    /// Requirements for every LUN, its filesystem, and how long the old local data is kept.
    #[serde(default, deserialize_with = "form::table")]
    pub lun: LunFragment,
    /// Behaviour at boot.
    #[serde(default, deserialize_with = "form::table")]
    pub boot: BootFragment,
    /// The health check that `etcd-lun-health.timer` starts.
    #[serde(default, deserialize_with = "form::table")]
    pub health: HealthFragment,
    /// One table `[[node]]` for each node. A node uses the table that names it, and must find one. With `[device]` there may be no
    /// `[[node]]` at all; then every node uses the path of `[device]`. The tables of all files are added together.
    #[serde(default, deserialize_with = "form::nodes")]
    pub node: Vec<NodeFragment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TargetFragment {
    /// The target's iSCSI name. Required, such as `"iqn.2024-02.com.example:etcd"`.
    pub iqn: Option<Iqn>,
    /// The addresses of the target, in order of preference: IPv4, `[IPv6]` or a host name. The port is 3260 unless it is given.
    /// Required, such as `["192.168.10.5:3260", "[fd00::5]"]`.
    #[serde(default, deserialize_with = "form::portals")]
    pub portals: Option<Vec<Portal>>,
    /// How the target's portals are discovered: `"sendtargets"` asks the target for them, `"static"` uses the portals as written
    /// here. Default [`super::defaults::DISCOVERY`].
    #[serde(default, deserialize_with = "form::word")]
    pub discovery: Option<Discovery>,
    /// How long etcd's writes wait for an unreachable target before they fail and XFS shuts down. Whole seconds, one day at most.
    /// Default [`super::defaults::REPLACEMENT_TIMEOUT`]. Under a multipath map multipathd decides by `no_path_retry`, which
    /// `render multipath` sets to this time.
    pub replacement_timeout: Option<Span>,
    /// How often the initiator checks the connection (NOP-Out). Optional, such as `"5s"`; without it
    /// [`super::defaults::NOOP_INTERVAL`], or [`super::defaults::NOOP_INTERVAL_MULTIPATH`] with several portals and either
    /// `multipath` or a multipathd that runs.
    pub noop_interval: Option<Span>,
    /// How long the target may take to answer that check. The sum of this and `noop_interval` must be less than 30s, after which
    /// the kernel aborts commands. Optional, such as `"10s"`; without it [`super::defaults::NOOP_TIMEOUT`], or
    /// [`super::defaults::NOOP_TIMEOUT_MULTIPATH`] with several portals and either `multipath` or a multipathd that runs.
    pub noop_timeout: Option<Span>,
    /// Whether dm-multipath must combine the paths to all portals. Then `apply` moves no data to the LUN without multipathd and
    /// its map, `health` reports what a map needs, the MachineConfig brings multipathd's settings (`render multipath`), and each
    /// `[[node]]` needs its `wwid`. Without it the portals are all used where multipathd runs. Optional, such as `true`.
    pub multipath: Option<bool>,
    /// CHAP credentials for sessions: one-way, or mutual with `username_in`. The table of a later file replaces the whole table of
    /// an earlier one.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub chap: Option<ChapFragment>,
    /// CHAP credentials for discovery, separate from those for sessions. The keys are the same.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub discovery_chap: Option<ChapFragment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceFragment {
    /// The disk of every node without a `path` of its own: a link in `/dev/disk/by-id` or `/dev/disk/by-path`, because kernel
    /// names change from boot to boot. Required unless every `[[node]]` has a path. Optional, such as
    /// `"/dev/disk/by-id/virtio-etcd0"`.
    pub path: Option<DiskLink>,
}

/// How the target's portals are discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// The initiator asks the target (RFC 7143, SendTargets).
    SendTargets,
    /// The initiator uses the portals of the config.
    Static,
}

impl Word for Discovery {
    const WORDS: &'static str = "\"sendtargets\" or \"static\"";
}

impl Word for ChapAlg {
    const WORDS: &'static str = "\"SHA3-256\", \"SHA256\", \"SHA1\" or \"MD5\"";
}

/// A CHAP table is merged as a whole: nobody means half a credential from one file and half from another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChapFragment {
    /// The user name that the initiator authenticates with. Required, such as `"initiator1"`.
    pub username: Option<String>,
    /// The initiator's secret itself. Exactly one of this, `password_file` and `credential` is required. Optional, such as
    /// `"twelve-chars"`.
    #[serde(default, deserialize_with = "form::secret")]
    pub password: Option<String>,
    /// The file that holds the secret, readable by root only (mode 0600). Optional, such as `"/etc/etcd-lun/chap.secret"`.
    #[serde(default, deserialize_with = "form::secret_file")]
    pub password_file: Option<AbsPath>,
    /// The name of a credential of etcd-lun.service that holds the secret (systemd.exec(5), `LoadCredential=`). Optional, such as
    /// `"chap"`.
    #[serde(default, deserialize_with = "form::credential")]
    pub credential: Option<String>,
    /// The user name that the target authenticates with, for mutual CHAP. Optional, such as `"target1"`.
    pub username_in: Option<String>,
    /// The target's secret itself. Optional, such as `"other-12-chars"`.
    #[serde(default, deserialize_with = "form::secret")]
    pub password_in: Option<String>,
    /// The file that holds the target's secret. Optional, such as `"/etc/etcd-lun/chap-in.secret"`.
    #[serde(default, deserialize_with = "form::secret_file")]
    pub password_in_file: Option<AbsPath>,
    /// The name of a credential that holds the target's secret. Optional, such as `"chap-in"`.
    #[serde(default, deserialize_with = "form::credential")]
    pub credential_in: Option<String>,
    /// The algorithms that may be used, in order of preference: `"SHA3-256"`, `"SHA256"`, `"SHA1"`, `"MD5"`. In FIPS mode there is
    /// no MD5. The target must accept one of them. Optional, such as `["SHA3-256", "SHA256"]`; without it the node's `iscsid.conf`
    /// counts, and open-iscsi's own default is MD5 alone.
    #[serde(default, deserialize_with = "form::chap_algs")]
    pub algs: Option<Vec<ChapAlg>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EtcdFragment {
    /// etcd's data directory. Default [`super::defaults::DATA_DIR`].
    pub data_dir: Option<AbsPath>,
    /// What runs etcd: `"static-pod"`, the kubelet from a manifest, as on OpenShift; or `"systemd"`, a service unit. Required, such
    /// as `"static-pod"`.
    #[serde(default, deserialize_with = "form::word")]
    pub runtime: Option<RuntimeName>,
    /// etcd's unit, with `runtime = "systemd"`. Default [`super::defaults::UNIT`].
    pub unit: Option<String>,
    /// etcd's manifest, with `runtime = "static-pod"`. Default [`super::defaults::MANIFEST`].
    pub manifest: Option<AbsPath>,
    /// The address of etcd's metrics, for `health`. Optional, such as `"http://127.0.0.1:2381"`; without it `health` doesn't read
    /// them.
    pub metrics: Option<MetricsUrl>,
    /// The CA certificate for etcd's metrics over HTTPS. Optional, such as `"/etc/etcd/ca.crt"`; without it OpenShift's, below
    /// [`super::defaults::METRICS_CERTIFICATES`].
    pub metrics_ca: Option<AbsPath>,
    /// The client certificate for etcd's metrics over HTTPS. Optional, such as `"/etc/etcd/client.crt"`; without it OpenShift's for
    /// this node, in the same place.
    pub metrics_cert: Option<AbsPath>,
    /// The key of the client certificate. Optional, such as `"/etc/etcd/client.key"`; without it OpenShift's, in the same place.
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
pub(super) struct ClusterFragment {
    /// The address at which this node's own etcd answers its clients. It must be an address of this node. The other members are
    /// asked at the client URLs that etcd lists. Optional, such as `"https://192.168.10.21:2379"`; without it
    /// [`super::defaults::CLIENT_URL_STATIC_POD`] for a static pod, and [`super::defaults::CLIENT_URL_SYSTEMD`] for a unit.
    pub client_url: Option<ClientUrl>,
    /// The port at which every member answers HTTP, where etcd has `--listen-client-http-urls`. Optional, such as `2381`; without
    /// it the port of each URL, and for OpenShift's etcd also 2381.
    pub http_port: Option<u16>,
    /// The CA certificate of etcd's servers. Optional, such as `"/etc/etcd/ca.crt"`; without it OpenShift's, below
    /// [`super::defaults::METRICS_CERTIFICATES`], for a static pod, and the system's for a unit.
    pub ca: Option<AbsPath>,
    /// The client certificate that etcd gets. `key` is required beside it. Optional, such as `"/etc/etcd/client.crt"`; without it
    /// OpenShift's for this node, in the same place, for a static pod, and none for a unit.
    pub cert: Option<AbsPath>,
    /// The key of the client certificate. Optional, such as `"/etc/etcd/client.key"`; without it OpenShift's, as `cert`.
    pub key: Option<AbsPath>,
    /// Stop this member although the others cannot do without it: the cluster is down anyway, such as during a restore. Nothing
    /// then waits until the member serves again. Remove the key afterwards. Optional, such as `true`.
    pub without_quorum: Option<bool>,
    /// How long `apply` and `rollback` by hand wait until the member serves again. Default
    /// [`super::defaults::SERVE_TIMEOUT`].
    pub serve_timeout: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LunFragment {
    /// The smallest size that a LUN may have; a smaller one is refused. At least 300MiB, the smallest XFS. Default
    /// [`super::defaults::MIN_SIZE`].
    pub min_size: Option<Bytes>,
    /// The options that the LUN is mounted with. For a target `_netdev` is added. Options that make the mount read-only, delay
    /// writes or make the mount optional are refused. `config check` warns of an option that neither mount(8) nor xfs(5) has; it
    /// is no error, because a newer kernel may have it. Default [`super::defaults::MOUNT_OPTIONS`].
    #[serde(default, deserialize_with = "form::mount_options")]
    pub mount_options: Option<Vec<String>>,
    /// The filesystem's label, 12 bytes at most. No other filesystem on the node may have it. Default
    /// [`super::defaults::LABEL`].
    pub label: Option<FsLabel>,
    /// A limit for the LUN's speed. `apply` measures the LUN before it stops etcd, and refuses the LUN unless 99 of 100
    /// `fdatasync` calls finish within this time. Optional, such as `"10ms"`; without it the LUN isn't measured.
    pub require_fsync_p99: Option<Span>,
    /// How long the old local data is kept at least. Default [`super::defaults::KEEP_RETIRED`].
    pub keep_retired: Option<Span>,
    /// The longest time that the last blocks may take while etcd is stopped. While etcd still runs, `apply` and `rollback`
    /// measure how long they take, and refuse to stop etcd if it is longer. Default [`super::defaults::MAX_SWITCH`].
    pub max_switch: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BootFragment {
    /// What waits for the LUN: `"etcd"`, only etcd; or `"kubelet"`, the kubelet and CRI-O as well. Default
    /// [`super::defaults::GATE`].
    #[serde(default, deserialize_with = "form::word")]
    pub gate: Option<Gate>,
    /// How long `apply` waits for the login and for the LUN, at boot and by hand. Default [`super::defaults::ATTACH_TIMEOUT`].
    /// With `gate = "etcd"`, a boot after the migration waits for 30 s at most, so that the kubelet starts. The service tries
    /// again every 20 s.
    pub attach_timeout: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthFragment {
    /// How often the check runs; 15s at least. Default [`super::defaults::INTERVAL`].
    pub interval: Option<Span>,
    /// The file in which the check writes metrics for node-exporter, if its directory exists. Default
    /// [`super::defaults::TEXTFILE`].
    pub textfile: Option<AbsPath>,
}

/// What waits for the LUN at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Only etcd. Without the LUN the fence keeps etcd down, and the kubelet starts anyway.
    Etcd,
    /// The kubelet and CRI-O as well. Without the LUN nothing of the cluster starts on this node.
    Kubelet,
}

impl Word for Gate {
    const WORDS: &'static str = "\"etcd\" or \"kubelet\"";
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFragment {
    /// The node's host name, short or fully qualified. This or `machine_id` is required, such as `"master-0"`.
    #[serde(default, deserialize_with = "form::host_name")]
    pub hostname: Option<String>,
    /// The node's machine id (machine-id(5)). Optional, such as `"648db89cc13440329143f5cf9e0700df"`.
    #[serde(default, deserialize_with = "form::machine_id")]
    pub machine_id: Option<String>,
    /// The node's initiator name, by which the target identifies it. No two nodes have the same. With a target required, such as
    /// `"iqn.1994-05.com.redhat:master0"`.
    #[serde(default, deserialize_with = "form::initiator")]
    pub initiator: Option<Iqn>,
    /// The LUN's number as the array's administration shows it, without quotes. A number above 255 needs `wwid` too, because arrays
    /// address such LUNs in different ways. With a target and without `wwid` required, such as `1`.
    pub lun: Option<LunNumber>,
    /// The node's disk, instead of `device.path`. Optional, such as `"/dev/disk/by-id/nvme-example_1"`.
    pub path: Option<DiskLink>,
    /// The LUN's WWID, as `etcd-lun luns` prints it. It identifies the LUN, whatever its number is, and any other LUN is refused.
    /// Without it the number is enough for the first `apply`; later ones compare with the record. No two nodes have the same. `target.multipath = true` needs it. Optional, such as
    /// `"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4"`.
    pub wwid: Option<Wwid>,
    /// The file with this entry and its line; filled in after parsing.
    #[serde(skip)]
    pub written_in: String,
}

impl Fragment {
    /// Merges a later fragment into this one: its keys win, and its node entries are added.
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
            over(&mut target.multipath, later.multipath);
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
        over(&mut self.cluster.client_url, later.cluster.client_url);
        over(&mut self.cluster.http_port, later.cluster.http_port);
        over(&mut self.cluster.ca, later.cluster.ca);
        over(&mut self.cluster.cert, later.cluster.cert);
        over(&mut self.cluster.key, later.cluster.key);
        over(&mut self.cluster.without_quorum, later.cluster.without_quorum);
        over(&mut self.cluster.serve_timeout, later.cluster.serve_timeout);
        over(&mut self.lun.min_size, later.lun.min_size);
        over(&mut self.lun.mount_options, later.lun.mount_options);
        over(&mut self.lun.label, later.lun.label);
        over(&mut self.lun.require_fsync_p99, later.lun.require_fsync_p99);
        over(&mut self.lun.keep_retired, later.lun.keep_retired);
        over(&mut self.lun.max_switch, later.lun.max_switch);
        over(&mut self.boot.gate, later.boot.gate);
        over(&mut self.boot.attach_timeout, later.boot.attach_timeout);
        over(&mut self.health.interval, later.health.interval);
        over(&mut self.health.textfile, later.health.textfile);
        self.node.extend(later.node);
    }
}

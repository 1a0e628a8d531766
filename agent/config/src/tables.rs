//! The config as it is written: one struct for each table. A table whose keys are the same in the program is in
//! [`plain_tables`](super::plain_tables).
//!
//! serde reads them, with the defaults of `impl Default`. The comments on the fields are also the descriptions in the JSON
//! schema, which `config schema` prints, and in `docs/config.md`, which a test makes from it.

use super::{
    defaults,
    form::{self, Row},
    pattern::InitiatorName,
    plain_tables::{Boot, HealthConfig, LunConfig},
    source::{Line, Nth},
    words::{Digests, Discovery},
};
use schemars::JsonSchema;
use serde::Deserialize;
use terms::{AbsPath, ChapAlg, ClientUrl, DiskLink, Iqn, LunNumber, Portal, Span, Wwid};
use toml::Spanned;

// Examples of lists. In the attribute itself they would need a feature of syn that this crate does not ask for.
const PORTALS: [&str; 2] = ["192.168.10.5:3260", "[fd00::5]"];
const CHAP_ALGS: [&str; 2] = ["SHA3-256", "SHA256"];
const CLIENT_URLS: [&str; 2] = ["https://192.168.10.21:2379", "https://192.168.10.22:2379"];

/// The list of entries, by its key.
pub(super) const NODE: &str = "node";
/// The target, or the list of targets.
pub(super) const TARGET: &str = "target";

/// A whole config, of one file or of several merged ones.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    /// The iSCSI target, the same for all nodes. The config has this table or `[device]`. For a pool on several arrays
    /// there is a table `[[target]]` for each, with a `name` and with `[target.chap]` below it; those of all files are added together.
    /// Then each `[[node]]` has the name of its `target`.
    #[serde(default, deserialize_with = "form::tables")]
    #[schemars(with = "Option<TargetTable>")]
    pub target: Vec<TargetTable>,
    /// A local or cloud disk instead of a target. Everything but iSCSI is the same.
    #[serde(default, deserialize_with = "form::optional_table")]
    pub device: Option<DeviceTable>,
    /// etcd on every node.
    #[serde(default, deserialize_with = "form::table")]
    pub etcd: EtcdTable,
    /// How `apply` and `rollback` by hand ask etcd about its cluster. They stop this member only while the other members can do
    /// without it.
    #[serde(default, deserialize_with = "form::table")]
    pub cluster: ClusterTable,
    /// Requirements for every LUN, its filesystem, and how long the old local data is kept.
    #[serde(default, deserialize_with = "form::table")]
    pub lun: LunConfig,
    /// Behaviour at boot.
    #[serde(default, deserialize_with = "form::table")]
    pub boot: Boot,
    /// The health check that `etcd-lun-health.timer` starts.
    #[serde(default, deserialize_with = "form::table")]
    pub health: HealthConfig,
    /// One table `[[node]]` for each node, or for all nodes that a pattern matches. A node uses the table that names it, and must find one. With `[device]` there may be no
    /// `[[node]]` at all; then every node uses the path of `[device]`. The tables of all files are added together.
    #[serde(default)]
    #[schemars(with = "Vec<NodeTable>")]
    pub node: Vec<Spanned<Row<NodeTable>>>,
}

/// A portal, with the name that it serves if that is one of its own.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(untagged)]
pub(super) enum PortalRow {
    /// Its address.
    Address(Portal),
    /// Both.
    Named(NamedPortal),
}

/// A portal of a port that is a target of its own.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedPortal {
    /// Its address.
    pub address: Portal,
    /// The target's name at this portal.
    pub iqn: Iqn,
}

/// The iSCSI target.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TargetTable {
    /// A name of your choice, by which `node.target` refers to this table. Each of several `[[target]]` needs one.
    #[serde(deserialize_with = "form::target_name")]
    #[schemars(example = &"array-a")]
    pub name: Option<String>,
    /// The target's iSCSI name. Required.
    #[schemars(example = "iqn.2024-02.com.example:etcd")]
    pub iqn: Option<Iqn>,
    /// The addresses of the target, in order of preference: IPv4, `[IPv6]` or a host name. The port is 3260 unless it is given.
    /// Of an array where each port is a target of its own, tables, and no `iqn` above: `{ address = "192.168.10.5", iqn = "iqn.…" }`.
    /// Required.
    #[schemars(example = PORTALS)]
    pub portals: Option<Vec<PortalRow>>,
    /// How the target's portals are discovered: `"sendtargets"` asks the target for them, `"static"` uses the portals as written
    /// here.
    pub discovery: Discovery,
    /// How long etcd's writes wait for an unreachable target before they fail and XFS shuts down. Whole seconds, one day at most.
    /// Under a multipath map multipathd decides by `no_path_retry`, which `render multipath` sets to this time.
    #[serde(serialize_with = "form::as_written")]
    pub replacement_timeout: Span,
    /// How often the initiator checks the connection (NOP-Out). Without it `"5s"`, or `"1s"` with several portals and either
    /// `multipath` or a multipathd that runs.
    #[schemars(example = &"4s")]
    pub noop_interval: Option<Span>,
    /// How long the target may take to answer that check. The sum of this and `noop_interval` must be less than 30s, after which
    /// the kernel aborts commands. Without it `"10s"`, or `"2s"` with several portals and either `multipath` or a multipathd that
    /// runs.
    #[schemars(example = &"8s")]
    pub noop_timeout: Option<Span>,
    /// Which checksum a session's headers and data have beside TCP's, which has 16 bits only. With `"crc32c"` a damaged PDU is
    /// detected; iscsid then logs in again, and the kernel repeats the commands. The target must accept it, or no log-in succeeds.
    /// It costs both sides processor time. Without this key iscsid.conf decides, by default for none. A change counts from
    /// the next log-in on.
    #[schemars(example = &"crc32c")]
    pub digests: Option<Digests>,
    /// True if dm-multipath must combine the paths to all portals. Then `apply` moves no data to the LUN without multipathd and
    /// its map, `health` reports what a map needs, the MachineConfig brings multipathd's settings (`render multipath`), and
    /// each `[[node]]` needs its `wwid`. Without it the portals are all used where multipathd runs.
    pub multipath: bool,
    /// True if iscsid refuses to log out a session whose disk is mounted or held, whoever asks (`iscsid.safe_logout = Yes`). It
    /// protects etcd's session from a log-out by another program that uses the same target, and holds for every session of the
    /// node. A unit and a drop-in of `iscsid.service` bring the setting; the node's own iscsid.conf stays as it is. It counts
    /// from the next start of iscsid on.
    pub safe_logout: bool,
    /// Says that the array shows each LUN to one initiator only (LUN masking). A `[[node]]` with a pattern of host names requires
    /// it: without masking two new nodes could see one blank LUN, and both would use it.
    pub lun_masking: bool,
    /// CHAP credentials for sessions: one-way, or mutual with `username_in`. The table of a later file replaces the whole table of
    /// an earlier one.
    #[serde(deserialize_with = "form::optional_table")]
    pub chap: Option<ChapTable>,
    /// CHAP credentials for discovery, separate from those for sessions. The keys are the same.
    #[serde(deserialize_with = "form::optional_table")]
    pub discovery_chap: Option<ChapTable>,
    /// Which file and which of its `[[target]]` this is; none for `[target]`, which several files can have. Filled in after
    /// parsing.
    #[serde(skip)]
    pub nth: Option<Nth>,
}

impl Default for TargetTable {
    fn default() -> Self {
        Self {
            name: None,
            iqn: None,
            portals: None,
            discovery: defaults::DISCOVERY,
            replacement_timeout: defaults::REPLACEMENT_TIMEOUT,
            noop_interval: None,
            noop_timeout: None,
            digests: None,
            multipath: false,
            safe_logout: false,
            lun_masking: false,
            chap: None,
            discovery_chap: None,
            nth: None,
        }
    }
}

/// A local or cloud disk.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DeviceTable {
    /// The disk of every node without a `path` of its own: a link in `/dev/disk/by-id` or `/dev/disk/by-path`, because kernel
    /// names change from boot to boot. Required unless every `[[node]]` has a path.
    #[schemars(example = "/dev/disk/by-id/virtio-etcd0")]
    pub path: Option<DiskLink>,
}

/// CHAP credentials. The table of a later file replaces a whole one: nobody means half a credential from one file and half
/// from another.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ChapTable {
    /// The user name that the initiator authenticates with. Required.
    #[schemars(example = &"initiator1")]
    pub username: Option<String>,
    /// The initiator's secret itself. Exactly one of this, `password_file` and `credential` is required.
    #[serde(deserialize_with = "form::secret")]
    #[schemars(example = "twelve-chars")]
    pub password: Option<String>,
    /// The file that holds the secret, readable by root only (mode 0600).
    #[serde(deserialize_with = "form::secret_file")]
    #[schemars(example = "/etc/etcd-lun/chap.secret")]
    pub password_file: Option<AbsPath>,
    /// The name of a credential that holds the secret (systemd.exec(5)): encrypted by `systemd-creds` in
    /// `/etc/credstore.encrypted/NAME.cred`, or plain in `/etc/credstore/NAME`. No MachineConfig contains it.
    #[serde(deserialize_with = "form::credential")]
    #[schemars(example = &"chap")]
    pub credential: Option<String>,
    /// The user name that the target authenticates with, for mutual CHAP.
    #[schemars(example = &"target1")]
    pub username_in: Option<String>,
    /// The target's secret itself.
    #[serde(deserialize_with = "form::secret")]
    #[schemars(example = "other-12-chars")]
    pub password_in: Option<String>,
    /// The file that holds the target's secret.
    #[serde(deserialize_with = "form::secret_file")]
    #[schemars(example = "/etc/etcd-lun/chap-in.secret")]
    pub password_in_file: Option<AbsPath>,
    /// The name of a credential that holds the target's secret.
    #[serde(deserialize_with = "form::credential")]
    #[schemars(example = "chap-in")]
    pub credential_in: Option<String>,
    /// The algorithms that may be used, in order of preference: `"SHA3-256"`, `"SHA256"`, `"SHA1"`, `"MD5"`. In FIPS mode there is
    /// no MD5. The target must accept one of them. Without it the node's `iscsid.conf` counts, and open-iscsi's own default is MD5
    /// alone.
    #[serde(deserialize_with = "form::chap_algs")]
    #[schemars(example = CHAP_ALGS)]
    pub algs: Option<Vec<ChapAlg>>,
}

/// etcd.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct EtcdTable {
    /// etcd's data directory.
    pub data_dir: AbsPath,
    /// The runtime of etcd: `"static-pod"`, the kubelet from a manifest, as on OpenShift; or `"systemd"`, a service
    /// unit. Required.
    #[schemars(example = "static-pod")]
    pub runtime: Option<RuntimeName>,
    /// etcd's unit, with `runtime = "systemd"`.
    #[schemars(extend("default" = defaults::UNIT))]
    pub unit: Option<String>,
    /// etcd's manifest, with `runtime = "static-pod"`.
    #[schemars(extend("default" = defaults::MANIFEST))]
    pub manifest: Option<AbsPath>,
}

impl Default for EtcdTable {
    fn default() -> Self {
        Self { data_dir: AbsPath::of_source(defaults::DATA_DIR), runtime: None, unit: None, manifest: None }
    }
}

/// The runtime of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RuntimeName {
    /// A service unit.
    Systemd,
    /// The kubelet, from a manifest.
    StaticPod,
}

/// etcd's cluster.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ClusterTable {
    /// The address at which this node's own etcd answers its clients. It must be an address of this node. The other members are
    /// asked at the client URLs that etcd lists. Without it `"https://localhost:2379"` for a static pod, and
    /// `"http://127.0.0.1:2379"` for a unit.
    #[schemars(example = "https://192.168.10.21:2379")]
    pub client_url: Option<ClientUrl>,
    /// The port at which every member answers HTTP, where etcd has `--listen-client-http-urls`. Without it the port of each URL,
    /// and for OpenShift's etcd also 2381.
    #[schemars(example = 2381)]
    pub http_port: Option<u16>,
    /// Client URLs of the members, for `claim`: it asks the other members whether this node's member answers on another computer.
    /// Without it those that a static pod's manifest names (`ALL_ETCD_ENDPOINTS`), and none for a unit.
    #[schemars(example = CLIENT_URLS)]
    pub endpoints: Option<Vec<ClientUrl>>,
    /// The CA certificate of etcd's servers. Without it OpenShift's, below `/etc/kubernetes/static-pod-resources/etcd-certs`, for a
    /// static pod, and the system's for a unit.
    #[schemars(example = "/etc/etcd/ca.crt")]
    pub ca: Option<AbsPath>,
    /// The client certificate that etcd gets. `key` is required beside it. Without it OpenShift's for this node, in the same place,
    /// for a static pod, and none for a unit.
    #[schemars(example = "/etc/etcd/client.crt")]
    pub cert: Option<AbsPath>,
    /// The key of the client certificate. Without it OpenShift's, as `cert`.
    #[schemars(example = "/etc/etcd/client.key")]
    pub key: Option<AbsPath>,
    /// Stop this member although the others cannot do without it: the cluster is down anyway, such as during a restore. Nothing
    /// then waits until the member serves again. Remove the key afterwards.
    pub without_quorum: bool,
    /// How long `apply` and `rollback` by hand wait until the member serves again.
    #[serde(serialize_with = "form::as_written")]
    pub serve_timeout: Span,
}

impl Default for ClusterTable {
    fn default() -> Self {
        Self {
            client_url: None,
            http_port: None,
            endpoints: None,
            ca: None,
            cert: None,
            key: None,
            without_quorum: false,
            serve_timeout: defaults::SERVE_TIMEOUT,
        }
    }
}

/// One node.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NodeTable {
    /// The node's host name, short or fully qualified. This or `machine_id` is required. With `*`, which is any text without a
    /// dot, it is a pattern: the entry of all nodes that it matches, for machines that are created anew. The entry of a node's own
    /// name or machine id comes before a pattern. A node that two patterns match has no entry. With a target a pattern needs
    /// `target.lun_masking`.
    #[serde(deserialize_with = "form::host_name")]
    #[schemars(example = "master-0")]
    pub hostname: Option<String>,
    /// The node's machine id (machine-id(5)).
    #[serde(deserialize_with = "form::machine_id")]
    #[schemars(example = &"648db89cc13440329143f5cf9e0700df")]
    pub machine_id: Option<String>,
    /// The node's initiator name, by which the target identifies it. No two nodes have the same. With a pattern it has
    /// `{hostname}` in it, which is the node's host name without its domain, in lower case. Required with a target.
    #[schemars(example = "iqn.1994-05.com.redhat:master0")]
    #[schemars(with = "Option<Iqn>")]
    pub initiator: Option<InitiatorName>,
    /// The LUN's number as the array's administration shows it, without quotes. A number above 255 needs `wwid` too, because
    /// arrays address such LUNs in different ways. With a pattern it is the number that each node's LUN has for that node. Required
    /// with a target and without `wwid`.
    #[schemars(example = 1)]
    pub lun: Option<LunNumber>,
    /// The node's disk, instead of `device.path`.
    #[schemars(example = "/dev/disk/by-id/nvme-example_1")]
    pub path: Option<DiskLink>,
    /// The LUN's WWID, as `etcd-lun luns` prints it. It identifies the LUN, whatever its number is, and any other LUN is refused.
    /// Without it the number is enough for the first `apply`; later ones compare with the record. No two nodes have the same.
    /// `target.multipath = true` needs it. A pattern has none, because a WWID is that of one LUN.
    #[schemars(example = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4")]
    pub wwid: Option<Wwid>,
    /// False for a node whose etcd stays on its local disk for now. A boot of such a node only looks at its LUN, and
    /// `etcd-lun apply` refuses to move its etcd. So one config serves a pool that is moved node by node. It has no effect once
    /// etcd's data is on the LUN: only `etcd-lun rollback` moves the data back.
    pub migrate: bool,
    /// The `name` of the node's `[[target]]`. Required with several of them.
    #[schemars(example = &"array-a")]
    #[schemars(with = "Option<String>")]
    pub target: Option<Spanned<String>>,
    /// The file with this entry and its line; filled in after parsing.
    #[serde(skip)]
    pub written_in: Line,
    /// The line with the name of the target, or of this entry if it has none, as errors show it; filled in after parsing.
    #[serde(skip)]
    pub target_in: Line,
}

impl Default for NodeTable {
    fn default() -> Self {
        Self {
            hostname: None,
            machine_id: None,
            initiator: None,
            lun: None,
            path: None,
            wwid: None,
            migrate: defaults::MIGRATE,
            target: None,
            written_in: Line::default(),
            target_in: Line::default(),
        }
    }
}

//! The defaults of the config's keys. There are no others elsewhere.
//!
//! `docs/config.md` prints the comments, so each one begins with its keys and gives the unit, the reason and the source.

use super::words::{Discovery, Gate};
use std::time::Duration;
use terms::{Bytes, Span};

/// `target.discovery`: The target reports its portals itself, and so shows at once whether it admits this initiator (RFC
/// 7143, SendTargets).
pub const DISCOVERY: Discovery = Discovery::SendTargets;

/// `target.replacement_timeout`: One hour: long enough to move a controller, update an array or replace a switch.
/// open-iscsi's README, section 8.2, has a day for a disk without a second path.
pub const REPLACEMENT_TIMEOUT: Span = Span(Duration::from_secs(3600));

/// `target.noop_interval`: 5 seconds: open-iscsi's own default (`node.conn[0].timeo.noop_out_interval`).
pub const NOOP_INTERVAL: Span = Span(Duration::from_secs(5));

/// `target.noop_timeout`: 10 seconds: twice open-iscsi's own default (`node.conn[0].timeo.noop_out_timeout`). A busy target
/// that is given up must also serve a new login, which makes it busier.
pub const NOOP_TIMEOUT: Span = Span(Duration::from_secs(10));

/// `target.noop_interval` with several paths: 1 second, so that writes which a silent path has swallowed soon go over
/// another one: 1 s, 2 s (`noop_timeout`) and 5 s (multipathd's own default of `fast_io_fail_tmo`, multipath.conf(5)) make 8
/// s. open-iscsi's README, section 8.1, asks for short times behind dm-multipath. A session that receives data sends no
/// pings.
pub const NOOP_INTERVAL_MULTIPATH: Span = Span(Duration::from_secs(1));

/// `target.noop_timeout` with several paths: 2 seconds, for the same sum. A target that was only busy loses one session by
/// it, and the other paths serve meanwhile.
pub const NOOP_TIMEOUT_MULTIPATH: Span = Span(Duration::from_secs(2));

/// `etcd.data_dir`: Where OpenShift's etcd and kubeadm's keep their data (openshift/cluster-etcd-operator
/// `bindata/etcd/pod.yaml`).
pub const DATA_DIR: &str = "/var/lib/etcd";

/// `etcd.unit`: The name of the unit in the packages of Fedora and Debian.
pub const UNIT: &str = "etcd.service";

/// `etcd.manifest`: Where OpenShift's etcd operator writes the manifest. The kubelet reads every file of that directory
/// (kubernetes `pkg/kubelet/config/file.go`).
pub const MANIFEST: &str = "/etc/kubernetes/manifests/etcd-pod.yaml";

/// `cluster.ca`, `cluster.cert`, `cluster.key`: Where OpenShift keeps the certificates of etcd on a node
/// (openshift/cluster-etcd-operator `bindata/etcd/pod.yaml`).
pub const CERTIFICATES: &str = "/etc/kubernetes/static-pod-resources/etcd-certs";

/// `cluster.client_url` of a static pod: Where OpenShift's etcd listens: on port 2379 of all addresses
/// (openshift/cluster-etcd-operator `bindata/etcd/pod.yaml`). Its certificate is valid for `localhost`.
pub const CLIENT_URL_STATIC_POD: &str = "https://localhost:2379";

/// `cluster.client_url` of a unit: etcd's own default (`--listen-client-urls`), which the packages of Fedora and Debian
/// keep.
pub const CLIENT_URL_SYSTEMD: &str = "http://127.0.0.1:2379";

/// `cluster.serve_timeout`: 5 minutes: etcd replays its log, opens its database, and may get a snapshot of some GiB from the
/// leader.
pub const SERVE_TIMEOUT: Span = Span(Duration::from_secs(300));

/// `lun.min_size`: 20 GiB: OpenShift's quota of etcd's database (8 GiB) twice, because a defragmentation writes a second
/// database, and room for etcd's log, its snapshots and XFS. etcd's own quota is 2 GiB, for which 5 GiB are enough.
pub const MIN_SIZE: Bytes = Bytes(20 << 30);

/// `lun.mount_options`: Project quotas, as on every XFS of Red Hat CoreOS: the kubelet and container storage use them.
pub const MOUNT_OPTIONS: &[&str] = &["prjquota"];

/// The SELinux label of etcd's data, the type of which the policy module defines. The LUN is mounted with it, so that no label
/// on the LUN counts.
pub const DATA_LABEL: &str = "system_u:object_r:etcd_lun_data_t:s0";

/// `lun.label`: The program's own name, so that `lsblk` shows whose filesystem it is. Units find the filesystem by this
/// label.
pub const LABEL: &str = "etcd-lun";

/// `lun.keep_retired`: 168 hours, a week: a fault of the LUN that appears only on working days has appeared by then.
pub const KEEP_RETIRED: Span = Span(Duration::from_secs(7 * 24 * 3600));

/// `lun.max_switch`: 60 seconds for the last blocks: the others run without a reserve meanwhile. With more to copy,
/// something is wrong with the LUN, or etcd writes as fast as the LUN can.
pub const MAX_SWITCH: Span = Span(Duration::from_secs(60));

/// `boot.gate`: Without the LUN etcd stays down, and the node stays reachable for `oc` and for the Machine Config Operator.
pub const GATE: Gate = Gate::Etcd;

/// `boot.attach_timeout`: 5 minutes: one minute for each of five portals. open-iscsi by itself would try each for two: 8
/// logins of 15 s (`node.session.initial_login_retry_max`, `node.conn[0].timeo.login_timeout`).
pub const ATTACH_TIMEOUT: Span = Span(Duration::from_secs(300));

/// `health.interval`: 1 minute: twice the interval at which OpenShift's Prometheus reads a node's metrics.
pub const INTERVAL: Span = Span(Duration::from_secs(60));

/// `health.textfile`: Where OpenShift's node-exporter looks, as seen in its container (openshift/cluster-monitoring-operator
/// `assets/node-exporter/daemonset.yaml`). There another directory of the node is mounted;
/// `packaging/monitoring/metrics.yaml` brings a node-exporter that reads this one.
pub const TEXTFILE: &str = "/var/node_exporter/textfile/etcd-lun.prom";

/// `node.migrate`: Whoever writes an entry wants that node's etcd on its LUN.
pub const MIGRATE: bool = true;

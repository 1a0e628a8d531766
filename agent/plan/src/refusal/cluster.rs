//! Refusals to stop etcd, because of who runs it and who serves without it.

use schemars::JsonSchema;
use serde::Serialize;

/// Why etcd is not stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum ClusterRefusal {
    /// At boot and in the background, etcd-lun does not stop an etcd that serves.
    #[error(
        "etcd ({name}) already runs from the local disk, and the service never stops a member that serves: check that the other members are healthy, then run `etcd-lun apply`, or reboot this node"
    )]
    EtcdServes {
        /// Its unit or manifest.
        name: String,
    },
    /// A cluster of two nodes with fencing.
    #[error(
        "pacemaker runs this node's etcd ({found}), and etcd-lun cannot stop or hold back such an etcd: leave etcd on the local disk in a cluster of two nodes with fencing, and remove etcd-lun's object from this pool"
    )]
    ByPacemaker {
        /// The sign of it.
        found: &'static str,
    },
    /// The other members cannot do without this one.
    #[error(
        "stopping etcd on this node would leave its cluster without a quorum: of {voters} voters {needed} must serve, and without this one {healthy} do; {missing}. See `etcdctl endpoint status --cluster`: wait for the missing members or bring them back, then run this again{}", if_down(*healthy, *needed)
    )]
    NoQuorum {
        /// How many members have a vote.
        voters: usize,
        /// How many voters must serve.
        needed: usize,
        /// How many of the others do.
        healthy: usize,
        /// The others that do not serve, and why.
        missing: String,
    },
    /// The cluster cannot be asked, so nobody knows if the other members can do without this one.
    #[error(
        "etcd is not stopped, because its cluster cannot be asked whether the other members can do without this one: {found}. Correct what is wrong, then run this again; if the cluster is down anyway, such as during a restore, set `cluster.without_quorum = true`"
    )]
    ClusterUnknown {
        /// The finding, and the key of the config that it is about.
        found: String,
    },
}

/// The key that stops a member without a quorum, only where the cluster has lost it already: while the cluster serves, the key takes
/// it down.
fn if_down(healthy: usize, needed: usize) -> &'static str {
    let key =
        "; if the cluster is down anyway, such as during a restore, set `cluster.without_quorum = true`";
    if healthy + 1 < needed { key } else { "" }
}

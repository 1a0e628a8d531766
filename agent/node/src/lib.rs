//! What was observed: facts as serialisable values. They have queries and no other behaviour.

mod anew;
pub mod authority;
mod cluster;
mod etcd;
mod fact;
mod health_facts;
mod iscsi;
pub mod layout;
mod local;
mod lun;
mod order;
mod selinux;

pub use anew::MountedAnew;
pub use cluster::{Cluster, Elsewhere, Member, MemberHealth};
pub use etcd::{ActiveState, DATABASE, Etcd, EtcdState, KUBELET, PodState, database};
pub use fact::Fact;
pub use health_facts::{HealthFacts, OtherUse, Path, Pressure, Route, Starter, UnitState, WriteCache};
pub use iscsi::{ISCSID, ISCSID_SOCKET, Initiator, SeenSession};
pub use local::{BarredData, DataMount, LocalDir, Retired, RollbackStaging, StagedCopy};
pub use lun::{Content, Lun, LunView, Multipath, User};
pub use order::{InPlace, Order, WRITTEN_BACK, in_place, order};
pub use selinux::{InForce, Selinux};

use authority::{Authority, Record, Stamp};
use schemars::JsonSchema;
use serde::Serialize;
use terms::{Bytes, FsUuid, Nonce, Portal, Span};

/// Everything that was observed of the node at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// The identity of this node.
    pub identity: Identity,
    /// Required programs that are not on this machine.
    pub missing_tools: Vec<String>,
    /// True if this process sees the mounts that PID 1 sees.
    pub in_host_namespace: Fact<bool>,
    /// The initiator. All unknown if the config names a device, because open-iscsi is not asked then.
    pub initiator: Initiator,
    /// All sessions, to any target. Unknown if the config names a device.
    pub sessions: Fact<Vec<SeenSession>>,
    /// The config's portals that accept a connection though no session is logged in there; empty where nobody asked: at
    /// boot.
    pub answering: Vec<Portal>,
    /// The LUN.
    pub lun: Fact<LunView>,
    /// The record: which copy is authoritative.
    pub record: Fact<Option<Record>>,
    /// The data directory on the local disk.
    pub local: Fact<LocalDir>,
    /// What else names the data directory for a filesystem of its own: units, links, lines and disks, as a message names them.
    pub claims: Fact<Vec<String>>,
    /// How long before this boot the newest file of that directory was written. Zero for one of this boot; none if there is no file.
    #[serde(rename = "idle_seconds")]
    pub idle: Fact<Option<Span>>,
    /// The data that a rollback has staged on the local disk, and the space for it.
    #[serde(rename = "shelf")]
    pub rollback_staging: Fact<RollbackStaging>,
    /// Retired data.
    pub retired: Fact<Vec<Retired>>,
    /// The local data that a bar has put aside, so that etcd cannot start on it; none if there is none.
    pub barred_data: Fact<Option<BarredData>>,
    /// The mount on the data directory.
    pub mount: Fact<Option<DataMount>>,
    /// The stamp, read through this mount.
    pub mounted_stamp: Fact<Option<Stamp>>,
    /// etcd.
    pub etcd: Fact<Etcd>,
    /// The quota of its database, as its process was started with; unknown where nobody asked, as at a boot.
    #[serde(skip)]
    pub quota: Fact<Bytes>,
    /// True if the kernel is in FIPS mode; unknown where nobody asked, as at a boot.
    #[serde(skip)]
    pub fips: Fact<bool>,
    /// The etcd cluster; none if nobody asked: at boot, for the timer, or while this node's etcd does not run.
    pub cluster: Option<Fact<Cluster>>,
    /// The other members' view of this node's member; none if nobody asked: only `claim` does.
    pub elsewhere: Option<Fact<Elsewhere>>,
    /// SELinux, and how it confines this process.
    pub selinux: Fact<Selinux>,
    /// A random UUID for a new filesystem. It is not a fact of the node. It is here because the planner is pure and cannot
    /// make one up.
    #[serde(skip)]
    pub fresh_uuid: Fact<FsUuid>,
    /// A random nonce for a use of the LUN that begins in this run; here for the same reason.
    #[serde(skip)]
    pub fresh_nonce: Fact<Nonce>,
}

impl Node {
    /// True if this session is not logged in, and its portal was asked and accepts a connection.
    pub fn leaves_alone(&self, session: &SeenSession) -> bool {
        !session.is_logged_in() && session.configured.as_ref().is_some_and(|at| self.answering.contains(at))
    }

    /// A node of which nothing was looked at. Every fact is unknown.
    pub fn unseen(identity: Identity) -> Self {
        fn unknown<T>() -> Fact<T> {
            Fact::Unknown("it was not looked at".into())
        }
        Self {
            identity,
            missing_tools: Vec::new(),
            in_host_namespace: unknown(),
            initiator: Initiator { name: unknown(), multipathd_active: unknown() },
            sessions: unknown(),
            answering: Vec::new(),
            lun: unknown(),
            record: unknown(),
            local: unknown(),
            claims: unknown(),
            idle: unknown(),
            rollback_staging: unknown(),
            retired: unknown(),
            barred_data: unknown(),
            mount: unknown(),
            mounted_stamp: unknown(),
            etcd: unknown(),
            quota: unknown(),
            fips: unknown(),
            cluster: None,
            elsewhere: None,
            selinux: unknown(),
            fresh_uuid: unknown(),
            fresh_nonce: unknown(),
        }
    }

    /// The generation that a rollback made authoritative on the local disk; none if there was no rollback.
    pub fn rolled_back(&self) -> Option<u64> {
        let record = self.record.known()?.as_ref()?;
        record.rolled_back.then_some(record.generation)
    }

    /// True if no migration has ever reached its commit point, as far as this node knows. One may have been begun.
    pub fn is_without_commit(&self) -> bool {
        self.record.known().is_some_and(|record| {
            record.as_ref().is_none_or(|record| record.authority == Authority::Local && !record.rolled_back)
        })
    }

    /// Compares a stamp with the record; none if the record is unknown.
    pub fn order(&self, uuid: Option<FsUuid>, stamp: &Stamp) -> Option<Order> {
        Some(order(self.record.known()?.as_ref(), uuid, stamp, &self.identity))
    }

    /// The generation that names the directory where a rollback stages the LUN's data.
    pub fn returning(&self) -> Option<u64> {
        self.record.known()?.as_ref()?.returning()
    }
}

/// The identity of this node, and the place from which it is observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Identity {
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The kernel's host name.
    pub hostname: String,
    /// A former name of this node that a person has typed, for `claim`.
    pub former_name: Option<String>,
    /// True if this process was started in another mount namespace, such as a debug pod's, and has joined PID 1's.
    pub joined_host_namespace: bool,
}

impl Identity {
    /// Returns true if this host and the one of this name may be the same. A placeholder (hostname(5)) tells nothing, and a domain
    /// may come later.
    pub fn may_be(&self, name: &str) -> bool {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let [host, name, former] = [&self.hostname, name, self.data_name()].map(short);
        host == name
            || former == name
            || [host, name].iter().any(|name| ["", "localhost"].contains(&name.as_str()))
    }

    /// The name of the node whose data is looked for: the typed former one, or else the present one.
    pub fn data_name(&self) -> &str {
        self.former_name.as_deref().unwrap_or(&self.hostname)
    }
}

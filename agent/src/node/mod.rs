//! What was seen: facts as values, serialisable, without behaviour but queries.

pub mod authority;
mod fact;
mod iscsi;
pub mod layout;
mod local;
mod lun;
mod sample;
mod selinux;
mod vitals;

pub use fact::Fact;
pub use iscsi::{Initiator, Session};
pub use local::{DataMount, Etcd, KUBELET, LocalDir, MountUnit, POD_SERVES, Retired, Shelf, StagedCopy};
pub use lun::{Content, Lun, LunView, Multipath, User};
pub use sample::{Counted, Sample, counted};
pub use selinux::{InForce, Selinux};
pub use vitals::{Metrics, Path, Pressure, Route, UnitState, Vitals, WriteCache};

use crate::terms::FsUuid;
use authority::{Record, Stamp};
use serde::Serialize;

/// Everything that was seen of the node, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Who this is.
    pub identity: Identity,
    /// Programs that are not on this machine.
    pub missing_tools: Vec<String>,
    /// Whether this process sees the mounts that PID 1 sees.
    pub in_host_namespace: Fact<bool>,
    /// open-iscsi; all unknown where the config names a device, for nobody is asked then.
    pub initiator: Initiator,
    /// All sessions, to whatever target; unknown where the config names a device.
    pub sessions: Fact<Vec<Session>>,
    /// The LUN.
    pub lun: Fact<LunView>,
    /// Which copy is the truth.
    pub record: Fact<Option<Record>>,
    /// The data directory on the local disk.
    pub local: Fact<LocalDir>,
    /// What a rollback stages on the local disk, and its room.
    pub shelf: Fact<Shelf>,
    /// Local data that lies retired.
    pub retired: Fact<Vec<Retired>>,
    /// What is mounted on the data directory.
    pub mount: Fact<Option<DataMount>>,
    /// The stamp, read through that mount.
    pub mounted_stamp: Fact<Option<Stamp>>,
    /// The mount unit.
    pub mount_unit: Fact<MountUnit>,
    /// etcd.
    pub etcd: Fact<Etcd>,
    /// SELinux, and this program under it.
    pub selinux: Fact<Selinux>,
    /// A UUID that nobody has used: what a new filesystem would get. Not a fact of the node, but
    /// the planner is pure and must not make one up.
    #[serde(skip)]
    pub fresh_uuid: FsUuid,
}

impl Node {
    /// The generation that was rolled back to the local disk and is the truth there, on purpose.
    pub fn rolled_back(&self) -> Option<u64> {
        let record = self.record.known()?.as_ref()?;
        record.rolled_back.then_some(record.generation)
    }

    /// The generation under whose number a rollback stages the LUN's data, or has staged it.
    pub fn returning(&self) -> Option<u64> {
        self.record.known()?.as_ref()?.returning()
    }
}

/// Who this node is, and whence it is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The kernel's host name.
    pub hostname: String,
    /// Whether this process was started in another mount namespace, such as a debug pod's, and joined
    /// PID 1's.
    pub joined_host_namespace: bool,
}

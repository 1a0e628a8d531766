//! Facts that only `health` observes. No plan depends on them.

use super::{etcd::ActiveState, fact::Fact};
use serde::Serialize;
use std::fmt;
use terms::{Bytes, Portal, Span};

/// Figures of a node, at one moment or over a few seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HealthFacts {
    /// What a run is at work on, in words; none if no run is at work, or nobody looked for one.
    pub at_work: Option<String>,
    /// The LUN's paths.
    pub paths: Fact<Vec<Path>>,
    /// The write cache of its multipath map; none if there is no map.
    pub map_cache: Fact<Option<WriteCache>>,
    /// Bytes free, and bytes in all, of the local filesystem with the record.
    pub local_space: Fact<(Bytes, Bytes)>,
    /// Errors of the LUN's devices, sessions and filesystem in the kernel's log, since the LUN was mounted or the log was
    /// cleared.
    pub kernel_errors: Fact<Vec<String>>,
    /// True if the target has announced another size of the LUN, and the kernel has not read it since.
    pub size_announced: Fact<bool>,
    /// etcd-lun's own units.
    pub units: Fact<Vec<UnitState>>,
    /// Units that may start or require etcd-lun's own.
    pub starters: Fact<Vec<Starter>>,
    /// The interfaces that the sessions' packets leave by.
    pub routes: Fact<Vec<Route>>,
    /// Other users of the config's target on this node.
    pub others: Fact<Vec<OtherUse>>,
    /// True if iscsid is set to end no session that is in use (`iscsid.safe_logout`).
    pub safe_logout: Fact<bool>,
    /// The time that the node waits for its disks.
    pub pressure: Fact<Pressure>,
    /// Seconds after which a task that waits for a disk makes the kernel panic; none if it never does.
    pub hung_task_panic: Fact<Option<u64>>,
    /// True if iscsid runs, or systemd knows no unit of that name.
    pub iscsid: Fact<bool>,
    /// How long ago the service has mounted the LUN anew, each time within a day.
    pub mounted_anew: Fact<Vec<Span>>,
}

/// A use of the config's target by another program of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherUse {
    /// A session that is not ours.
    Session {
        /// Its number.
        sid: u32,
        /// The open-iscsi interface that it was made by; none if the kernel does not say it.
        interface: Option<String>,
    },
    /// A node record that is not ours.
    Record {
        /// The portal that it is of.
        portal: Portal,
    },
}

impl fmt::Display for OtherUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session { sid, interface: Some(interface) } => {
                write!(f, "session {sid} (interface {interface})")
            }
            Self::Session { sid, interface: None } => write!(f, "session {sid}"),
            Self::Record { portal } => write!(f, "the node record of {portal}"),
        }
    }
}

/// A path to the LUN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Path {
    /// The kernel name of its disk.
    pub name: String,
    /// The SCSI device's state: `running`, `blocked`, `transport-offline`, `offline` and others (kernel
    /// `drivers/scsi/scsi_sysfs.c`). A disk that is no SCSI device is `running` while it is there.
    pub state: String,
    /// Commands that have timed out since the device appeared.
    pub timeouts: Option<u64>,
    /// Commands that have failed since the device appeared. Probing a disk makes a few.
    pub errors: Option<u64>,
    /// Its write cache.
    pub cache: WriteCache,
}

/// A disk's write cache, as the kernel and the target report it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WriteCache {
    /// `write back` or `write through`. With `write through` the kernel sends no flushes (kernel
    /// `Documentation/block/writeback_cache_control.rst`).
    pub kernel: Option<String>,
    /// The target's report in the caching mode page; none for a map.
    pub target: Option<String>,
    /// True if the disk can write single blocks to stable storage (FUA).
    pub fua: Option<bool>,
}

impl WriteCache {
    /// True if the kernel sends flushes.
    pub fn is_flushed(&self) -> bool {
        self.kernel.as_deref() == Some("write back")
    }
}

/// A unit of etcd-lun, as systemd reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnitState {
    /// Its name.
    pub name: String,
    /// `loaded`, `not-found`, `masked` and others.
    pub load: String,
    /// `enabled`, `disabled`, `static` and others.
    pub file: String,
    /// The state of the unit.
    pub active: ActiveState,
    /// The result of its last run; none for a unit that does not run anything.
    pub result: Option<String>,
}

/// A unit that may start or require units of etcd-lun, as PID 1 has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Starter {
    /// Its name.
    pub name: String,
    /// `loaded`, `not-found` and others.
    pub load: String,
    /// True if PID 1 has read etcd-lun's drop-in of it.
    pub drop_in: bool,
    /// The units of etcd-lun that it wants.
    pub wants: Vec<String>,
    /// The units of etcd-lun that it requires.
    pub requires: Vec<String>,
}

/// Where packets to a portal leave this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The portal's address.
    pub to: String,
    /// The interface; none if none has the address of the connection.
    pub interface: Option<String>,
    /// The most bytes that a packet may have (MTU).
    pub mtu: Option<u32>,
}

/// The time that the node waits for its disks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pressure {
    /// The share of processor time spent idle while waiting for disks, in percent.
    pub iowait: f64,
    /// The share of the last minute in which at least one task waited, in percent; none if the kernel does not count it.
    pub some: Option<f64>,
    /// The share in which all tasks waited at once, in percent; none if the kernel does not count it.
    pub full: Option<f64>,
}

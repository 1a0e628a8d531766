//! What only `health` asks: figures that no decision hangs on.

use super::{Fact, Sample};
use serde::Serialize;

/// The figures of a node, at one moment or over a few seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Vitals {
    /// The LUN's paths.
    pub paths: Fact<Vec<Path>>,
    /// Its multipath map's cache; nothing where no map is used.
    pub map_cache: Fact<Option<WriteCache>>,
    /// Files that can still be made on what is mounted; nothing when nothing is.
    pub free_inodes: Fact<Option<u64>>,
    /// Errors of the LUN's devices, sessions and filesystem in the kernel's log: since it was mounted, and
    /// since somebody cleared it.
    pub kernel_errors: Fact<Vec<String>>,
    /// etcd-lun's own units.
    pub units: Fact<Vec<UnitState>>,
    /// Where the sessions' packets leave.
    pub routes: Fact<Vec<Route>>,
    /// How much the node waits for its disks.
    pub pressure: Fact<Pressure>,
    /// What etcd says of itself; nothing when the config names no address to ask.
    pub metrics: Option<Fact<Metrics>>,
}

/// A path to the LUN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Its disk's kernel name.
    pub name: String,
    /// The SCSI device's state: `running`, `blocked`, `transport-offline`, `offline` and others (kernel
    /// `drivers/scsi/scsi_sysfs.c`); of a disk that is no SCSI device `running` while it is there.
    pub state: String,
    /// Commands that timed out since it came.
    pub timeouts: Option<u64>,
    /// Commands that ended with an error since it came; a few do when a disk is probed.
    pub errors: Option<u64>,
    /// Its cache.
    pub cache: WriteCache,
}

/// What the kernel takes a disk's write cache for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WriteCache {
    /// `write back` or `write through`: with the second the kernel asks for no flush (kernel
    /// `Documentation/block/writeback_cache_control.rst`).
    pub kernel: Option<String>,
    /// What the target itself says, in the caching mode page; nothing for a map.
    pub target: Option<String>,
    /// Whether single writes can be forced to stable storage.
    pub fua: Option<bool>,
}

impl WriteCache {
    /// Whether flushes are asked for.
    pub fn is_flushed(&self) -> bool {
        self.kernel.as_deref() == Some("write back")
    }
}

/// A unit of ours, in systemd's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnitState {
    /// Its name.
    pub name: String,
    /// `loaded`, `not-found`, `masked` and others.
    pub load: String,
    /// `enabled`, `disabled`, `static` and others.
    pub file: String,
    /// `active`, `inactive`, `failed` and others.
    pub active: String,
    /// How its last run ended, where it has one.
    pub result: Option<String>,
}

/// Where packets to a portal leave the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The portal's address.
    pub to: String,
    /// The interface; nothing when there is no route.
    pub interface: Option<String>,
}

/// Waiting for disks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pressure {
    /// The share of the processors' time in which they had nothing to do but wait, in percent.
    pub iowait: f64,
    /// The share of the last minute in which some task waited, in percent; nothing where the kernel doesn't count it.
    pub some: Option<f64>,
    /// The same in which all that could run waited.
    pub full: Option<f64>,
}

/// What etcd says of itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metrics {
    /// Its own word on its health: nothing wrong, or what.
    pub ill: Option<String>,
    /// Two samples of its metrics, the later second.
    #[serde(skip)]
    pub samples: [Sample; 2],
}

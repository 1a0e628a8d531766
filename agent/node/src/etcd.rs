//! etcd, as what runs it reports it.

use super::fact::Fact;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::fmt;
use terms::AbsPath;

/// The unit that runs static pods.
pub const KUBELET: &str = "kubelet.service";

/// etcd's database below its data directory (etcd 3.5 `server/datadir/datadir.go`, `ToBackendFileName`).
pub const DATABASE: &str = "member/snap/db";

/// Where etcd's database lies.
pub fn database(data_dir: &AbsPath) -> AbsPath {
    data_dir.join(DATABASE)
}

/// etcd, as what runs it reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Etcd {
    /// The name of its unit, or the path of its static pod's manifest.
    pub name: String,
    /// True if systemd knows the unit. Always true for a static pod: the cluster's operator writes the manifest when
    /// this node becomes a member.
    pub exists: bool,
    /// Its state: systemd's `ActiveState`, or words for a static pod.
    #[schemars(with = "String")]
    pub state: EtcdState,
    /// True if it runs, starts or stops. Also true if that is not known.
    pub running: bool,
    /// True if it starts at boot: its unit is enabled, or its manifest is in place.
    pub enabled: bool,
    /// True if it will start without us: systemd has queued its start, or the kubelet will find its manifest.
    pub start_queued: bool,
    /// True if an earlier run of ours stopped it and did not start it again.
    pub stopped_by_us: bool,
    /// The sign that pacemaker runs etcd, and not the kubelet: a cluster of two nodes with fencing.
    #[serde(skip)]
    pub by_pacemaker: Option<&'static str>,
    /// The processes that hold the database's lock, on the local disk or on the mounted LUN, as `command (pid N)`.
    pub lock_holders: Vec<String>,
    /// How the database and the log of an etcd that runs are not those of the data directory, in words; none if they are, or if it
    /// does not run.
    pub other_place: Fact<Option<String>>,
}

impl Etcd {
    /// True if it serves: its unit is active, or its static pod has the database open.
    pub fn is_up(&self) -> bool {
        matches!(self.state, EtcdState::Unit(ActiveState::Active) | EtcdState::Pod(PodState::Running))
    }

    /// True if it should be running: it runs, starts at boot, tried and failed, or we stopped it.
    pub fn should_run(&self) -> bool {
        let failed = self.state == EtcdState::Unit(ActiveState::Failed);
        self.exists && (self.running || self.enabled || failed || self.stopped_by_us)
    }

    /// True if etcd should be running but we have to start it: we stopped it, or a start of ours was cut short.
    pub fn needs_start(&self) -> bool {
        self.should_run() && (self.stopped_by_us || (!self.running && !self.start_queued))
    }
}

/// The state of etcd, by what runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdState {
    /// A systemd unit's.
    Unit(ActiveState),
    /// A static pod's.
    Pod(PodState),
}

impl EtcdState {
    /// True unless etcd is known to be fully stopped. An etcd that starts or stops, or whose state has no name that this
    /// program knows, may hold its data: nobody copies or mounts over it.
    pub fn is_running(&self) -> bool {
        match self {
            Self::Unit(state) => !state.is_stopped(),
            Self::Pod(PodState::Running | PodState::Starting) => true,
            Self::Pod(PodState::WaitingForKubelet | PodState::Parked | PodState::NoManifest) => false,
        }
    }
}

impl fmt::Display for EtcdState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(state) => state.fmt(f),
            Self::Pod(state) => state.fmt(f),
        }
    }
}

impl Serialize for EtcdState {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A unit's `ActiveState`: org.freedesktop.systemd1(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActiveState {
    /// It runs, or is mounted.
    Active,
    /// It runs, and is reading its configuration again.
    Reloading,
    /// It does not run.
    Inactive,
    /// It does not run: its last run or start failed.
    Failed,
    /// It starts.
    Activating,
    /// It stops.
    Deactivating,
    /// A state that this program has no name for, in systemd's word, such as `maintenance`. The unit counts neither as active
    /// nor as stopped, because neither is known.
    Other(String),
}

impl ActiveState {
    /// True if the unit is fully stopped. An unknown state is not.
    pub fn is_stopped(&self) -> bool {
        match self {
            Self::Inactive | Self::Failed => true,
            Self::Active | Self::Reloading | Self::Activating | Self::Deactivating | Self::Other(_) => false,
        }
    }
}

impl From<&str> for ActiveState {
    fn from(text: &str) -> Self {
        match text {
            "active" => Self::Active,
            "reloading" => Self::Reloading,
            "inactive" => Self::Inactive,
            "failed" => Self::Failed,
            "activating" => Self::Activating,
            "deactivating" => Self::Deactivating,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for ActiveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Reloading => "reloading",
            Self::Inactive => "inactive",
            Self::Failed => "failed",
            Self::Activating => "activating",
            Self::Deactivating => "deactivating",
            Self::Other(word) => word,
        })
    }
}

impl Serialize for ActiveState {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The state of a static pod, from its manifest, the kubelet and the database's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodState {
    /// A process has the database open.
    Running,
    /// The manifest is in place and the kubelet runs.
    Starting,
    /// The manifest is in place and the kubelet does not run.
    WaitingForKubelet,
    /// etcd-lun has moved the manifest aside.
    Parked,
    /// There is no manifest.
    NoManifest,
}

impl fmt::Display for PodState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::WaitingForKubelet => "waiting for the kubelet",
            Self::Parked => "stopped, its manifest parked",
            Self::NoManifest => "absent",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etcd(state: EtcdState) -> Etcd {
        Etcd {
            name: "etcd.service".into(),
            exists: true,
            running: state.is_running(),
            state,
            enabled: false,
            start_queued: false,
            stopped_by_us: false,
            by_pacemaker: None,
            lock_holders: Vec::new(),
            other_place: Fact::Known(None),
        }
    }

    #[test]
    fn an_unknown_active_state_is_neither_up_nor_stopped() {
        // The last two are words that this program does not know. A static pod's state is called `running`, a unit's is not.
        for word in [
            "active",
            "reloading",
            "inactive",
            "failed",
            "activating",
            "deactivating",
            "maintenance",
            "running",
        ] {
            let state = ActiveState::from(word);
            assert_eq!(serde_json::to_value(&state).unwrap(), word);
            assert_eq!(state.is_stopped(), ["inactive", "failed"].contains(&word), "{word}");
            assert_eq!(matches!(state, ActiveState::Other(_)), ["maintenance", "running"].contains(&word));
            let etcd = etcd(EtcdState::Unit(state));
            assert_eq!(etcd.is_up(), word == "active", "{word}");
            assert_eq!(etcd.should_run(), word != "inactive", "{word}");
        }
    }

    #[test]
    fn a_pod_is_up_only_while_it_has_the_database_open() {
        use PodState::{NoManifest, Parked, Running, Starting, WaitingForKubelet};
        for (state, running) in [
            (Running, true),
            (Starting, true),
            (WaitingForKubelet, false),
            (Parked, false),
            (NoManifest, false),
        ] {
            let etcd = etcd(EtcdState::Pod(state));
            assert_eq!((etcd.running, etcd.is_up()), (running, state == Running), "{state}");
        }
    }
}

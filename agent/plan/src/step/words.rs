//! What is said of a step, one line or arm for each: its name, whether it is destructive, in which part of the time without etcd
//! it counts, and an imperative phrase for people and the log.

use super::{
    NodeStep, ProtocolStep, Step,
    payload::{
        AddPath, AttachLun, AwaitMember, CatchUp, Claim, Copy, Format, Grow, LogIn, Mark, MountData,
        Preflight, RemovePath, Retire, StartEtcd, StopEtcd, WatchLun,
    },
};
use config::{Discovery, Runtime};
use node::layout;
use std::fmt;
use terms::Bytes;

/// The properties of a step, for programs.
struct About {
    name: &'static str,
    phase: Phase,
    is_destructive: bool,
}

/// The part of the time without etcd in which a step counts, if it comes between the stop and the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Etcd's own stop.
    Stopping,
    /// Until its pod's other containers have ended.
    Containers,
    /// The last blocks, and their proof.
    LastBlocks,
    /// The stamp, the commit point, and what becomes of the data directory.
    Commit,
    /// Mounting or unmounting the LUN.
    Mount,
    /// Until the member serves again.
    Starting,
}

impl Step {
    fn about(&self) -> About {
        match self {
            Self::Protocol(step) => step.about(),
            Self::Node(step) => step.about(),
        }
    }

    /// A stable name for the journal and JSON.
    pub fn id(&self) -> &'static str {
        self.about().name
    }

    /// The part of the time without etcd in which it counts.
    pub fn phase(&self) -> Phase {
        self.about().phase
    }

    /// Returns true if it overwrites or moves something that could be missed.
    pub fn is_destructive(&self) -> bool {
        self.about().is_destructive
    }
}

impl ProtocolStep {
    /// A stable name for the journal and JSON.
    pub fn id(&self) -> &'static str {
        self.about().name
    }

    fn about(&self) -> About {
        let about = |name, phase, is_destructive| About { name, phase, is_destructive };
        match self {
            Self::BeginRecord { .. } => about("begin-record", Phase::Commit, false),
            // Who had it can write no more.
            Self::ClearUnfinished { .. } => about("clear-unfinished", Phase::Commit, true),
            Self::Format(_) => about("format", Phase::Commit, true),
            Self::Stage { .. } => about("stage", Phase::Commit, false),
            Self::Unstamp => about("unstamp", Phase::Commit, true),
            Self::PreCopy(_) => about("pre-copy", Phase::Commit, true),
            Self::CatchUp(_) => about("catch-up", Phase::Commit, true),
            Self::StopEtcd { .. } => about("stop-etcd", Phase::Stopping, false),
            Self::Copy(_) => about("copy", Phase::LastBlocks, true),
            Self::Prove { .. } => about("prove", Phase::LastBlocks, false),
            Self::AwaitPodEnd { .. } => about("await-pod-end", Phase::Containers, false),
            Self::Confirm(_) => about("confirm", Phase::LastBlocks, true),
            Self::Stamp { .. } => about("stamp", Phase::Commit, false),
            Self::Commit { .. } => about("commit", Phase::Commit, true),
            Self::Retire(_) => about("retire", Phase::Commit, true),
            Self::Fence { .. } => about("fence", Phase::Commit, false),
            Self::Activate { .. } => about("activate", Phase::Commit, false),
            Self::TakeBack { .. } => about("take-back", Phase::Commit, true),
            Self::Bar { .. } => about("bar", Phase::Commit, true),
            Self::WatchLun(_) => about("watch-lun", Phase::Commit, false),
            Self::Claim(_) => about("claim", Phase::Commit, true),
            Self::KeepLocal { .. } => about("keep-local", Phase::Commit, true),
            Self::Unbar { .. } => about("unbar", Phase::Commit, true),
            Self::Release { .. } => about("release", Phase::Commit, false),
            Self::Mark(_) => about("mark", Phase::Commit, false),
            Self::MountData(_) => about("mount-data", Phase::Mount, false),
            Self::UnmountData { .. } => about("unmount-data", Phase::Mount, false),
            Self::UnmountShutDown { .. } => about("unmount-shut-down", Phase::Mount, false),
            Self::CommitLocal { .. } => about("commit-local", Phase::Commit, true),
            Self::Return { .. } => about("return", Phase::Commit, true),
            Self::StartEtcd(_) => about("start-etcd", Phase::Starting, false),
        }
    }
}

impl NodeStep {
    fn about(&self) -> About {
        let about = |name, phase, is_destructive| About { name, phase, is_destructive };
        match self {
            Self::SetInitiatorName { .. } => about("set-initiator-name", Phase::Commit, false),
            Self::LogOut { .. } => about("log-out", Phase::Commit, false),
            Self::LogIn(_) => about("log-in", Phase::Commit, false),
            Self::SetTimeout { .. } => about("set-timeout", Phase::Starting, false),
            Self::RemovePath(_) => about("remove-path", Phase::Commit, false),
            Self::AddPath(_) => about("add-path", Phase::Commit, false),
            Self::AttachLun(_) => about("attach-lun", Phase::Commit, false),
            Self::AwaitDisk { .. } => about("await-disk", Phase::Commit, false),
            Self::Preflight(_) => about("preflight", Phase::Commit, false),
            Self::Measure { .. } => about("measure", Phase::Commit, false),
            Self::ResizeMap { .. } => about("resize-map", Phase::Commit, false),
            Self::Grow(_) => about("grow", Phase::Commit, false),
            Self::AwaitMember(_) => about("await-member", Phase::Starting, false),
        }
    }
}

impl fmt::Display for Step {
    /// An imperative phrase.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(step) => step.fmt(f),
            Self::Node(step) => step.fmt(f),
        }
    }
}

impl fmt::Display for ProtocolStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeginRecord { record } => {
                write!(
                    f,
                    "record attempt {} with filesystem {}; the local disk stays authoritative",
                    record.generation, record.uuid
                )
            }
            Self::ClearUnfinished { wwid, uuid } => {
                write!(f, "clear the unfinished filesystem {uuid} of an earlier attempt from LUN {wwid}")
            }
            Self::Format(Format { wwid, uuid, label }) => {
                write!(f, "format LUN {wwid} as XFS labelled {label}, UUID {uuid}")
            }
            Self::Stage { wwid, .. } => write!(f, "mount LUN {wwid} for this program only"),
            Self::Unstamp => write!(f, "remove the old stamp from the LUN"),
            Self::PreCopy(Copy { from, way, size, .. }) => {
                write!(f, "copy {from}{} to {way} while etcd still runs", sized(*size))
            }
            Self::CatchUp(CatchUp { from, way, limit }) => write!(
                f,
                "bring the copy of {from} on {way} up to date while etcd still runs, and refuse if the last blocks would take longer than {limit}"
            ),
            Self::StopEtcd(StopEtcd { runtime: Runtime::Systemd { unit }, .. }) => {
                write!(f, "stop {unit} and wait until nobody holds the database")
            }
            Self::StopEtcd(StopEtcd {
                runtime: Runtime::StaticPod { manifest }, whole_pod: true, ..
            }) => write!(
                f,
                "move {manifest} aside, and wait until the kubelet has ended etcd's containers and nobody holds the database"
            ),
            Self::StopEtcd(StopEtcd {
                runtime: Runtime::StaticPod { manifest }, whole_pod: false, ..
            }) => {
                write!(f, "move {manifest} aside, and wait until the kubelet has ended etcd itself")
            }
            Self::Copy(Copy { from, way, size, provisional, .. }) => {
                write!(f, "copy {from}{} to {way}{}", sized(*size), meanwhile(*provisional))
            }
            Self::Prove { from, way, provisional, .. } => write!(
                f,
                "compare {from} and {way}, which was read back from the device, content and metadata{}",
                meanwhile(*provisional)
            ),
            Self::AwaitPodEnd { .. } => {
                write!(
                    f,
                    "wait until the other containers of etcd's pod have ended, and nobody uses its data"
                )
            }
            Self::Confirm(Copy { from, way, .. }) => write!(
                f,
                "confirm that nobody has written to {from} since it was compared; if somebody has, copy it to {way} and compare again"
            ),
            Self::Stamp { stamp } => {
                write!(f, "stamp the LUN with generation {} for {}", stamp.generation, stamp.node)
            }
            Self::Commit { record } => {
                write!(f, "commit: from here on generation {} on the LUN is authoritative", record.generation)
            }
            Self::Retire(Retire { from, generation, .. }) => {
                write!(f, "retire the data in {from} to {}/{generation}", layout::RETIRED)
            }
            Self::Fence { at } => write!(f, "fence {at}: without data and immutable beneath the mount"),
            Self::TakeBack { record } => write!(
                f,
                "take the commit of generation {} back: etcd has run on the local disk since, and the LUN was never used",
                record.generation
            ),
            Self::Bar { at } => write!(
                f,
                "bar {at}: put its data aside, to {}/{}, because the LUN is newer",
                layout::BARRED,
                layout::BARRED_DATA
            ),
            Self::WatchLun(WatchLun { wwid, span, .. }) => {
                write!(
                    f,
                    "look at LUN {wwid} twice, {span} apart, and stop if somebody has used it in between"
                )
            }
            Self::Claim(Claim { stamp, .. }) => write!(
                f,
                "take the LUN for this node: record generation {}, and begin use {}",
                stamp.generation, stamp.activations
            ),
            Self::KeepLocal { record } => write!(
                f,
                "decide for the barred data: from here on generation {} on the local disk is authoritative",
                record.generation
            ),
            Self::Unbar { generation } => write!(
                f,
                "move {}/{} to {}/{generation}",
                layout::BARRED,
                layout::BARRED_DATA,
                layout::RETURNING
            ),
            Self::Release { stamp } => write!(
                f,
                "note on the LUN's stamp that its data, generation {}, was moved back to the local disk",
                stamp.generation
            ),
            Self::Activate { stamp } | Self::Mark(Mark { stamp, .. }) => {
                write!(
                    f,
                    "advance the use counter to {}, on the LUN's stamp and in the record",
                    stamp.activations
                )
            }
            Self::MountData(MountData { at, .. }) => write!(f, "mount the LUN on {at}"),
            Self::UnmountData { unit, at } => write!(f, "unmount {at} by systemd ({unit})"),
            Self::UnmountShutDown { unit, at } => {
                write!(f, "unmount {at} by systemd ({unit}): its filesystem has shut down after an I/O error")
            }
            Self::CommitLocal { record } => write!(
                f,
                "commit: from here on generation {} on the local disk is authoritative, until somebody runs `etcd-lun apply`",
                record.generation
            ),
            Self::Return { at, generation } => {
                write!(f, "open the fence: put {}/{generation} in the place of {at}", layout::RETURNING)
            }
            Self::StartEtcd(StartEtcd { runtime: Runtime::Systemd { unit }, on, .. }) => {
                write!(f, "start {unit} on the {on}")
            }
            Self::StartEtcd(StartEtcd { runtime: Runtime::StaticPod { manifest }, on, .. }) => {
                write!(f, "put {manifest} back, so that the kubelet starts etcd on the {on}")
            }
        }
    }
}

impl fmt::Display for NodeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Not which one: `plan` would print another one than `apply` sets.
            Self::SetInitiatorName { .. } => f.write_str(
                "give this node a random initiator name, because it has none; at the target etcd-lun uses `node.initiator`",
            ),
            Self::LogOut { sid } => {
                write!(f, "log out session {sid}, which is not needed any more and which nobody uses")
            }
            Self::LogIn(LogIn { target, portals, discovery, all, limit, .. }) => {
                let portals = portals.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let how = match discovery {
                    Discovery::SendTargets => "discover and log in to",
                    Discovery::Static => "log in to",
                };
                let which = if *all { "at" } else { "at the first that works of" };
                write!(f, "{how} {target} {which} {portals}, retrying for up to {limit}")
            }
            Self::SetTimeout { sid, replacement } => {
                write!(
                    f,
                    "set session {sid} to keep writes waiting for {replacement} when the target is gone"
                )
            }
            Self::RemovePath(RemovePath { map, path, sid }) => write!(
                f,
                "take {path} out of {map}, because session {sid} is at a portal that the config does not name"
            ),
            Self::AddPath(AddPath { map, path, .. }) => {
                write!(f, "take {path} into {map}, which lacks this path of the LUN")
            }
            Self::AttachLun(AttachLun { target, lun, .. }) => {
                write!(f, "attach {lun} of {target}, and no other")
            }
            Self::AwaitDisk { path, limit } => write!(f, "wait for {path}, for up to {limit}"),
            Self::Preflight(Preflight { from, way, .. }) => {
                write!(f, "try everything that moving {from} to {way} needs, while etcd still runs")
            }
            Self::Measure { limit, .. } => {
                write!(
                    f,
                    "measure the LUN, and refuse it unless 99 of 100 fdatasync calls end within {limit}"
                )
            }
            Self::ResizeMap { map, to } => {
                write!(f, "tell multipathd to give {map} the {to} that its paths have now")
            }
            Self::Grow(Grow { at, wwid, from, to }) => {
                write!(
                    f,
                    "grow the filesystem on {at} from {from} to the {to} of LUN {wwid}, while it is mounted"
                )
            }
            Self::AwaitMember(AwaitMember { url, limit, .. }) => {
                write!(f, "wait until the member at {url} has caught up with its leader, for up to {limit}")
            }
        }
    }
}

fn meanwhile(provisional: bool) -> &'static str {
    if provisional { ", while the other containers of etcd's pod end" } else { "" }
}

fn sized(size: Option<Bytes>) -> String {
    size.map(|size| format!(" ({size})")).unwrap_or_default()
}

//! What a step with more than two choices carries. The function of `apply` that does the step takes it as it is.
//!
//! A choice of yes or no is a boolean here, under a name of its own: so `plan --json` has shown it since its first version. It goes
//! to a function in its payload, and not as one of two booleans that a caller could exchange.

use config::{Digests, Discovery, Runtime};
use node::{
    authority::{Authority, Record, Stamp},
    layout,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use terms::{
    AbsPath, Bytes, ClientUrl, Fingerprint, FsLabel, FsUuid, Iqn, Portal, Span, TargetName, WantedLun, Wwid,
};

/// Which way data is copied, out of the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From the local disk to the staged LUN.
    ToLun,
    /// From the LUN, mounted on the data directory, to where the local disk keeps it until it takes that directory's
    /// place.
    ToLocal {
        /// The generation that the copy becomes.
        generation: u64,
    },
}

impl fmt::Display for Way {
    /// Where to.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToLun => f.write_str("the LUN"),
            Self::ToLocal { generation } => write!(f, "{}/{generation} on the local disk", layout::RETURNING),
        }
    }
}

/// The payload of `NodeStep::LogIn`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogIn {
    /// The target.
    pub target: TargetName,
    /// The initiator name of the session.
    pub initiator: Iqn,
    /// Its portals.
    pub portals: Vec<Portal>,
    /// How portals are learnt.
    pub discovery: Discovery,
    /// To all portals (multipath), or to the first one that works.
    pub all: bool,
    /// How often the initiator pings the target.
    #[serde(rename = "noop_interval_seconds")]
    pub noop_interval: Span,
    /// How long the target may take to answer a ping.
    #[serde(rename = "noop_timeout_seconds")]
    pub noop_timeout: Span,
    /// The checksums, none if iscsid.conf decides.
    pub digests: Option<Digests>,
    /// How long transient failures are retried.
    #[serde(rename = "limit_seconds")]
    pub limit: Span,
}

/// The payload of `NodeStep::AddPath`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AddPath {
    /// The kernel name of the map.
    pub map: String,
    /// The kernel name of the path.
    pub path: String,
    /// The WWID of both.
    pub wwid: Wwid,
}

/// The payload of `NodeStep::RemovePath`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemovePath {
    /// The kernel name of the map.
    pub map: String,
    /// The kernel name of the path.
    pub path: String,
    /// The session that the path belongs to.
    pub sid: u32,
}

/// The payload of `NodeStep::AttachLun`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AttachLun {
    /// The target.
    pub target: TargetName,
    /// The initiator name of the sessions to scan.
    pub initiator: Iqn,
    /// Which LUN of the target.
    pub lun: WantedLun,
    /// True if every session that is logged in has to show it, because each is a path of etcd's LUN. Else one is
    /// enough.
    pub everywhere: bool,
    /// How to log in at other portals if no session leads to the LUN; none if only the sessions that exist are looked at.
    pub elsewhere: Option<LogIn>,
    /// How long to wait for it, together with the log-in before.
    #[serde(rename = "limit_seconds")]
    pub limit: Span,
}

/// The payload of `ProtocolStep::Format`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Format {
    /// The LUN.
    pub wwid: Wwid,
    /// The filesystem's UUID.
    pub uuid: FsUuid,
    /// Its label.
    pub label: FsLabel,
}

/// The payload of `ProtocolStep::PreCopy`, `ProtocolStep::Copy` and `ProtocolStep::Confirm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Copy {
    /// The data directory.
    pub from: AbsPath,
    /// Where to.
    pub way: Way,
    /// About how much data there is.
    #[serde(rename = "size_bytes")]
    pub size: Option<Bytes>,
    /// True if nothing can have been copied there before.
    pub onto_empty: bool,
    /// True if somebody may write meanwhile: files that change or vanish are expected then.
    pub provisional: bool,
}

/// The payload of `ProtocolStep::CatchUp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CatchUp {
    /// The data directory.
    pub from: AbsPath,
    /// Where to.
    pub way: Way,
    /// The longest time that the last blocks may take while etcd is stopped.
    #[serde(rename = "limit_seconds")]
    pub limit: Span,
}

/// The payload of `NodeStep::Preflight`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Preflight {
    /// The data directory.
    pub from: AbsPath,
    /// Where its data goes.
    pub way: Way,
    /// The runtime of etcd.
    pub runtime: Runtime,
}

/// The payload of `ProtocolStep::Retire`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Retire {
    /// The data directory.
    pub from: AbsPath,
    /// The generation that the data became.
    pub generation: u64,
    /// The expected fingerprint, if the data was not proven in this run.
    pub fingerprint: Option<Fingerprint>,
}

/// The payload of `ProtocolStep::Mark`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mark {
    /// The data directory.
    pub at: AbsPath,
    /// The stamp as it will be.
    pub stamp: Stamp,
    /// The record while the use begins: it announces it.
    pub record: Record,
}

/// The payload of `ProtocolStep::WatchLun`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WatchLun {
    /// The LUN.
    pub wwid: Wwid,
    /// The filesystem's UUID.
    pub uuid: FsUuid,
    /// The stamp that both looks must find, without replaying the log.
    pub stamp: Option<Stamp>,
    /// The time between both looks.
    #[serde(rename = "span_seconds")]
    pub span: Span,
    /// Why the other members say nothing of this node's member; none if they do.
    pub not_asked: Option<String>,
}

/// The payload of `ProtocolStep::Claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Claim {
    /// The stamp as it must be now.
    pub from: Stamp,
    /// The stamp as it will be.
    pub stamp: Stamp,
    /// The record that names the LUN and the stamp's last use.
    pub record: Record,
}

/// The payload of `ProtocolStep::MountData`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MountData {
    /// Where.
    pub at: AbsPath,
    /// The LUN.
    pub wwid: Wwid,
    /// The filesystem's UUID.
    pub uuid: FsUuid,
    /// Options that must be in effect afterwards.
    pub options: Vec<String>,
}

/// The payload of `NodeStep::Grow`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Grow {
    /// The data directory.
    pub at: AbsPath,
    /// The LUN.
    pub wwid: Wwid,
    /// The filesystem's size.
    #[serde(rename = "from_bytes")]
    pub from: Bytes,
    /// The LUN's size.
    #[serde(rename = "to_bytes")]
    pub to: Bytes,
}

/// The payload of `ProtocolStep::StopEtcd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StopEtcd {
    /// The runtime of etcd.
    pub runtime: Runtime,
    /// True if the other members must be a quorum, which is asked again right before the stop.
    pub needs_quorum: bool,
    /// True if a static pod's other containers must have ended too. `AwaitPodEnd` waits for them otherwise.
    pub whole_pod: bool,
}

/// The payload of `ProtocolStep::StartEtcd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StartEtcd {
    /// The runtime of etcd.
    pub runtime: Runtime,
    /// The data directory.
    pub data_dir: AbsPath,
    /// Where the data directory must lead.
    pub on: Authority,
    /// True if the step waits until it runs.
    pub wait: bool,
}

/// The payload of `NodeStep::AwaitMember`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AwaitMember {
    /// Where the member answers.
    pub url: ClientUrl,
    /// How long to wait.
    #[serde(rename = "limit_seconds")]
    pub limit: Span,
    /// True if it may be a learner, which has no vote: it was one before, or did not answer.
    pub may_be_learner: bool,
}

//! Where etcd's data goes: to a LUN of an iSCSI target, or to a local or cloud disk of the machine.
//!
//! Everywhere else both are called the LUN, because nearly everything is the same for both. What only iSCSI has is in the
//! variant `Iscsi`, so no code can ask a disk for it.

use super::{
    parts::{NodeEntry, Target},
    pattern::InitiatorName,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use terms::{DiskLink, Iqn, LunNumber, WantedLun, Wwid};

/// Where etcd's data goes on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backing {
    /// A LUN of a target.
    Iscsi(Box<Iscsi>),
    /// A local or cloud disk.
    Device(Device),
}

/// A LUN of a target, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Iscsi {
    /// The target.
    pub target: Target,
    /// The initiator name of this node.
    pub initiator: Iqn,
    /// Which LUN of the target.
    pub lun: WantedLun,
}

impl Iscsi {
    /// How the LUN is found. Without a number there is a WWID: see `node.lun`.
    pub fn place(&self) -> Place {
        Place::at_target(&self.lun)
    }
}

/// A local or cloud disk of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Device {
    /// The link to it in `/dev/disk`.
    pub path: DiskLink,
}

/// How a node finds its LUN. A number or a link doesn't prove that it is the right LUN: only the WWID does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Place {
    /// By its number at the target.
    Lun(LunNumber),
    /// By its WWID at the target: the config has no number.
    Wwid(Wwid),
    /// By a link in `/dev/disk`.
    Device(DiskLink),
}

impl Place {
    /// By number or WWID at a target.
    pub(super) fn at_target(lun: &WantedLun) -> Self {
        match (lun.number, &lun.wwid) {
            (None, Some(wwid)) => Self::Wwid(wwid.clone()),
            (number, _) => Self::Lun(number.unwrap_or(LunNumber(0))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lun(number) => write!(f, "LUN {number}"),
            Self::Wwid(wwid) => write!(f, "LUN {wwid}"),
            Self::Device(path) => path.fmt(f),
        }
    }
}

impl Backing {
    /// The target and this node's place at it; none for a local or cloud disk.
    pub fn iscsi(&self) -> Option<&Iscsi> {
        match self {
            Self::Iscsi(iscsi) => Some(iscsi),
            Self::Device(_) => None,
        }
    }

    /// How the LUN is found.
    pub fn place(&self) -> Place {
        match self {
            Self::Iscsi(iscsi) => iscsi.place(),
            Self::Device(device) => Place::Device(device.path.clone()),
        }
    }

    /// The parts to examine when the LUN is slow, for messages.
    pub fn storage(&self) -> &'static str {
        match self {
            Self::Iscsi(_) => "the target and the network to it",
            Self::Device(_) => "the disk and who shares it",
        }
    }

    /// Where an administrator has to correct the LUN. A message ends with these words.
    pub fn where_to_fix(&self) -> &'static str {
        match self {
            Self::Iscsi(_) => "at the target",
            Self::Device(_) => "where the disk comes from",
        }
    }
}

/// The part of the storage that all nodes of a pool share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// The targets; at least one. Each entry takes one of them.
    Iscsi(Vec<Target>),
    /// The link to the disk of every node whose entry has no path.
    Device(Option<DiskLink>),
}

impl Storage {
    /// The targets; none for a local or cloud disk.
    pub fn targets(&self) -> &[Target] {
        match self {
            Self::Iscsi(targets) => targets,
            Self::Device(_) => &[],
        }
    }
}

/// The nodes of a pool.
#[derive(Debug, PartialEq, Eq)]
pub enum Nodes {
    /// Each with a LUN of its own; one or more.
    Iscsi(Vec<IscsiNode>),
    /// Each with a disk of its own. A config without entries has one item here, which stands for every node.
    Device(Vec<DeviceNode>),
}

/// A node at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiNode {
    /// The node's target.
    pub target: Target,
    /// The node's entry.
    pub entry: NodeEntry,
    /// The node's initiator name.
    pub initiator: InitiatorName,
    /// The number of the node's LUN; none if its WWID alone names it.
    pub lun: Option<LunNumber>,
}

/// A node with a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// The link to the disk in `/dev/disk`.
    pub path: DiskLink,
    /// The disk's WWID, if the config requires one.
    pub wwid: Option<Wwid>,
}

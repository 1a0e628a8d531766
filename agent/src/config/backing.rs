//! What etcd's data is brought to: a LUN of an iSCSI target, or a disk of the machine's own.
//!
//! Either is called the LUN everywhere else, for nearly everything is the same for both. What only iSCSI has is in its
//! variant, so that nobody asks a disk for it.

use super::{Boot, Config, EtcdWish, HealthWish, LunWish, NodeEntry, Target};
use crate::terms::{DiskLink, Iqn, LunNumber, Wwid};
use serde::{Serialize, Serializer};
use std::fmt;

/// What etcd's data is brought to on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// A LUN of a target.
    Iscsi(Box<Iscsi>),
    /// A local or cloud disk.
    Device(Device),
}

/// A LUN of a target, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iscsi {
    /// The target.
    pub target: Target,
    /// The initiator name of this node.
    pub initiator: Iqn,
    /// The LUN's number at the target.
    pub lun: LunNumber,
}

/// A local or cloud disk of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The link that leads to it.
    pub path: DiskLink,
}

/// What a node's LUN is looked for by. It proves nothing: only the WWID does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// Its number at the target.
    Lun(LunNumber),
    /// A link.
    Device(DiskLink),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lun(number) => write!(f, "LUN {number}"),
            Self::Device(path) => path.fmt(f),
        }
    }
}

impl Backing {
    /// The target's side, where there is a target.
    pub fn iscsi(&self) -> Option<&Iscsi> {
        match self {
            Self::Iscsi(iscsi) => Some(iscsi),
            Self::Device(_) => None,
        }
    }

    /// What the LUN is looked for by.
    pub fn place(&self) -> Place {
        match self {
            Self::Iscsi(iscsi) => Place::Lun(iscsi.lun),
            Self::Device(device) => Place::Device(device.path.clone()),
        }
    }

    /// What may be at fault when it is slow.
    pub fn storage(&self) -> &'static str {
        match self {
            Self::Iscsi(_) => "the target and the network to it",
            Self::Device(_) => "the disk and who shares it",
        }
    }

    /// Where it must be corrected, in words that end a cure.
    pub fn whence(&self) -> &'static str {
        match self {
            Self::Iscsi(_) => "at the target",
            Self::Device(_) => "where the disk comes from",
        }
    }
}

/// What the nodes of a pool share of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// The target.
    Iscsi(Box<Target>),
    /// The link that a node's disk has unless its entry names another.
    Device(Option<DiskLink>),
}

impl Storage {
    /// The target, where there is one.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Iscsi(target) => Some(target),
            Self::Device(_) => None,
        }
    }
}

/// The nodes of a pool.
#[derive(Debug, PartialEq, Eq)]
pub enum Nodes<'a> {
    /// Each with a LUN of its own.
    Iscsi {
        /// The target of all.
        target: &'a Target,
        /// One or more.
        nodes: Vec<IscsiNode>,
    },
    /// Each with a disk of its own. Without entries this is one for all.
    Device(Vec<DeviceNode>),
}

/// A node at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiNode {
    /// Its entry.
    pub entry: NodeEntry,
    /// Its initiator name.
    pub initiator: Iqn,
    /// Its LUN's number.
    pub lun: LunNumber,
}

/// A node with a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// The link that leads to the disk.
    pub path: DiskLink,
    /// The disk's WWID, when the config insists on one.
    pub wwid: Option<Wwid>,
}

/// As a person writes it: the table `target` or `device`, and this node's part of it in `node`.
impl Serialize for Config {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            target: Option<&'a Target>,
            #[serde(skip_serializing_if = "Option::is_none")]
            device: Option<&'a Device>,
            etcd: &'a EtcdWish,
            lun: &'a LunWish,
            boot: &'a Boot,
            health: &'a HealthWish,
            node: WrittenNode<'a>,
        }
        #[derive(Serialize)]
        struct WrittenNode<'a> {
            name: &'a str,
            chosen_by: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            initiator: Option<&'a Iqn>,
            #[serde(skip_serializing_if = "Option::is_none")]
            lun: Option<LunNumber>,
            wwid: Option<&'a Wwid>,
        }
        let Self { backing, etcd, lun, boot, health, node } = self;
        let iscsi = backing.iscsi();
        let device = match backing {
            Backing::Iscsi(_) => None,
            Backing::Device(device) => Some(device),
        };
        let node = WrittenNode {
            name: &node.name,
            chosen_by: &node.chosen_by,
            initiator: iscsi.map(|iscsi| &iscsi.initiator),
            lun: iscsi.map(|iscsi| iscsi.lun),
            wwid: node.wwid.as_ref(),
        };
        let target = iscsi.map(|iscsi| &iscsi.target);
        Written { target, device, etcd, lun, boot, health, node }.serialize(to)
    }
}

//! The node's own side: the data directory, its mount, retired data.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use terms::{Bytes, Fingerprint, Span};

/// The data directory on the local disk, as it is beneath any mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalDir {
    /// There is none.
    Absent,
    /// There is one.
    Present {
        /// Names in it; none if it is empty, or holds only the file that keeps etcd out.
        entries: Vec<String>,
        /// True if it holds only the empty file that keeps etcd out.
        barred: bool,
        /// True if it is immutable; none if the filesystem has no such flag.
        immutable: Option<bool>,
        /// Its fingerprint. It is taken only if the record says that the LUN is authoritative and there is data here all the
        /// same, because that means reading everything.
        fingerprint: Option<Fingerprint>,
        /// True if it is on the same mount as etcd-lun's state directory, so that a rename can retire it.
        with_state: bool,
        /// The size of its data; counted only if the local disk is authoritative.
        #[serde(rename = "size_bytes")]
        size: Option<Bytes>,
    },
}

impl LocalDir {
    /// True if it holds no data, or does not exist.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Present { entries, .. } => entries.is_empty(),
        }
    }

    /// The size of its data, if it was counted.
    pub fn size(&self) -> Option<Bytes> {
        match self {
            Self::Present { size, .. } => *size,
            Self::Absent => None,
        }
    }

    /// True if etcd can neither read old data here nor write new data: the directory holds no data and is immutable.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Present { entries, immutable: Some(true), .. } if entries.is_empty())
    }
}

/// The data that a rollback has staged on the local disk, and the space for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RollbackStaging {
    /// Bytes free on the filesystem of etcd-lun's state directory.
    #[serde(rename = "free_bytes")]
    pub free: Bytes,
    /// The content of the directory where a rollback stages the LUN's data; none if it is empty.
    pub copy: Option<StagedCopy>,
}

/// A copy of the LUN's data, complete or not, that a rollback will put in place of the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StagedCopy {
    /// True if it carries our mark.
    pub ours: bool,
    /// Bytes in it.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// Its fingerprint. It is taken only if the record says that this copy is authoritative, because that means reading
    /// everything.
    pub fingerprint: Option<Fingerprint>,
}

/// Local data that a bar has put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BarredData {
    /// The generation that it becomes, once a person has decided to return to it.
    pub returns_as: Option<u64>,
}

/// Retired data: the local data of an earlier migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Retired {
    /// The name of its directory: the generation that the data became on the LUN.
    pub name: String,
    /// True if it carries our mark for that generation.
    pub ours: bool,
    /// Bytes in it.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// The time since it was retired.
    #[serde(rename = "age_seconds")]
    pub age: Span,
}

/// The mount on the data directory, as PID 1 sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DataMount {
    /// The device number, `major:minor`.
    pub devno: String,
    /// The device, as it was named when it was mounted.
    pub source: String,
    /// The filesystem's type.
    pub fs_type: String,
    /// The options of the mount and of its superblock.
    pub options: Vec<String>,
    /// The number of mounts that are stacked here.
    pub layers: usize,
    /// Bytes free for etcd, and bytes in all.
    #[serde(rename = "space", serialize_with = "space")]
    #[schemars(with = "Option<Space>")]
    pub free: Option<(Bytes, Bytes)>,
    /// Bytes of etcd's database on it; none if they cannot be read.
    #[serde(rename = "database_bytes")]
    pub database: Option<Bytes>,
    /// True if reading its root gave an I/O error: XFS has shut down.
    pub io_error: bool,
    /// The time since its root directory was changed in memory, by the node's clock.
    #[serde(rename = "root_unchanged_seconds")]
    pub root_age: Option<Span>,
}

/// The space of a filesystem.
#[derive(Serialize, JsonSchema)]
struct Space {
    /// Bytes free for etcd.
    free_bytes: Bytes,
    /// Bytes in all.
    size_bytes: Bytes,
}

fn space<S: Serializer>(space: &Option<(Bytes, Bytes)>, to: S) -> Result<S::Ok, S::Error> {
    let space = space.map(|(free, size)| Space { free_bytes: free, size_bytes: size });
    space.serialize(to)
}

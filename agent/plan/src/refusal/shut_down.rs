//! Why etcd stays where it is when the filesystem on the LUN has shut down.

use schemars::JsonSchema;
use serde::Serialize;

/// A refusal while the filesystem on the LUN has shut down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, JsonSchema)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum ShutDownRefusal {
    /// XFS has shut down after an I/O error.
    #[error(
        "the filesystem at {at} has shut down after an I/O error, and etcd cannot use it: make the LUN reachable, then run `etcd-lun apply`, which stops etcd and mounts the filesystem again"
    )]
    ShutDown {
        /// The data directory.
        at: String,
    },
    /// XFS has shut down, and the directory beneath it is not fenced. After an unmount etcd could start on old data there, or
    /// write there.
    #[error(
        "the filesystem at {at} has shut down after an I/O error, and the directory beneath it is not fenced: stop etcd by hand and make sure that it stays stopped, run `systemctl stop {unit}`, then `etcd-lun apply`"
    )]
    Unfenced {
        /// The data directory.
        at: String,
        /// The mount unit.
        unit: String,
    },
}

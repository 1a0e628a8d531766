//! Why a directory is not taken for the place of etcd's newest data.

use schemars::JsonSchema;
use serde::Serialize;
use terms::Span;

/// A refusal because etcd's data may be in another place than the data directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, JsonSchema)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum PlaceRefusal {
    /// Something else names the data directory for a filesystem of its own.
    #[error(
        "{at} is also named by {found}, so etcd's newest data may be on another disk; nothing was moved. If etcd uses that disk, bring its data to {at} on the local disk first; then remove what is named here, and run `etcd-lun apply` again"
    )]
    Claimed {
        /// The data directory.
        at: String,
        /// The units, links, lines and disks.
        found: String,
    },
    /// etcd runs, and its database or its log is in another place than the data directory.
    #[error(
        "etcd ({name}) {found}, and its database and its log must both be below {at}/member; nothing was moved. Set `etcd.data_dir` to etcd's `--data-dir`; if etcd has a `--wal-dir`, stop it, move that directory to {at}/member/wal and remove the option"
    )]
    OtherSource {
        /// Its unit or manifest.
        name: String,
        /// The data directory.
        at: String,
        /// How its files are others.
        found: String,
    },
    /// etcd does not run, and this data may not be what it has used last.
    #[error(
        "the data in {at} was last written {idle} before this boot, so it may not be what etcd has used last; nothing was moved. See whether etcd has its data on another disk or in another directory (`lsblk -f`, etcd's `--data-dir`). If this is its data, start etcd; then run `etcd-lun apply`, or reboot this node"
    )]
    Unused {
        /// The data directory.
        at: String,
        /// How long before this boot.
        #[serde(rename = "idle_seconds")]
        idle: Span,
    },
}

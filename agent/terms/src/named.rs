//! Names of errors. A message begins with its name in brackets, `--json` has it in `name`, and `etcd-lun explain` takes it.
//! It is a property of the error's type. What a message says plays no part: anyone may have written a part of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! names {
    ($($name:ident $text:literal)*) => {
        /// The name of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[expect(missing_docs, reason = "docs/troubleshooting.md has an entry for each name that says more than its message")]
        pub enum ErrorName {
            $(#[serde(rename = $text)] $name,)*
        }

        impl ErrorName {
            /// All names.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name as it is printed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

names! {
    // The command line and the config.
    Usage "usage"
    NotRoot "not-root"
    NoConfig "no-config"
    NoSuchConfig "no-such-config"
    ConfigUnreadable "config-unreadable"
    ConfigSyntax "config-syntax"
    ConfigKeyMissing "config-key-missing"
    ConfigValue "config-value"
    NoNodeEntry "no-node-entry"
    NoSuchNode "no-such-node"
    SeveralNodeEntries "several-node-entries"
    SecretUnusable "secret-unusable"
    // The pool.
    PoolCannotBegin "pool-cannot-begin"
    PoolStopped "pool-stopped"
    PoolNotWhole "pool-not-whole"
    // Runs and tools.
    Interrupted "interrupted"
    AnotherRun "another-run"
    FollowingEnded "following-ended"
    RunKilled "run-killed"
    NeverConverged "never-converged"
    EtcdNotPutBack "etcd-not-put-back"
    ToolNotFound "tool-not-found"
    ToolFailed "tool-failed"
    SystemdFailed "systemd-failed"
    PolicyNotInstalled "policy-not-installed"
    HandsRefused "hands-refused"
    BenchPlace "bench-place"
    // The way to the LUN.
    NoIscsid "no-iscsid"
    NoSession "no-session"
    IscsiadmFailed "iscsiadm-failed"
    TargetNotAnnounced "target-not-announced"
    PortalWithoutAddress "portal-without-address"
    UnknownAlgorithm "unknown-algorithm"
    LunNotShown "lun-not-shown"
    LunUnreadable "lun-unreadable"
    LunReservedForReads "lun-reserved-for-reads"
    DiskNotProcessed "disk-not-processed"
    DeviceAbsent "device-absent"
    PathStays "path-stays"
    NotGrown "not-grown"
    MkfsFailed "mkfs-failed"
    // What has changed since the plan was made.
    LunReplaced "lun-replaced"
    LunGone "lun-gone"
    LunInUseNow "lun-in-use-now"
    LunChanged "lun-changed"
    FormattedByAnother "formatted-by-another"
    LunUsedElsewhere "lun-used-elsewhere"
    RecordChanged "record-changed"
    DataChanged "data-changed"
    EtcdStartedMeanwhile "etcd-started-meanwhile"
    FilesOpen "files-open"
    NotFenced "not-fenced"
    MountChanged "mount-changed"
    // The copy, the local disk and the mount.
    RsyncFailed "rsync-failed"
    BeingWritten "being-written"
    CopyDiffers "copy-differs"
    IoFailed "io-failed"
    StorageLosesWrites "storage-loses-writes"
    NotEmpty "not-empty"
    ExchangeFailed "exchange-failed"
    DataLiesElsewhere "data-lies-elsewhere"
    RecordUnreadable "record-unreadable"
    MountFailed "mount-failed"
    MountNotAccepted "mount-not-accepted"
    MountHeld "mount-held"
    MountedAnewOften "mounted-anew-often"
    // etcd.
    ManifestAbsent "manifest-absent"
    ManifestReturned "manifest-returned"
    PodStillRuns "pod-still-runs"
    EtcdNotStarted "etcd-not-started"
    MemberNotServing "member-not-serving"
    // Every other error.
    Internal "internal"
}

impl ErrorName {
    /// An error with this name.
    pub fn says(self, said: impl fmt::Display) -> NamedError {
        NamedError { name: self, said: said.to_string() }
    }
}

/// An error with this name, and a text as `format!` takes it.
#[macro_export]
macro_rules! named {
    ($name:ident, $($said:tt)+) => { $crate::ErrorName::$name.says(format_args!($($said)+)) };
}

/// Returns an error with this name.
#[macro_export]
macro_rules! fail {
    ($name:ident, $($said:tt)+) => { return Err($crate::named!($name, $($said)+).into()) };
}

/// Returns an error with this name, unless the condition holds.
#[macro_export]
macro_rules! require {
    ($condition:expr, $name:ident, $($said:tt)+) => {
        if !$condition { $crate::fail!($name, $($said)+); }
    };
}

/// An error that has no type of its own.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{said}")]
pub struct NamedError {
    name: ErrorName,
    said: String,
}

/// A type of errors with names.
pub trait Named {
    /// The name of this error. None: its cause may have one.
    fn name(&self) -> Option<ErrorName>;
}

impl Named for NamedError {
    fn name(&self) -> Option<ErrorName> {
        Some(self.name)
    }
}

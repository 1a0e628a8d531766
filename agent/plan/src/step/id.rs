//! A step's name for programs, and whether it is destructive.

use super::{Step, payload::Reserving};

impl Step {
    /// A stable name for the journal and JSON.
    pub fn id(&self) -> &'static str {
        match self {
            Self::SetInitiatorName { .. } => "set-initiator-name",
            Self::LogOut { .. } => "log-out",
            Self::LogIn(_) => "log-in",
            Self::SetTimeout { .. } => "set-timeout",
            Self::DeleteRecord { .. } => "delete-record",
            Self::RemovePath(_) => "remove-path",
            Self::AddPath(_) => "add-path",
            Self::AttachLun(_) => "attach-lun",
            Self::TakeLun(_) => "take-lun",
            Self::AwaitDisk { .. } => "await-disk",
            Self::BeginRecord { .. } => "begin-record",
            Self::Reserve(_) => "reserve",
            Self::ClearUnfinished { .. } => "clear-unfinished",
            Self::Format(_) => "format",
            Self::Stage { .. } => "stage",
            Self::Unstamp => "unstamp",
            Self::PreCopy(_) => "pre-copy",
            Self::CatchUp(_) => "catch-up",
            Self::Preflight(_) => "preflight",
            Self::StopEtcd { .. } => "stop-etcd",
            Self::Copy(_) => "copy",
            Self::Measure { .. } => "measure",
            Self::Prove { .. } => "prove",
            Self::AwaitPodEnd { .. } => "await-pod-end",
            Self::Confirm(_) => "confirm",
            Self::Stamp { .. } => "stamp",
            Self::Commit { .. } => "commit",
            Self::Retire(_) => "retire",
            Self::Fence { .. } => "fence",
            Self::Activate { .. } => "activate",
            Self::TakeBack { .. } => "take-back",
            Self::Bar { .. } => "bar",
            Self::WatchLun(_) => "watch-lun",
            Self::Claim(_) => "claim",
            Self::KeepLocal { .. } => "keep-local",
            Self::Unbar { .. } => "unbar",
            Self::Release { .. } => "release",
            Self::Mark(_) => "mark",
            Self::MountData(_) => "mount-data",
            Self::UnmountData { .. } => "unmount-data",
            Self::UnmountShutDown { .. } => "unmount-shut-down",
            Self::CommitLocal { .. } => "commit-local",
            Self::Return { .. } => "return",
            Self::ResizeMap { .. } => "resize-map",
            Self::Grow(_) => "grow",
            Self::StartEtcd(_) => "start-etcd",
            Self::AwaitMember(_) => "await-member",
        }
    }

    /// Whether it overwrites or moves something that could be missed.
    pub fn is_destructive(&self) -> bool {
        match self {
            // Who had it can write no more.
            Self::Reserve(step) => step.how == Reserving::TakeOver,
            Self::ClearUnfinished { .. }
            | Self::Format(_)
            | Self::Unstamp
            | Self::PreCopy(_)
            | Self::CatchUp(_)
            | Self::Copy(_)
            | Self::Confirm(_)
            | Self::Commit { .. }
            | Self::Retire(_)
            | Self::CommitLocal { .. }
            | Self::Return { .. }
            | Self::TakeBack { .. }
            | Self::Bar { .. }
            | Self::Claim(_)
            | Self::KeepLocal { .. }
            | Self::Unbar { .. } => true,
            Self::SetInitiatorName { .. }
            | Self::LogOut { .. }
            | Self::LogIn(_)
            | Self::SetTimeout { .. }
            | Self::DeleteRecord { .. }
            | Self::RemovePath(_)
            | Self::AddPath(_)
            | Self::AttachLun(_)
            | Self::TakeLun(_)
            | Self::AwaitDisk { .. }
            | Self::BeginRecord { .. }
            | Self::Stage { .. }
            | Self::Preflight(_)
            | Self::StopEtcd { .. }
            | Self::Measure { .. }
            | Self::Prove { .. }
            | Self::AwaitPodEnd { .. }
            | Self::Stamp { .. }
            | Self::Fence { .. }
            | Self::Activate { .. }
            | Self::Release { .. }
            | Self::WatchLun(_)
            | Self::Mark(_)
            | Self::MountData(_)
            | Self::UnmountData { .. }
            | Self::UnmountShutDown { .. }
            | Self::ResizeMap { .. }
            | Self::Grow(_)
            | Self::StartEtcd(_)
            | Self::AwaitMember(_) => false,
        }
    }
}

//! The requests, and their form on the socket: one line of JSON, and one line back.

use crate::terms::{FsLabel, FsUuid};
use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Asks the target of a session for its LUNs.
    Scan {
        /// The session.
        session: u32,
    },
    /// Has the kernel forget a LUN of a session.
    Forget {
        /// The session.
        session: u32,
        /// The LUN, as the kernel writes its address.
        lun: u64,
    },
    /// Sets for how long a session without a connection keeps commands waiting.
    SetTimeout {
        /// The session.
        session: u32,
        /// Seconds.
        seconds: u32,
    },
    /// Has the kernel read a SCSI disk's identity and size again.
    Rescan {
        /// Kernel name.
        disk: String,
    },
    /// Has udev process a disk again.
    Announce {
        /// Kernel name.
        disk: String,
    },
    /// Has the kernel remove a disk of a session to the target, while the system shuts down.
    Remove {
        /// Kernel name.
        disk: String,
    },
    /// Has a multipath map fail what it keeps waiting, while the system shuts down.
    StopQueueing {
        /// Kernel name.
        map: String,
    },
    /// Makes the XFS that the record announces, if the disk is the LUN of the record, and blank.
    Format {
        /// Kernel name.
        disk: String,
        /// The filesystem's UUID.
        uuid: FsUuid,
        /// Its label.
        label: FsLabel,
    },
    /// Clears what an interrupted mkfs has left of the filesystem that the record announces, if the disk is the LUN of the record.
    ClearUnfinished {
        /// Kernel name.
        disk: String,
        /// The UUID of everything that is cleared.
        uuid: FsUuid,
    },
    /// Takes the disk's persistent reservation for this node, if the disk is the LUN of the record, nobody uses it, and no other
    /// computer has the reservation.
    Reserve {
        /// Kernel name.
        disk: String,
    },
    /// Sees that the reservation is this node's still, if the disk is the LUN of the record.
    KeepReservation {
        /// Kernel name.
        disk: String,
    },
    /// Mounts the XFS on a disk, attached nowhere. The answer comes with a handle of the mount.
    Stage {
        /// Kernel name.
        disk: String,
    },
    /// The same without writing anything to the disk.
    Inspect {
        /// Kernel name.
        disk: String,
    },
    /// Moves the manifest of etcd's pod aside.
    Park,
    /// Moves it back.
    PutBack,
    /// Has PID 1 mount the disk on the data directory, if it is the LUN of the record.
    Mount {
        /// Kernel name.
        disk: String,
    },
    /// Has PID 1 unmount the data directory, and mount nothing there.
    Unmount,
    /// Removes the link by which PID 1 would mount a disk.
    Withdraw,
    /// Starts etcd's unit, whose start limit may be reached.
    StartEtcd {
        /// Whether the answer waits until it runs.
        wait: bool,
    },
    /// Starts iscsid, or the socket that starts it.
    StartIscsid,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// It was done.
    Done,
    /// The kernel has refused the mount, or the target the reservation, with this code of `errno(3)`.
    Refused(i32),
    /// It was not done, for this reason.
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_request() {
        for (text, request) in [
            ("\"park\"", Some(Request::Park)),
            ("{\"scan\":{\"session\":3}}\n", Some(Request::Scan { session: 3 })),
            ("{\"start-etcd\":{\"wait\":true}}", Some(Request::StartEtcd { wait: true })),
            ("{\"scan\":{\"session\":-1}}", None),
            ("{\"scan\":{\"session\":3,\"host\":2}}", None),
            ("{\"scan\":{\"session\":\"3\"}}", None),
            ("\"park\"\"park\"", None),
            ("\"run\"", None),
            ("", None),
        ] {
            assert_eq!(serde_json::from_str(text).ok(), request, "{text}");
        }
    }
}

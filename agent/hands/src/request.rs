//! The requests, and their form on the socket: one line of JSON, and one line back.

use host::{Host, systemd::Unit};
use node::layout::{BARRED, BARRED_DATA, RETIRED, RETURNING};
use serde::{Deserialize, Serialize};
use std::{fmt, os::fd::OwnedFd};
use terms::{ErrorName, FsLabel, FsUuid};

/// Who performs requests.
pub trait Privileged: fmt::Debug {
    /// Does what is asked for, after a look at what it is about. A mount comes as a handle, attached nowhere. If the kernel refuses
    /// it, the error is an [`io::Error`](std::io::Error) with the kernel's code.
    fn perform(&self, host: &Host, request: &Request) -> anyhow::Result<(Said, Option<OwnedFd>)>;
}

/// For whom something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requester {
    /// The confined service, whose domain executes storage programs only, and signals nobody.
    Service,
    /// A person.
    Person,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Asks the target of a session for its LUNs.
    Scan {
        /// The session.
        session: u32,
    },
    /// Tells the kernel to forget a LUN of a session.
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
    /// Tells the kernel to read a SCSI disk's identity and size again.
    Rescan {
        /// Kernel name.
        disk: String,
    },
    /// Has udev process a disk again, as a new one: it labels no other.
    Announce {
        /// Kernel name.
        disk: String,
    },
    /// Has the kernel remove a disk of a session to the target, while the system shuts down.
    Remove {
        /// Kernel name.
        disk: String,
    },
    /// Has the kernel remove the disk that is mounted on the data directory, or all paths of the map that is, if it holds another
    /// filesystem than the record's.
    RemoveOther {
        /// Kernel name.
        disk: String,
    },
    /// Makes a multipath map fail what it keeps waiting, while the system shuts down.
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
    /// Mounts the XFS on a disk, attached nowhere. The answer comes with a handle of the mount.
    Stage {
        /// Kernel name.
        disk: String,
    },
    /// Has the filesystem that is mounted from a disk written in its place.
    Settle {
        /// Kernel name.
        disk: String,
    },
    /// Mounts it so that nothing is written to the disk.
    Inspect {
        /// Kernel name.
        disk: String,
    },
    /// Makes a filesystem in memory for iscsiadm's records, attached nowhere. The answer comes with a handle of the mount.
    Records,
    /// Makes the data directory if it is absent.
    MakeDataDir,
    /// Exchanges the data directory for another one of the same filesystem. One of both holds only what keeps etcd out.
    Exchange {
        /// The other one.
        with: Shelf,
    },
    /// Moves the manifest of etcd's pod aside.
    Park,
    /// Moves it back.
    PutBack,
    /// Mounts the disk on the data directory, for all, if it is the LUN of the record.
    Expose {
        /// Kernel name.
        disk: String,
    },
    /// Unmounts the LUN from the data directory.
    TakeBack,
    /// Stops etcd's unit. The service may do it where the LUN's filesystem has shut down: etcd acknowledges nothing there.
    StopEtcd,
    /// Starts etcd's unit, whose start limit may be reached.
    StartEtcd {
        /// True if the answer waits until it runs.
        wait: bool,
    },
    /// Starts iscsid, or the socket that starts it; anew if iscsid runs and a session to the target is not logged in.
    StartIscsid,
    /// Says what PID 1 knows of these units.
    Units(Vec<AskedUnit>),
    /// Says whether the system shuts down.
    IsStopping,
}

/// Where the other directory of an exchange lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Shelf {
    /// Among the retired data, as that of a generation.
    Retired(u64),
    /// As the barred data.
    Barred,
    /// Among the copies of rollbacks, as that of a generation.
    Returning(u64),
}

impl Shelf {
    /// Its path.
    pub fn path(self) -> String {
        match self {
            Self::Retired(generation) => format!("{RETIRED}/{generation}"),
            Self::Barred => format!("{BARRED}/{BARRED_DATA}"),
            Self::Returning(generation) => format!("{RETURNING}/{generation}"),
        }
    }
}

/// A unit whose state is asked for. The request cannot name any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AskedUnit {
    /// etcd's unit, which the hands' unit names.
    Etcd,
    /// One of the list.
    Known(KnownUnit),
}

/// A name of [`KNOWN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KnownUnit(Name);

/// serde would borrow a reference from the request.
type Name = &'static str;

/// The units that the program asks for, on every node: its own, those that start them, and those that it depends on.
/// `state` is an instance of a template that is never started.
const KNOWN: [&str; 23] = [
    "crio.service",
    "etcd-lun-hands.socket",
    "etcd-lun-hands@state.service",
    "etcd-lun-health.service",
    "etcd-lun-health.timer",
    "etcd-lun-iscsid.service",
    "etcd-lun-lost.service",
    "etcd-lun-multipath.service",
    "etcd-lun-path@state.target",
    "etcd-lun-portals.socket",
    "etcd-lun-portals@state.service",
    "etcd-lun-program-fetch.service",
    "etcd-lun-program.service",
    "etcd-lun-selinux.service",
    "etcd-lun-shutdown.service",
    "etcd-lun.service",
    "iscsid.service",
    "iscsid.socket",
    "kubelet-dependencies.target",
    "kubelet.service",
    "multi-user.target",
    "multipathd.service",
    "pacemaker.service",
];

impl KnownUnit {
    /// The unit's name.
    pub fn name(self) -> &'static str {
        self.0
    }
}

impl TryFrom<String> for KnownUnit {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = KNOWN.into_iter().find(|known| *known == name);
        known.map(Self).ok_or_else(|| format!("{name} is none of the units that etcd-lun asks for"))
    }
}

impl From<KnownUnit> for String {
    fn from(unit: KnownUnit) -> Self {
        unit.0.into()
    }
}

/// The answer to a request that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Said {
    /// It was done.
    Done,
    /// The states of the units, in the order of the request.
    Units(Vec<SaidOfUnit>),
    /// True if the system shuts down.
    Stopping(bool),
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum NotDone {
    /// The kernel has refused it with this code of `errno(3)`. Who has asked finds out why.
    Refused(i32),
    /// It was refused or has failed, for this reason.
    Failed(ErrorName, String),
}

/// The answer on the socket.
pub type Answer = Result<Said, NotDone>;

/// The state of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SaidOfUnit {
    /// The name that PID 1 was asked for.
    pub name: String,
    /// The unit, or why its state is unknown.
    pub said: Result<Unit, String>,
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
            ("\"is-stopping\"", Some(Request::IsStopping)),
            (
                "{\"exchange\":{\"with\":{\"retired\":2}}}",
                Some(Request::Exchange { with: Shelf::Retired(2) }),
            ),
            ("{\"exchange\":{\"with\":{\"retired\":\"..\"}}}", None),
            (
                "{\"units\":[\"etcd\",{\"known\":\"kubelet.service\"}]}",
                Some(Request::Units(vec![AskedUnit::Etcd, AskedUnit::Known(KnownUnit("kubelet.service"))])),
            ),
            ("{\"units\":[{\"known\":\"sshd.service\"}]}", None),
            ("{\"units\":[\"kubelet.service\"]}", None),
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

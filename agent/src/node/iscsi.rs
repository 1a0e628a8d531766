//! What open-iscsi and the kernel report: the initiator's name, daemons, sessions.

use super::fact::Fact;
use crate::terms::{Iqn, Portal};
use serde::Serialize;

/// The initiator on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Initiator {
    /// The initiator name in `/etc/iscsi/initiatorname.iscsi`; none if it is not set.
    pub name: Fact<Option<String>>,
    /// Whether iscsid runs.
    pub iscsid_active: Fact<bool>,
    /// Whether multipathd runs.
    pub multipathd_active: Fact<bool>,
}

/// A session to any target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// The session's number.
    pub sid: u32,
    /// The target's name.
    pub target: String,
    /// The portal as open-iscsi's node record names it, `host:port`.
    pub portal: String,
    /// The same portal in the config; none if the config does not list it.
    pub configured: Option<Portal>,
    /// Its state, as the kernel reports it: `LOGGED_IN`, `FAILED`, `FREE`.
    pub state: String,
    /// The initiator name that it was made with.
    pub initiator: Option<String>,
    /// How many seconds I/O waits after the connection is lost before it fails; none: I/O waits for ever.
    pub recovery_timeout: Option<u32>,
    /// The kernel names of this session's disks that are in use: mounted, held or swapped on.
    pub in_use: Vec<String>,
}

impl Session {
    /// True if it leads to this target.
    pub fn is_to(&self, target: &Iqn) -> bool {
        self.target == target.as_str()
    }

    /// True if commands reach the target.
    pub fn is_logged_in(&self) -> bool {
        self.state == "LOGGED_IN"
    }
}

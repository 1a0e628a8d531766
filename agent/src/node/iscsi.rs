//! What open-iscsi says: the initiator's name, sessions to our target, their records.

use super::Fact;
use crate::terms::Portal;
use serde::Serialize;

/// The initiator side of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Initiator {
    /// The name in `/etc/iscsi/initiatorname.iscsi`, if there is one.
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
    /// The portal as the record names it, `host:port`.
    pub portal: String,
    /// Which of the config's portals that is, if any.
    pub configured: Option<Portal>,
    /// The kernel's word: `LOGGED_IN`, `FAILED`, `FREE`.
    pub state: String,
    /// The initiator name that it was made with.
    pub initiator: Option<String>,
    /// For how many seconds without connection it keeps writes waiting; none: for ever.
    pub recovery_timeout: Option<u32>,
    /// Disks of this session that somebody uses (mounted, held or swapped on), by kernel name.
    pub in_use: Vec<String>,
}

impl Session {
    /// Whether commands get through.
    pub fn is_logged_in(&self) -> bool {
        self.state == "LOGGED_IN"
    }
}

//! What open-iscsi and the kernel report: the initiator's name, daemons, sessions.

use super::fact::Fact;
use schemars::JsonSchema;
use serde::Serialize;
use terms::{INTERFACE, Iqn, Portal};

/// The unit of open-iscsi's daemon.
pub const ISCSID: &str = "iscsid.service";
/// The socket that starts it.
pub const ISCSID_SOCKET: &str = "iscsid.socket";

/// The initiator on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Initiator {
    /// The node's own initiator name, in `/etc/iscsi/initiatorname.iscsi`; none if it is not set. Sessions to the config's
    /// target have the config's name instead.
    pub name: Fact<Option<String>>,
    /// Whether multipathd runs.
    pub multipathd_active: Fact<bool>,
}

/// A session to any target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Session {
    /// The session's number.
    pub sid: u32,
    /// The target's name.
    pub target: String,
    /// The portal that it was made for, `host:port`; none during the first log-in.
    pub portal: Option<String>,
    /// The same portal in the config; none if the config does not list it.
    pub configured: Option<Portal>,
    /// Its state, as the kernel reports it: `LOGGED_IN`, `FAILED`, `FREE`.
    pub state: String,
    /// The initiator name that it was made with.
    pub initiator: Option<String>,
    /// The open-iscsi interface that it was made by: `etcd-lun`, or `default` for a session without one.
    pub interface: Option<String>,
    /// How many seconds I/O waits after the connection is lost before it fails; none: I/O waits for ever.
    #[serde(rename = "recovery_timeout_seconds")]
    pub recovery_timeout: Option<u32>,
    /// The kernel names of this session's disks that are in use: mounted, held or swapped on. Of another program's session nobody
    /// has looked.
    pub in_use: Vec<String>,
}

impl Session {
    /// True if it leads to this target and etcd-lun made it, which its interface shows. Another program may have sessions to the
    /// same target, even with the same initiator name, as a machine that boots from a LUN of it has.
    pub fn is_of(&self, target: &Iqn) -> bool {
        self.target == target.as_str() && self.interface.as_deref() == Some(INTERFACE)
    }

    /// True for such a session with another initiator name: the config had that name when etcd-lun made the session.
    pub fn has_former_name(&self, target: &Iqn, initiator: &Iqn) -> bool {
        self.is_of(target) && self.initiator.as_deref().is_some_and(|name| name != initiator.as_str())
    }

    /// Its portal, for a person.
    pub fn at(&self) -> &str {
        self.portal.as_deref().unwrap_or("no connection")
    }

    /// True if commands reach the target.
    pub fn is_logged_in(&self) -> bool {
        self.state == "LOGGED_IN"
    }
}

//! What open-iscsi and the kernel report: the initiator's name, daemons, sessions.

use super::fact::Fact;
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Deref;
use terms::{Iqn, Portal, Session, TargetName};

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
    /// True if multipathd runs.
    pub multipathd_active: Fact<bool>,
}

/// A session to any target, and what of this node depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SeenSession {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// Its portal as the config lists it; none if the config does not list it.
    pub configured: Option<Portal>,
    /// The kernel names of its disks that are in use: mounted, held or swapped on. Of another program's session nobody has looked.
    pub in_use: Vec<String>,
}

impl SeenSession {
    /// True for a session of ours to this target with another initiator name: the config had that name when etcd-lun made the session.
    pub fn has_former_name(&self, target: &TargetName, initiator: &Iqn) -> bool {
        self.is_of(target) && self.initiator.as_deref().is_some_and(|name| name != initiator.as_str())
    }
}

/// Everything that is so of a session is so of one that was seen.
impl Deref for SeenSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

//! A session of this node's initiator, as the kernel shows it.

use super::{
    iscsi::{INTERFACE, Portal},
    target_name::TargetName,
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::{fmt, net::Ipv6Addr};

/// A session to any target, connected or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Session {
    /// The session's number. The kernel doesn't use a number again before the next boot.
    pub sid: u32,
    /// The target's name.
    pub target: String,
    /// The portal that it was made for, `host:port`; none during the first log-in.
    #[schemars(with = "Option<String>")]
    pub portal: Option<Endpoint>,
    /// The address of its connection, which differs from the portal if the target has redirected the log-in; none while there is
    /// no connection.
    #[serde(skip)]
    pub address: Option<Endpoint>,
    /// Its state, as the kernel reports it: `LOGGED_IN`, `FAILED` (iscsid tries to reconnect) or `FREE` (in the first log-in, or the
    /// replacement timeout has passed and I/O fails).
    pub state: String,
    /// The initiator name that it was made with.
    pub initiator: Option<String>,
    /// The open-iscsi interface that it was made by: `etcd-lun`, or `default` for a session without one.
    pub interface: Option<String>,
    /// The seconds that I/O waits after the connection is lost before it fails; none: I/O waits for ever.
    #[serde(rename = "recovery_timeout_seconds")]
    pub recovery_timeout: Option<u32>,
    /// `up`, `bound`, `down` or `failed`. Some kernels don't report it.
    #[serde(skip)]
    pub connection: Option<String>,
    /// The SCSI host.
    #[serde(skip)]
    pub host_no: u32,
    /// The SCSI target on that host; none if the session isn't bound to one, as during a log-out.
    #[serde(skip)]
    pub target_id: Option<u32>,
    /// The target's portal group tag.
    #[serde(skip)]
    pub tpgt: Option<u16>,
}

impl Session {
    /// True if it leads to this target and etcd-lun made it, which its interface shows. Another program may have sessions to the
    /// same target, even with the same initiator name, as a machine that boots from a LUN of it has. What it sees there are other
    /// LUNs.
    pub fn is_of(&self, target: &TargetName) -> bool {
        target.is(&self.target) && self.interface.as_deref() == Some(INTERFACE)
    }

    /// True if it is at this portal of the target, by the name that the portal serves.
    pub fn is_at_portal_of(&self, target: &TargetName, portal: &Portal) -> bool {
        self.target == target.at(portal).as_str() && self.is_at(portal)
    }

    /// True if it was made for this portal, or is connected to its address. A portal's name is compared only with the name in the
    /// session's record.
    pub fn is_at(&self, portal: &Portal) -> bool {
        let ends = [&self.portal, &self.address].into_iter().flatten();
        ends.into_iter().any(|end| end.port == portal.port() && portal.is_host(&end.host))
    }

    /// True if it is connected and accepts I/O, as far as the kernel knows. Only pings detect that a portal no longer answers.
    pub fn is_logged_in(&self) -> bool {
        self.state == "LOGGED_IN"
    }

    /// True if it has lost its connection. I/O waits until iscsid has reconnected it.
    pub fn is_reconnecting(&self) -> bool {
        self.state == "FAILED"
    }

    /// Its portal, for a person.
    pub fn at(&self) -> String {
        self.portal.as_ref().map_or("no connection".into(), ToString::to_string)
    }
}

/// A host and a port, as the kernel prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// An address without brackets, or a name.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl From<&Portal> for Endpoint {
    fn from(portal: &Portal) -> Self {
        Self { host: portal.host(), port: portal.port() }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => write!(f, "[{address}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

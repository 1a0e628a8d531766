//! Starting etcd's unit and iscsid: this process, or for the confined service its [`hands`](hands).

use hands::{Request, ask, is_confined};
use host::{Host, systemd};
use node::{ISCSID, ISCSID_SOCKET};
use std::time::Duration;

/// A large database takes long to open, and a member waits for its peers.
const ETCD_LIMIT: Duration = Duration::from_secs(300);
/// systemd's default limit for the start of a unit is 90 s. iscsid starts almost at once.
const ISCSID_LIMIT: Duration = Duration::from_secs(60);

/// Starts etcd's unit, or queues its start.
pub fn etcd(host: &Host, unit: &str, wait: bool) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::StartEtcd { wait }),
        false => etcd_here(host, unit, wait),
    }
}

/// The same by this process. The unit may have failed at the fence so often that its start limit is reached.
pub fn etcd_here(host: &Host, unit: &str, wait: bool) -> anyhow::Result<()> {
    systemd::reset_failed(host, unit)?;
    match wait {
        true => Ok(systemd::start(host, unit, ETCD_LIMIT)?),
        false => Ok(systemd::queue_start(host, unit)?),
    }
}

/// Starts iscsid's socket, or iscsid itself where it has none.
pub fn iscsid(host: &Host) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::StartIscsid),
        false => iscsid_here(host),
    }
}

/// The same by this process. Either may have failed before the node had an initiator name.
pub fn iscsid_here(host: &Host) -> anyhow::Result<()> {
    let unit = if systemd::unit(host, ISCSID_SOCKET)?.exists() { ISCSID_SOCKET } else { ISCSID };
    for name in [ISCSID, ISCSID_SOCKET] {
        systemd::reset_failed(host, name)?;
    }
    Ok(systemd::start(host, unit, ISCSID_LIMIT)?)
}

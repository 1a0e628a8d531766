//! Requests to the kernel through its files in `/sys`: written by this process, or for the confined service by its
//! [`hands`](hands).

use anyhow::Context as _;
use config::Config;
use hands::{Request, ask, is_confined};
use host::{Host, block, iscsi, multipath};
use std::time::Duration;
use terms::{LunAddress, Session};

/// Asks the target of a session for its LUNs: see [`iscsi::scan`].
pub fn scan(host: &Host, session: &Session) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::Scan { session: session.sid }),
        false => Ok(iscsi::scan(host, session)?),
    }
}

/// Tells the kernel to forget a LUN of a session: see [`block::drop_lun`].
pub fn drop_lun(host: &Host, session: &Session, lun: LunAddress) -> anyhow::Result<()> {
    // A session that ends has none, and its LUNs go with it.
    let Some(target_id) = session.target_id else { return Ok(()) };
    match is_confined(host)? {
        true => ask(host, &Request::Forget { session: session.sid, lun: lun.0 }),
        false => Ok(block::drop_lun(host, session.host_no, target_id, lun)?),
    }
}

/// Sets for how long a session keeps commands waiting: see [`iscsi::set_recovery_timeout`].
pub fn set_recovery_timeout(host: &Host, sid: u32, limit: Duration) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => {
            let seconds = u32::try_from(limit.as_secs()).context("a time-out in seconds")?;
            ask(host, &Request::SetTimeout { session: sid, seconds })
        }
        false => Ok(iscsi::set_recovery_timeout(host, sid, limit)?),
    }
}

/// Tells the kernel to read the identity and size of the LUN's disks again, because it keeps what it read when a disk appeared.
/// Paths that do not answer are left out: the read would block, and nobody can end this process then.
pub fn rescan_lun(host: &Host, config: &Config) -> anyhow::Result<()> {
    locate::answering_disks(host, config)?.iter().try_for_each(|disk| rescan(host, disk))
}

/// The same for one disk.
pub fn rescan(host: &Host, disk: &str) -> anyhow::Result<()> {
    match is_confined(host)? {
        true if block::is_scsi(host, disk)? => ask(host, &Request::Rescan { disk: disk.into() }),
        true => Ok(()),
        false => Ok(block::rescan(host, disk)?),
    }
}

/// Has the kernel remove a disk: see [`block::remove`].
pub fn remove(host: &Host, disk: &str) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::Remove { disk: disk.into() }),
        false => Ok(block::remove(host, disk)?),
    }
}

/// Makes a multipath map fail what it keeps waiting while no path works: see [`multipath::stop_queueing`].
pub fn stop_queueing(host: &Host, map: &block::Holder) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::StopQueueing { map: map.name.clone() }),
        false => {
            let name = map.dm_name.as_ref().with_context(|| format!("{} has no name", map.name))?;
            Ok(multipath::stop_queueing(host, name)?)
        }
    }
}

/// Has udev process a disk again: see [`block::announce_change`].
pub fn announce_change(host: &Host, disk: &str) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::Announce { disk: disk.into() }),
        false => Ok(block::announce_change(host, disk)?),
    }
}

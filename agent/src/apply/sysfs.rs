//! Requests to the kernel through its files in `/sys`: written by this process, or in the service's SELinux domain by a
//! unit of PID 1.

use super::selinux;
use crate::{
    config::Config,
    host::{
        Host, block,
        iscsi::{self, Session},
        multipath, systemd,
    },
    observe,
    terms::LunAddress,
    unit,
};
use anyhow::Context as _;
use std::time::Duration;

/// Longer than the time that the unit has (`TimeoutStartSec=` in `units/etcd-lun-sysfs@.service.in`) and its end after that.
const UNIT_LIMIT: Duration = Duration::from_secs(240);

/// Asks the target of a session for its LUNs: see [`iscsi::scan`].
pub fn scan(host: &Host, session: &Session) -> anyhow::Result<()> {
    match (selinux::is_confined(host)?, session.target_id) {
        (true, Some(target)) => start(host, &format!("scan:{}:{target}", session.host_no)),
        _ => Ok(iscsi::scan(host, session)?),
    }
}

/// Has the kernel forget a LUN of a SCSI target: see [`block::drop_lun`].
pub fn drop_lun(host: &Host, host_no: u32, target_id: u32, lun: LunAddress) -> anyhow::Result<()> {
    match selinux::is_confined(host)? {
        true => start(host, &format!("drop:{host_no}:{target_id}:{lun}")),
        false => Ok(block::drop_lun(host, host_no, target_id, lun)?),
    }
}

/// Sets for how long a session keeps commands waiting: see [`iscsi::set_recovery_timeout`].
pub fn set_recovery_timeout(host: &Host, sid: u32, limit: Duration) -> anyhow::Result<()> {
    match selinux::is_confined(host)? {
        true => start(host, &format!("timeout:{sid}:{}", limit.as_secs())),
        false => Ok(iscsi::set_recovery_timeout(host, sid, limit)?),
    }
}

/// Has the kernel read the identity and size of the LUN's disks again, because it keeps what it read when a disk appeared.
/// Disks without a connection are left out, because the read would block.
pub fn rescan_lun(host: &Host, config: &Config) -> anyhow::Result<()> {
    observe::connected_disks(host, config)?.iter().try_for_each(|disk| rescan(host, disk))
}

/// The same for a LUN in use, whose size may have changed at the target. Paths that do not answer are left out.
pub fn rescan_size(host: &Host, config: &Config) -> anyhow::Result<()> {
    observe::answering_disks(host, config)?.iter().try_for_each(|disk| rescan(host, disk))
}

/// The same for one disk.
pub fn rescan(host: &Host, disk: &str) -> anyhow::Result<()> {
    match selinux::is_confined(host)? {
        true if block::is_scsi(host, disk)? => start(host, &format!("rescan:{disk}")),
        true => Ok(()),
        false => Ok(block::rescan(host, disk)?),
    }
}

/// Has the kernel remove a disk: see [`block::remove`].
pub fn remove(host: &Host, disk: &str) -> anyhow::Result<()> {
    match selinux::is_confined(host)? {
        true => start(host, &format!("remove:{disk}")),
        false => Ok(block::remove(host, disk)?),
    }
}

/// Has a multipath map fail what it keeps waiting while no path works: see [`multipath::stop_queueing`].
pub fn stop_queueing(host: &Host, map: &block::Holder) -> anyhow::Result<()> {
    match (selinux::is_confined(host)?, &map.dm_name) {
        (false, Some(name)) => Ok(multipath::stop_queueing(host, name)?),
        _ => start(host, &format!("fail:{}", map.name)),
    }
}

/// Has udev process a disk again: see [`block::announce_change`].
pub fn announce_change(host: &Host, disk: &str) -> anyhow::Result<()> {
    match selinux::is_confined(host)? {
        true => start(host, &format!("change:{disk}")),
        false => Ok(block::announce_change(host, disk)?),
    }
}

/// Starts the instance of the unit that writes what its name says.
fn start(host: &Host, request: &str) -> anyhow::Result<()> {
    let name = unit::sysfs_service(request);
    systemd::start(host, &name, UNIT_LIMIT).with_context(|| format!("asking the kernel for {request}"))
}

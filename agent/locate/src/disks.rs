//! The disks of the LUN: on the sessions to the target, or behind the device's link.

use std::io;

use config::{Backing, Config, Device, Iscsi};
use host::{Host, block, iscsi};
use terms::{Session, WantedLun};

use crate::{shown::Shown, udev::is_settled};

/// The disk that the link leads to, or the paths of the multipath map that it leads to; none if there is no link.
pub fn disks_of_device(host: &Host, device: &Device) -> io::Result<Vec<String>> {
    let Some(name) = block::led_to(host, device.path.path().as_str())? else { return Ok(Vec::new()) };
    let mut disks = block::paths_of_map(host, &name)?.unwrap_or_else(|| vec![name]);
    disks.sort();
    Ok(disks)
}

/// The disks of a LUN on these sessions.
fn disks_at<'a>(
    host: &Host,
    sessions: impl Iterator<Item = &'a Session>,
    lun: &WantedLun,
) -> io::Result<Vec<String>> {
    sessions.filter_map(|session| disk_of(host, session, lun).transpose()).collect()
}

/// The LUN's disks: one for each path.
pub fn disks(host: &Host, config: &Config) -> io::Result<Vec<String>> {
    match &config.backing {
        Backing::Iscsi(iscsi) => disks_at(host, sessions_of(host, iscsi)?.iter(), &iscsi.lun),
        Backing::Device(device) => disks_of_device(host, device),
    }
}

/// The disk of a LUN on a session; none as long as the kernel has not made it.
pub fn disk_of(host: &Host, session: &Session, lun: &WantedLun) -> io::Result<Option<String>> {
    Ok(Shown::on(host, session)?.chosen(lun)?.and_then(|lun| lun.disk.clone()))
}

/// The sessions to the config's target with the config's initiator name; none if the config names a device.
pub fn sessions_to_target(host: &Host, config: &Config) -> io::Result<Vec<Session>> {
    config.backing.iscsi().map_or(Ok(Vec::new()), |iscsi| sessions_of(host, iscsi))
}

fn sessions_of(host: &Host, of: &Iscsi) -> io::Result<Vec<Session>> {
    iscsi::sessions_of(host, &of.target.iqn)
}

/// The LUN's disks, without those of sessions that have no connection: a read of these would block.
fn connected_disks(host: &Host, config: &Config) -> io::Result<Vec<String>> {
    match &config.backing {
        Backing::Iscsi(iscsi) => {
            let sessions = sessions_of(host, iscsi)?;
            disks_at(host, sessions.iter().filter(|session| session.is_logged_in()), &iscsi.lun)
        }
        Backing::Device(device) => disks_of_device(host, device),
    }
}

/// True if udev has finished with the LUN's disks, and with the multipath map over them.
pub fn are_settled(host: &Host, config: &Config) -> io::Result<bool> {
    for disk in connected_disks(host, config)? {
        if !is_settled(host, &disk)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the disks without those that do not answer: a LUN in use may have fallen silent, and the first reads of a
/// new one may get no answer, though the log-in did. Until udev has finished with a new disk, the kernel may still hold
/// it.
pub fn answering_disks(host: &Host, config: &Config) -> io::Result<Vec<String>> {
    let disks = connected_disks(host, config)?;
    if config.backing.iscsi().is_none() {
        return Ok(disks);
    }
    let mut answering = Vec::new();
    for disk in disks {
        if block::is_running(host, &disk)? && is_settled(host, &disk)? && !block::is_silent(host, &disk)? {
            answering.push(disk);
        }
    }
    Ok(answering)
}

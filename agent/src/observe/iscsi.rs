//! Observes the initiator name, open-iscsi's daemons, sessions, and who uses their disks.

use crate::{
    config::{Config, Iscsi, Target},
    host::{Host, block, iscsi, mountinfo, systemd},
    node::{Fact, Initiator, Session},
};
use std::io;

/// With a local disk open-iscsi is not asked, because it may not be installed.
const NO_TARGET: &str = "not looked at: the config names a device, and no target";

pub(super) fn initiator(host: &Host, config: &Config) -> Initiator {
    if config.backing.iscsi().is_none() {
        return Initiator {
            name: Fact::Unknown(NO_TARGET.into()),
            multipathd_active: Fact::Unknown(NO_TARGET.into()),
        };
    }
    Initiator {
        name: iscsi::initiator_name(host).into(),
        multipathd_active: active(host, "multipathd.service"),
    }
}

fn active(host: &Host, unit: &str) -> Fact<bool> {
    systemd::unit(host, unit).map(|unit| unit.is_active()).into()
}

pub(super) fn all_sessions(host: &Host, config: &Config) -> Fact<Vec<Session>> {
    let Some(Iscsi { target, .. }) = config.backing.iscsi() else { return Fact::Unknown(NO_TARGET.into()) };
    let read = || -> io::Result<Vec<Session>> {
        iscsi::sessions(host)?.iter().map(|session| fact(host, target, session)).collect()
    };
    read().into()
}

fn fact(host: &Host, target: &Target, session: &iscsi::Session) -> io::Result<Session> {
    Ok(Session {
        sid: session.sid,
        target: session.target.clone(),
        portal: session
            .portal
            .as_ref()
            .or(session.address.as_ref())
            .map_or("no connection".into(), ToString::to_string),
        configured: target.portals.iter().find(|portal| session.is_at(portal)).cloned(),
        state: session.state.clone(),
        initiator: session.initiator.clone(),
        interface: session.interface.clone(),
        recovery_timeout: session.recovery_timeout,
        in_use: session_users(host, session)?,
    })
}

/// The disks of a session that are in use: mounted in any mount namespace, swapped on, or held by another device.
pub(crate) fn session_users(host: &Host, session: &iscsi::Session) -> io::Result<Vec<String>> {
    let mut used = Vec::new();
    for name in block::disks_of_host(host, session.host_no)? {
        let Some(disk) = block::disk(host, &name)? else { continue };
        let parts = disk.partitions.iter().filter_map(|part| block::disk(host, part).transpose());
        for part in std::iter::once(Ok(disk.clone())).chain(parts) {
            let part = part?;
            let mounted = !mountinfo::holders_in_any_namespace(host, part.major, part.minor)?.is_empty();
            if mounted || !part.holders.is_empty() || is_swap(host, &part.name)? {
                used.push(name.clone());
                break;
            }
        }
    }
    Ok(used)
}

/// True if the kernel swaps on this disk.
pub(super) fn is_swap(host: &Host, name: &str) -> io::Result<bool> {
    let node = format!("/dev/{name}");
    Ok(mountinfo::swaps(host)?.contains(&node))
}

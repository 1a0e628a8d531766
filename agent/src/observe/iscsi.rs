//! Observes the initiator name, open-iscsi's daemons, sessions, and who uses their disks.

use crate::{
    config::{Config, Iscsi, Target},
    host::{Host, block, iscsi, mountinfo, route, systemd},
    node::{Fact, Initiator, Session},
    terms::Portal,
};
use std::{io, time::Duration};

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

/// How long a portal may take to accept a connection. A live one takes milliseconds.
const CONNECT: Duration = Duration::from_secs(2);

/// The config's portals at which no session of ours is logged in, and which accept a connection. It ends at once; nothing is
/// said.
pub fn answering(host: &Host, config: &Config) -> Vec<Portal> {
    let Some(iscsi) = config.backing.iscsi() else { return Vec::new() };
    let sessions = iscsi::sessions_of(host, &iscsi.target.iqn, &iscsi.initiator).unwrap_or_default();
    let is_up = |portal: &Portal| sessions.iter().any(|one| one.is_logged_in() && one.is_at(portal));
    let without = iscsi.target.portals.iter().filter(|portal| !is_up(portal));
    without.filter(|portal| route::accepts(portal, CONNECT)).cloned().collect()
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

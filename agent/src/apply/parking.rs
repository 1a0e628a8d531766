//! Moves the manifest of a static pod aside and back: itself, or in the service's SELinux domain by units of PID 1.

use super::selinux;
use crate::{
    config::parked,
    host::{
        Host,
        manifest::{self, Places, PutBack},
        systemd,
    },
    terms::AbsPath,
    unit::{PARK_SERVICE, PUT_BACK_SERVICE},
};
use anyhow::{Context as _, bail};
use std::time::Duration;

/// Longer than the time that the units have (`TimeoutStartSec=` in `units/etcd-lun-park.service.in`).
const UNIT_LIMIT: Duration = Duration::from_secs(90);

/// Moves the manifest aside: see [`manifest::park`].
pub fn park(host: &Host, path: &AbsPath) -> anyhow::Result<()> {
    if !selinux::is_confined(host)? {
        return Ok(manifest::park(host, path, &parked(path))?);
    }
    let before = look(host, path)?;
    if before.present {
        if before.parked {
            // The unit never replaces a file. The other one removes what is older than the manifest.
            start(host, PUT_BACK_SERVICE)?;
        }
        start(host, PARK_SERVICE)?;
    }
    match look(host, path)? {
        Places { present: false, parked: true } => Ok(()),
        Places { present: false, parked: false } => bail!("there is no {path}"),
        Places { present: true, .. } => {
            bail!("{PARK_SERVICE} has not moved {path} aside: see `journalctl -u {PARK_SERVICE}`")
        }
    }
}

/// Moves the manifest back: see [`manifest::put_back`].
pub fn put_back(host: &Host, path: &AbsPath) -> anyhow::Result<PutBack> {
    if !selinux::is_confined(host)? {
        return Ok(manifest::put_back(host, path, &parked(path))?);
    }
    let before = look(host, path)?;
    if !before.parked {
        return Ok(PutBack::NotParked);
    }
    start(host, PUT_BACK_SERVICE)?;
    match look(host, path)? {
        Places { present: true, parked: false } if before.present => Ok(PutBack::Newer),
        Places { present: true, parked: false } => Ok(PutBack::Back),
        Places { .. } => {
            bail!("{PUT_BACK_SERVICE} has not put {path} back: see `journalctl -u {PUT_BACK_SERVICE}`")
        }
    }
}

fn look(host: &Host, path: &AbsPath) -> anyhow::Result<Places> {
    Ok(manifest::look(host, path, &parked(path))?)
}

fn start(host: &Host, unit: &str) -> anyhow::Result<()> {
    systemd::start(host, unit, UNIT_LIMIT).context("moving the manifest of etcd's pod")
}

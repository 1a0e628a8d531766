//! The local disk's side: the record, the data directory, retired data, etcd.

use crate::{
    config::{Config, Runtime},
    host::{Host, dir, filelock, inode, manifest, staging, systemd, tree},
    node::{
        Etcd, Fact, KUBELET, LocalDir, POD_SERVES, Retired, Shelf, StagedCopy,
        authority::{Authority, Record},
        layout::{
            BAR, ETCD_STOPPED, RECORD, RETIRED, RETIRED_MARK, RETURNING, RETURNING_MARK, STATE, parked,
        },
    },
    terms::{AbsPath, Bytes, Span},
};
use std::{io, os::fd::OwnedFd};

/// The record; a text that is not of a known form is unknown, never absent.
pub(crate) fn record(host: &Host) -> Fact<Option<Record>> {
    match host.root.read_opt(RECORD) {
        Ok(None) => Fact::Known(None),
        Ok(Some(text)) => match Record::parse(&text) {
            Ok(record) => Fact::Known(Some(record)),
            Err(error) => Fact::Unknown(format!("{RECORD} is {error}")),
        },
        Err(error) => Fact::Unknown(error.to_string()),
    }
}

/// The data directory beneath whatever is mounted on it.
pub(super) fn local_dir(host: &Host, data_dir: &AbsPath, record: Option<&Record>) -> Fact<LocalDir> {
    look(host, data_dir, record).into()
}

fn look(host: &Host, data_dir: &AbsPath, record: Option<&Record>) -> io::Result<LocalDir> {
    let Some(beneath) = inode::beneath(host, data_dir)? else { return Ok(LocalDir::Absent) };
    let entries = if holds_nothing(&beneath)? { Vec::new() } else { dir::names(&beneath)? };
    let immutable = inode::is_immutable(&beneath)?;
    let truth_is_lun = record.is_some_and(|record| record.authority == Authority::Lun);
    let fingerprint = if truth_is_lun && !entries.is_empty() {
        let summary = tree::fingerprint(&beneath, &host.interrupt, &mut |_| {}).map_err(io::Error::other)?;
        Some(summary.fingerprint)
    } else {
        None
    };
    let size = if truth_is_lun { None } else { Some(Bytes(dir::size(&beneath)?)) };
    Ok(LocalDir::Present {
        entries,
        immutable,
        fingerprint,
        with_state: is_with_state(host, data_dir)?,
        size,
    })
}

/// Whether a directory is empty, or has nothing but the bar in it.
fn holds_nothing(dir: &OwnedFd) -> io::Result<bool> {
    Ok(match dir::names(dir)?.as_slice() {
        [] => true,
        [only] => only == BAR && dir::is_empty_file(dir, BAR)?,
        _ => false,
    })
}

/// Whether a rename can move the data directory below our state directory: both parents on one
/// mount. The state directory may not exist yet; then its nearest existing parent counts.
fn is_with_state(host: &Host, data_dir: &AbsPath) -> io::Result<bool> {
    match dir::both_without_mounts(host, &data_dir.parent(), &state_dir(host)?) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Ok(false),
        Err(error) => Err(error),
    }
}

/// The state directory, or its nearest parent that exists.
fn state_dir(host: &Host) -> io::Result<AbsPath> {
    let mut state: AbsPath = STATE.parse().map_err(io::Error::other)?;
    while host.root.list_opt(state.as_path())?.is_none() {
        state = state.parent();
    }
    Ok(state)
}

/// What a rollback has staged for the record's next generation, or for the record's own; and the room.
pub(super) fn shelf(host: &Host, record: Option<&Record>) -> Fact<Shelf> {
    let look = || -> io::Result<Shelf> {
        let state = tree::open(&host.root.locate(state_dir(host)?.as_path()))?;
        let copy = match record.and_then(Record::returning) {
            Some(generation) => {
                staged_copy(host, generation, record.is_some_and(|record| record.rolled_back))?
            }
            None => None,
        };
        Ok(Shelf { free: staging::space(&state)?.free, copy })
    };
    look().into()
}

fn staged_copy(host: &Host, generation: u64, is_truth: bool) -> io::Result<Option<StagedCopy>> {
    let name = generation.to_string();
    let names = host.root.list_opt(RETURNING)?.unwrap_or_default();
    if !names.contains(&name) {
        return Ok(None);
    }
    let copy = dir::open(tree::open(&host.root.locate(RETURNING))?, &name)?;
    // What the copy was exchanged for, left by a run that was cut short there: nothing of etcd's.
    if holds_nothing(&copy)? {
        return Ok(None);
    }
    let read = || tree::fingerprint(&copy, &host.interrupt, &mut |_| {}).map_err(io::Error::other);
    Ok(Some(StagedCopy {
        ours: inode::attribute(&copy, RETURNING_MARK)?.is_some(),
        size: Bytes(dir::size(&copy)?),
        fingerprint: if is_truth { Some(read()?.fingerprint) } else { None },
    }))
}

/// What lies in the directory of retired data.
pub(super) fn retired(host: &Host) -> Fact<Vec<Retired>> {
    let look = || -> io::Result<Vec<Retired>> {
        let Some(names) = host.root.list_opt(RETIRED)? else { return Ok(Vec::new()) };
        let shelf = tree::open(&host.root.locate(RETIRED))?;
        let retired = |name: String| -> io::Result<Retired> {
            let data = dir::open(&shelf, &name)?;
            let mark = inode::attribute(&data, RETIRED_MARK)?;
            Ok(Retired {
                ours: mark.as_deref() == Some(name.as_bytes()),
                size: Bytes(dir::size(&data)?),
                age: Span(dir::changed_ago(&data)?),
                name,
            })
        };
        names.into_iter().map(retired).collect()
    };
    look().into()
}

/// What runs etcd, and who holds its database.
pub(crate) fn etcd(host: &Host, config: &Config) -> Fact<Etcd> {
    let lock_holders = match filelock::holders(host, config.etcd.data_dir.join("member/snap/db").as_path()) {
        Ok(holders) => holders.iter().map(ToString::to_string).collect(),
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    match &config.etcd.runtime {
        Runtime::Systemd { unit } => etcd_of_unit(host, unit, lock_holders),
        Runtime::StaticPod { manifest } => etcd_of_pod(host, manifest, lock_holders),
    }
}

fn etcd_of_unit(host: &Host, name: &str, lock_holders: Vec<String>) -> Fact<Etcd> {
    let unit = match systemd::unit(host, name) {
        Ok(unit) => unit,
        Err(error) => return Fact::from(Err(error)),
    };
    let stopped_by_us = match host.root.read_opt(ETCD_STOPPED) {
        Ok(note) => note.is_some(),
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    let running = is_up_or_on_its_way(&unit);
    Fact::Known(Etcd {
        name: name.to_owned(),
        exists: unit.exists(),
        enabled: unit.unit_file_state.starts_with("enabled"),
        running,
        start_queued: unit.job_pending && !running,
        state: unit.active_state,
        stopped_by_us,
        lock_holders,
    })
}

/// On its way down counts too: what it holds is still held.
fn is_up_or_on_its_way(unit: &systemd::Unit) -> bool {
    !matches!(unit.active_state.as_str(), "inactive" | "failed")
}

/// A static pod runs, or is about to, where its manifest is in place and the kubelet is up. Where the kubelet is down its
/// containers may run on: then one of them holds the database.
fn etcd_of_pod(host: &Host, path: &AbsPath, lock_holders: Vec<String>) -> Fact<Etcd> {
    let places = match manifest::look(host, path, &parked(path)) {
        Ok(places) => places,
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    let kubelet = match systemd::unit(host, KUBELET) {
        Ok(unit) => is_up_or_on_its_way(&unit),
        Err(error) => return Fact::from(Err(error)),
    };
    let state = match (places.present, places.parked) {
        _ if !lock_holders.is_empty() => POD_SERVES,
        (true, _) if kubelet => "starting",
        (true, _) => "waiting for the kubelet",
        (false, true) => "stopped, its manifest parked",
        (false, false) => "absent, without a manifest",
    };
    Fact::Known(Etcd {
        name: path.to_string(),
        // The cluster's operator writes the manifest when this node becomes a member.
        exists: true,
        state: state.to_owned(),
        running: !lock_holders.is_empty() || (places.present && kubelet),
        enabled: places.present,
        start_queued: places.present && !kubelet,
        stopped_by_us: places.parked,
        lock_holders,
    })
}

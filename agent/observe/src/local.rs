//! Observes the local disk: the record, the data directory, retired data, what a rollback has staged.

use hands::looks;
use host::{Host, dir, inode, staging, tree};
use node::{
    BarredData, Fact, LocalDir, Retired, RollbackStaging, StagedCopy,
    authority::{Authority, Record},
    layout::{BARRED, BARRED_DATA, BARRED_MARK, RETIRED, RETIRED_MARK, RETURNING, RETURNING_MARK, STATE},
};
use std::{io, os::fd::OwnedFd};
use terms::{AbsPath, Bytes, Fingerprint, RecordedFingerprint, Span};

/// The record. A text of unknown form makes the fact unknown, never absent.
pub fn record(host: &Host) -> Fact<Option<Record>> {
    match looks::record(host) {
        Ok(record) => Fact::Known(record),
        Err(error) => Fact::Unknown(format!("{error:#}")),
    }
}

/// The data directory beneath all mounts on it.
pub(super) fn local_dir(host: &Host, data_dir: &AbsPath, record: Option<&Record>) -> Fact<LocalDir> {
    read_local_dir(host, data_dir, record).into()
}

fn read_local_dir(host: &Host, data_dir: &AbsPath, record: Option<&Record>) -> io::Result<LocalDir> {
    if let Ok(Some(to)) = host.root.read_link(data_dir.as_path()) {
        let to = host.root.resolve(data_dir.as_path())?.unwrap_or(to);
        let to = to.display();
        return Err(io::Error::other(format!("{data_dir} is a link to {to}: set `etcd.data_dir` to {to}")));
    }
    let Some(beneath) = inode::beneath(host, data_dir)? else { return Ok(LocalDir::Absent) };
    let names = dir::names(&beneath)?;
    let barred = looks::is_barred(&beneath, &names)?;
    let entries = if barred { Vec::new() } else { names };
    let immutable = inode::is_immutable(&beneath)?;
    let lun_is_authoritative = record.is_some_and(|record| record.authority == Authority::Lun);
    let fingerprint = match record {
        Some(record) if lun_is_authoritative && !entries.is_empty() => {
            Some(fingerprint(host, &beneath, record)?)
        }
        _ => None,
    };
    let size = if lun_is_authoritative { None } else { Some(Bytes(dir::size(&beneath)?)) };
    Ok(LocalDir::Present {
        entries,
        barred,
        immutable,
        fingerprint,
        with_state: is_with_state(host, data_dir)?,
        size,
    })
}

/// The tree's fingerprint, of the kind that the record has.
fn fingerprint(host: &Host, root: &OwnedFd, record: &Record) -> io::Result<Fingerprint> {
    let seed = match record.fingerprint {
        Some(RecordedFingerprint::Ours(recorded)) => recorded.seed,
        // It is equal to none.
        Some(RecordedFingerprint::Older(_)) | None => 0,
    };
    let summary = tree::fingerprint(root, seed, &host.interrupt, &mut |_| {}).map_err(io::Error::other)?;
    Ok(summary.fingerprint)
}

/// True if a rename can move the data directory into our state directory: both parents are on one mount. If the state
/// directory does not exist yet, its nearest existing parent counts.
fn is_with_state(host: &Host, data_dir: &AbsPath) -> io::Result<bool> {
    match dir::both_without_mounts(host, &data_dir.parent(), &state_dir(host)?) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Ok(false),
        Err(error) => Err(error),
    }
}

/// The state directory, or its nearest existing parent.
fn state_dir(host: &Host) -> io::Result<AbsPath> {
    let mut state: AbsPath = STATE.parse().map_err(io::Error::other)?;
    while host.root.list_opt(state.as_path())?.is_none() {
        state = state.parent();
    }
    Ok(state)
}

/// Observes the data that a rollback has staged, for the record's next generation or the record's own, and the space
/// for it.
pub(super) fn rollback_staging(host: &Host, record: Option<&Record>) -> Fact<RollbackStaging> {
    let read = || -> io::Result<RollbackStaging> {
        let state = tree::open(&host.root.locate(state_dir(host)?.as_path()))?;
        let copy = match record.and_then(Record::returning) {
            Some(generation) => staged_copy(host, generation, record.filter(|record| record.rolled_back))?,
            None => None,
        };
        Ok(RollbackStaging { free: staging::space(&state)?.free, copy })
    };
    read().into()
}

fn staged_copy(
    host: &Host,
    generation: u64,
    authoritative: Option<&Record>,
) -> io::Result<Option<StagedCopy>> {
    let name = generation.to_string();
    let names = host.root.list_opt(RETURNING)?.unwrap_or_default();
    if !names.contains(&name) {
        return Ok(None);
    }
    let copy = dir::open(tree::open(&host.root.locate(RETURNING))?, &name)?;
    // The fence that the copy was exchanged for, left by a run that was cut short there. It holds no data of etcd.
    let names = dir::names(&copy)?;
    if names.is_empty() || looks::is_barred(&copy, &names)? {
        return Ok(None);
    }
    Ok(Some(StagedCopy {
        ours: inode::attribute(&copy, RETURNING_MARK)?.is_some(),
        size: Bytes(dir::size(&copy)?),
        fingerprint: authoritative.map(|record| fingerprint(host, &copy, record)).transpose()?,
    }))
}

/// The local data that a bar has put aside. A directory without data is what is left of a bar that was cut short, or of one
/// that was opened again.
pub(super) fn barred_data(host: &Host) -> Fact<Option<BarredData>> {
    let read = || -> io::Result<Option<BarredData>> {
        if !host.root.list_opt(BARRED)?.unwrap_or_default().iter().any(|name| name == BARRED_DATA) {
            return Ok(None);
        }
        let data = dir::open(tree::open(&host.root.locate(BARRED))?, BARRED_DATA)?;
        let names = dir::names(&data)?;
        if names.is_empty() || looks::is_barred(&data, &names)? {
            return Ok(None);
        }
        let mark = inode::attribute(&data, BARRED_MARK)?;
        let returns_as = mark.and_then(|mark| String::from_utf8(mark).ok()?.parse().ok());
        Ok(Some(BarredData { returns_as }))
    };
    read().into()
}

/// How long before this boot the data directory's newest file was written; none if there is no file.
pub(super) fn idle(host: &Host, data_dir: &AbsPath) -> Fact<Option<Span>> {
    let read = || -> io::Result<_> {
        let Some(data) = inode::beneath(host, data_dir)? else { return Ok(None) };
        Ok(dir::idle_before_boot(data)?.map(Span))
    };
    read().into()
}

/// The retired data.
pub(super) fn retired(host: &Host) -> Fact<Vec<Retired>> {
    let read = || -> io::Result<Vec<Retired>> {
        let Some(names) = host.root.list_opt(RETIRED)? else { return Ok(Vec::new()) };
        let dir_of_all = tree::open(&host.root.locate(RETIRED))?;
        let retired = |name: String| -> io::Result<Retired> {
            let data = dir::open(&dir_of_all, &name)?;
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
    read().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::Transcript};

    #[test]
    fn a_link_in_place_of_the_data_directory_is_named() {
        let machine = Files::new("linked-data");
        machine.dir("srv/etcd");
        machine.link("../../srv/etcd", "var/lib/etcd");
        let host = Host::fixture(Root::new(&machine.0), Box::new(Transcript::default())).unwrap();
        let seen = local_dir(&host, &"/var/lib/etcd".parse().unwrap(), None);
        let why = seen.require().unwrap_err();
        assert!(why.ends_with("is a link to /srv/etcd: set `etcd.data_dir` to /srv/etcd"), "{why}");
    }
}

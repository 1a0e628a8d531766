//! Looks at what decides whether something may be done: the record, the data directory, the disk. Whoever performs a request makes
//! them right before, and so do the steps of a run.

use anyhow::{Context as _, anyhow};
use host::{
    Host, block, dir,
    mountinfo::{self, Mount},
};
use node::{
    authority::{Authority, FormatError, Record},
    layout::{BAR, RECORD},
};
use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};
use terms::{AbsPath, FsUuid, Wwid, fail, named, require};

/// The record as it is now; none if there is none. A text of unknown form is an error.
pub fn record(host: &Host) -> anyhow::Result<Option<Record>> {
    let Some(text) = host.root.read_ours(RECORD)? else { return Ok(None) };
    Record::parse(&text).map(Some).map_err(|error| match error {
        FormatError::Version { .. } => anyhow!("{RECORD} is {error}"),
        FormatError::Form(_) => anyhow!(
            "{RECORD} is {error}: if this node's data is on its LUN, move that file away (`mv {RECORD} /root/`) and run `etcd-lun claim`"
        ),
    })
}

/// True if a directory with these names holds only the file that keeps etcd out.
pub fn is_barred(dir: &OwnedFd, names: &[String]) -> io::Result<bool> {
    Ok(names == [BAR] && dir::is_empty_file(dir, BAR)?)
}

/// Returns the mount of PID 1 on the data directory, if there is one.
pub fn mounted_on(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Option<Mount>> {
    let mounts = mountinfo::of_pid1(host)?;
    Ok(mounts.into_iter().find(|mount| mount.mount_point == data_dir.as_str()))
}

/// Nothing is mounted on the data directory. `source` is what is.
pub fn nothing_on(data_dir: &AbsPath, source: Option<&str>) -> anyhow::Result<()> {
    match source {
        Some(source) => fail!(MountChanged, "{source} is mounted on {data_dir} now"),
        None => Ok(()),
    }
}

/// The record does not say that the LUN's copy is authoritative, or there is none. `so` is what is not done otherwise.
pub fn says_local(record: Option<&Record>, so: &str) -> anyhow::Result<()> {
    require!(
        record.is_none_or(|record| record.authority == Authority::Local),
        RecordChanged,
        "the record says that the LUN's copy is authoritative: {so}"
    );
    Ok(())
}

/// The record says that the LUN's copy is authoritative.
pub fn says_lun(record: &Record) -> anyhow::Result<()> {
    require!(
        record.authority == Authority::Lun,
        RecordChanged,
        "the record says that the local copy is authoritative"
    );
    Ok(())
}

/// The record names this filesystem.
pub fn names(record: &Record, uuid: &FsUuid) -> anyhow::Result<()> {
    require!(
        record.uuid == *uuid,
        RecordChanged,
        "the record names filesystem {} now, not {uuid}",
        record.uuid
    );
    Ok(())
}

/// The directory is fenced, and nothing is mounted on it. `so` is what is not done otherwise.
pub fn fenced(is_fenced: bool, at: &AbsPath, so: &str) -> anyhow::Result<()> {
    require!(is_fenced, NotFenced, "{at} is not fenced: {so}");
    Ok(())
}

/// The error about a LUN that has lost its filesystem.
pub fn lacks(wwid: &Wwid, uuid: &FsUuid) -> anyhow::Error {
    named!(LunChanged, "LUN {wwid} does not hold filesystem {uuid} any more").into()
}

/// How long somebody may claim the disk: when a program closes a disk that it has written to, as mkfs.xfs does, udev has the kernel
/// read its partition table again, which claims the disk for a moment (udevd, `synthesize_change`: BLKRRPART).
const CLAIMED: Duration = Duration::from_secs(2);

/// No other program has the LUN, which is this disk.
pub fn nobody_has(host: &Host, wwid: &Wwid, disk: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !block::nobody_holds(host, disk)? {
        require!(
            begun.elapsed() < CLAIMED,
            LunInUseNow,
            "LUN {wwid} ({disk}) is in use by another program: see `lsblk` and `lsns -t mnt`"
        );
        host.pause(Duration::from_millis(50)).context("waiting for the LUN to be free")?;
    }
    Ok(())
}

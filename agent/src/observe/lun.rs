//! The LUN: which disk it is, whose, and what it holds.

use super::iscsi::is_swap;
use crate::{
    config::Config,
    host::{
        Host,
        block::{self, Disk},
        dir, inode, iscsi, mountinfo,
        staging::{self, Staging},
    },
    node::{
        Content, Fact, Lun, LunView, Multipath, User,
        authority::{Authority, Stamp},
    },
    plan::STAGING,
    terms::{FsLabel, LunNumber},
};
use std::io;

/// Looks for our LUN on every session to the target, and at what it holds.
pub(crate) fn lun(host: &Host, config: &Config, staged: Option<&Staging>) -> Fact<LunView> {
    view(host, config, staged).into()
}

fn view(host: &Host, config: &Config, staged: Option<&Staging>) -> io::Result<LunView> {
    let sessions: Vec<_> = ours(host, config)?;
    let mut paths = Vec::new();
    let mut reachable = false;
    for session in &sessions {
        if let Some(name) = disk_of(host, session, config.node.lun)?
            && let Some(disk) = block::disk(host, &name)?
        {
            paths.push(disk);
            reachable |= session.is_logged_in();
        }
    }
    paths.sort_by(|one, other| one.name.cmp(&other.name));
    match paths.first().cloned() {
        Some(first) => Ok(LunView::Seen(Box::new(seen(host, config, &paths, first, reachable, staged)?))),
        None if sessions.iter().any(iscsi::Session::is_logged_in) => Ok(LunView::NotAttached),
        None => Ok(LunView::NoSession),
    }
}

/// The disk of a LUN of a session; nothing before the session's target is known to the kernel.
pub(crate) fn disk_of(host: &Host, session: &iscsi::Session, lun: LunNumber) -> io::Result<Option<String>> {
    match session.target_id {
        Some(target) => block::lun_of_session(host, session.host_no, target, lun),
        None => Ok(None),
    }
}

/// Whether udev has finished with a disk, and with the multipath map over it where it wants one.
pub(crate) fn is_settled(host: &Host, name: &str) -> io::Result<bool> {
    let Some(disk) = block::disk(host, name)? else { return Ok(false) };
    if disk.udev.is_none() {
        return Ok(false);
    }
    match block::multipath_of(&disk) {
        Some(map) => Ok(block::disk(host, &map.name)?.is_some_and(|map| map.udev.is_some())),
        None => Ok(!is_claimed(&disk)),
    }
}

/// The sessions to the config's target.
pub(crate) fn ours(host: &Host, config: &Config) -> io::Result<Vec<iscsi::Session>> {
    iscsi::sessions_to(host, &config.target.iqn)
}

/// Has the kernel read identity and size of the LUN's disks anew (`device/rescan`,
/// kernel `drivers/scsi/scsi_sysfs.c`): it keeps what it read when the disk appeared. Not where there is no connection:
/// that would wait for one.
pub(crate) fn lun_rescan(host: &Host, config: &Config) -> io::Result<()> {
    for session in ours(host, config)? {
        if session.is_logged_in()
            && let Some(name) = disk_of(host, &session, config.node.lun)?
        {
            host.root.poke(format!("/sys/class/block/{name}/device/rescan"), "1")?;
        }
    }
    Ok(())
}

fn seen(
    host: &Host,
    config: &Config,
    paths: &[Disk],
    first: Disk,
    reachable: bool,
    staged: Option<&Staging>,
) -> io::Result<Lun> {
    let map = block::multipath_of(&first).map(|holder| holder.name.clone());
    let multipath = match &map {
        Some(_) => Multipath::Mapped,
        None if paths.iter().any(is_claimed) => Multipath::Claimed,
        None => Multipath::Unclaimed,
    };
    let device = match &map {
        Some(name) => block::disk(host, name)?.unwrap_or(first),
        None => first,
    };
    let names: Vec<_> = paths.iter().map(|path| path.name.clone()).collect();
    let holders = paths
        .iter()
        .flat_map(|path| &path.holders)
        .filter(|holder| Some(&holder.name) != map.as_ref())
        .chain(map.iter().flat_map(|_| &device.holders))
        .map(|holder| holder.dm_name.clone().unwrap_or_else(|| holder.name.clone()));
    let content = if reachable {
        content(host, &device, staged)
    } else {
        // A read would hang for the whole of open-iscsi's replacement timeout.
        Fact::Unknown("no session to it is logged in".into())
    };
    Ok(Lun {
        devno: format!("{}:{}", device.major, device.minor),
        multipath,
        wwid: wwid(paths),
        serial: device.serial.clone().or_else(|| paths.iter().find_map(|path| path.serial.clone())),
        size: device.size,
        read_only: device.read_only || paths.iter().any(|path| path.read_only),
        holders: holders.collect(),
        partitions: device.partitions.clone(),
        users: users(host, &device, staged).into(),
        content,
        same_label: same_label(host, &config.lun.label, &device, &names).into(),
        paths: names,
        device: device.name,
    })
}

/// udev marks a path that multipath wants before the map is there (multipath-tools
/// `libmultipath/uevent.h`, 11-dm-mpath.rules).
fn is_claimed(disk: &Disk) -> bool {
    let property = disk.udev.as_ref().and_then(|udev| udev.properties.get("DM_MULTIPATH_DEVICE_PATH"));
    property.is_some_and(|value| value == "1")
}

fn wwid(paths: &[Disk]) -> Fact<crate::terms::Wwid> {
    let mut found: Vec<_> = paths.iter().map(|path| path.wwid.clone()).collect();
    found.dedup();
    match found.as_slice() {
        [Some(wwid)] => Fact::Known(wwid.clone()),
        [None] => Fact::Unknown("the target gives no identifier in VPD page 0x83".into()),
        _ => Fact::Unknown(format!("its paths differ: {found:?}; the portals lead to different LUNs")),
    }
}

fn users(host: &Host, device: &Disk, staged: Option<&Staging>) -> io::Result<Vec<User>> {
    let own = |at: &str| staged.is_some() && at == STAGING;
    let mut users: Vec<_> = mountinfo::holders_in_any_namespace(host, device.major, device.minor)?
        .into_iter()
        .filter(|holder| !(holder.pid == std::process::id() && own(&holder.mount_point)))
        .map(|holder| User { at: holder.mount_point, pid: holder.pid, command: holder.comm })
        .collect();
    if is_swap(host, &device.name)? {
        users.push(User { at: "swap".into(), pid: 1, command: "the kernel".into() });
    }
    Ok(users)
}

fn same_label(host: &Host, label: &FsLabel, device: &Disk, paths: &[String]) -> io::Result<Vec<String>> {
    let carriers = block::devices_with_label(host, label)?.carriers;
    Ok(carriers.into_iter().filter(|name| *name != device.name && !paths.contains(name)).collect())
}

/// Whether udev has seen this label on this device, and the link leads there.
pub(crate) fn carries_label(host: &Host, device: &str, label: &FsLabel) -> io::Result<bool> {
    Ok(label_leads_to(host, label)?.as_deref() == Some(device))
}

/// The kernel name of the device that `/dev/disk/by-label` leads to.
pub(crate) fn label_leads_to(host: &Host, label: &FsLabel) -> io::Result<Option<String>> {
    Ok(block::devices_with_label(host, label)?.link)
}

fn content(host: &Host, device: &Disk, staged: Option<&Staging>) -> Fact<Content> {
    // Only an announced filesystem that is not the truth may be taken for one cut short.
    let record = super::record(host);
    let announced = record
        .known()
        .and_then(Option::as_ref)
        .filter(|record| record.authority == Authority::Local)
        .map(|record| record.uuid);
    let probed = match block::probe(host, &device.name, announced.as_ref()) {
        Ok(content) => content,
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    Fact::Known(match probed {
        block::Content::Blank => Content::Blank,
        block::Content::XfsUnfinished { uuid } => Content::Unfinished { uuid },
        block::Content::Foreign { found } => Content::Foreign { found },
        block::Content::Xfs(superblock) => {
            let (stamp, settled, empty) = stamp(host, device, staged);
            Content::Xfs {
                uuid: superblock.uuid,
                label: superblock.label.parse().ok(),
                stamp,
                settled,
                empty,
            }
        }
    })
}

type StampFacts = (Fact<Option<Stamp>>, bool, Option<bool>);

/// The stamp: through our own staging mount, else by a look that writes nothing.
fn stamp(host: &Host, device: &Disk, staged: Option<&Staging>) -> StampFacts {
    if let Some(staged) = staged {
        let read = || -> io::Result<(Option<Stamp>, bool)> {
            let root = staged.root()?;
            Ok((read_stamp(&root)?, dir::names(&root)?.is_empty()))
        };
        return match read() {
            Ok((stamp, empty)) => (Fact::Known(stamp), true, Some(empty)),
            Err(error) => (Fact::Unknown(error.to_string()), true, None),
        };
    }
    let own = mountinfo::of_pid1(host)
        .map(|mounts| mounts.iter().any(|mount| mount.device == (device.major, device.minor)));
    if own.unwrap_or(true) {
        return (Fact::Unknown("it is mounted; its stamp is read there".into()), false, None);
    }
    let read = || -> io::Result<Option<Stamp>> {
        let node = block::node(&device.name)?;
        read_stamp(staging::inspect(host, node.as_path()).map_err(io::Error::other)?)
    };
    (read().into(), false, None)
}

/// The stamp on a filesystem's root directory.
pub(super) fn read_stamp(root: impl std::os::fd::AsFd) -> io::Result<Option<Stamp>> {
    let Some(bytes) = inode::attribute(root, Stamp::ATTRIBUTE)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    let stamp = Stamp::parse(&text).map_err(|error| io::Error::other(format!("the stamp is {error}")))?;
    Ok(Some(stamp))
}

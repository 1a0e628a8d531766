//! Observes the LUN: which disk it is, who uses it, and what it holds.

use super::{iscsi::is_swap, local::record};
use crate::{
    config::{Backing, Config, Device, Iscsi},
    hands,
    host::{
        Host,
        block::{self, Disk, ShownLun},
        dir, inode, iscsi,
        mountinfo::{self, Everywhere},
        staging::Staging,
    },
    node::{
        Content, Fact, Lun, LunView, Multipath, User,
        authority::{Authority, Stamp},
    },
    terms::{Ambiguous, FsLabel, LunAddress, WantedLun, Wwid},
};
use std::io;

/// Finds the LUN on the sessions to the target, or behind the device's link, and looks at what it holds.
pub(crate) fn lun(host: &Host, config: &Config, staged: Option<&Staging>) -> Fact<LunView> {
    lun_among(host, config, staged, &Everywhere::new(host))
}

/// The same with mounts that were read before.
pub(super) fn lun_among(
    host: &Host,
    config: &Config,
    staged: Option<&Staging>,
    mounts: &Everywhere<'_>,
) -> Fact<LunView> {
    let view = match &config.backing {
        Backing::Iscsi(iscsi) => lun_at_target(host, config, iscsi, staged, mounts),
        Backing::Device(device) => lun_at_link(host, config, device, staged, mounts),
    };
    view.into()
}

fn lun_at_target(
    host: &Host,
    config: &Config,
    iscsi: &Iscsi,
    staged: Option<&Staging>,
    mounts: &Everywhere<'_>,
) -> io::Result<LunView> {
    let sessions = sessions_of(host, iscsi)?;
    let looked_at = |wanted: &WantedLun| lun_on(host, config, &sessions, wanted, staged, mounts);
    let nothing = match sessions.iter().any(iscsi::Session::is_logged_in) {
        true => LunView::NotAttached,
        false => LunView::NoSession,
    };
    if iscsi.lun.listed.is_empty() {
        return Ok(looked_at(&iscsi.lun)?.map_or(nothing, |lun| LunView::Seen(Box::new(lun))));
    }
    let mut seen = Vec::new();
    for wwid in &iscsi.lun.listed {
        seen.extend(looked_at(&WantedLun::named(wwid.clone()))?);
    }
    Ok(if seen.is_empty() { nothing } else { LunView::Listed(seen) })
}

/// One LUN, by all its paths; none if no session has it.
fn lun_on(
    host: &Host,
    config: &Config,
    sessions: &[iscsi::Session],
    wanted: &WantedLun,
    staged: Option<&Staging>,
    mounts: &Everywhere<'_>,
) -> io::Result<Option<Lun>> {
    let mut paths = Vec::new();
    let mut reachable = false;
    for session in sessions {
        if let Some(name) = disk_of(host, session, wanted)?
            && let Some(disk) = block::disk(host, &name)?
        {
            paths.push(disk);
            reachable |= session.is_logged_in();
        }
    }
    paths.sort_by(|one, other| one.name.cmp(&other.name));
    let Some(first) = paths.first().cloned() else { return Ok(None) };
    attached(host, config, &paths, first, reachable, staged, mounts).map(Some)
}

fn lun_at_link(
    host: &Host,
    config: &Config,
    device: &Device,
    staged: Option<&Staging>,
    mounts: &Everywhere<'_>,
) -> io::Result<LunView> {
    // udev is not asked whether it has finished: it starts again after every write to the disk. It makes the links last, so a
    // link is enough.
    let disks = disks_of_device(host, device)?.into_iter().map(|name| block::disk(host, &name));
    let paths: Vec<_> = disks.filter_map(Result::transpose).collect::<io::Result<_>>()?;
    match paths.first().cloned() {
        Some(first) => {
            Ok(LunView::Seen(Box::new(attached(host, config, &paths, first, true, staged, mounts)?)))
        }
        None => Ok(LunView::NotAttached),
    }
}

/// The disk that the link leads to, or the paths of the multipath map that it leads to; none if there is no link.
pub(crate) fn disks_of_device(host: &Host, device: &Device) -> io::Result<Vec<String>> {
    let Some(name) = block::led_to(host, device.path.path().as_str())? else { return Ok(Vec::new()) };
    let mut disks = block::paths_of_map(host, &name)?.unwrap_or_else(|| vec![name]);
    disks.sort();
    Ok(disks)
}

/// The disks of a LUN on these sessions.
fn disks_at<'a>(
    host: &Host,
    sessions: impl Iterator<Item = &'a iscsi::Session>,
    lun: &WantedLun,
) -> io::Result<Vec<String>> {
    let mut disks = Vec::new();
    for session in sessions {
        disks.extend(Shown::on(host, session)?.all(lun)?.into_iter().filter_map(|lun| lun.disk.clone()));
    }
    Ok(disks)
}

/// The LUN's disks: one for each path.
pub(crate) fn disks(host: &Host, config: &Config) -> io::Result<Vec<String>> {
    match &config.backing {
        Backing::Iscsi(iscsi) => disks_at(host, sessions_of(host, iscsi)?.iter(), &iscsi.lun),
        Backing::Device(device) => disks_of_device(host, device),
    }
}

/// The disks of all LUNs that may be meant on a session; none as long as the kernel has not made one of them.
pub(crate) fn disks_on(
    host: &Host,
    session: &iscsi::Session,
    lun: &WantedLun,
) -> io::Result<Option<Vec<String>>> {
    Ok(Shown::on(host, session)?.all(lun)?.into_iter().map(|lun| lun.disk.clone()).collect())
}

/// The disk of a LUN on a session; none as long as the kernel has not made it.
pub(crate) fn disk_of(host: &Host, session: &iscsi::Session, lun: &WantedLun) -> io::Result<Option<String>> {
    Ok(Shown::on(host, session)?.chosen(lun)?.and_then(|lun| lun.disk.clone()))
}

/// How many LUNs a message lists. An array may show hundreds.
const LISTED: usize = 12;

/// The LUNs that the kernel knows of a session.
#[derive(Debug)]
pub(crate) struct Shown {
    target: String,
    pub(crate) luns: Vec<ShownLun>,
}

impl Shown {
    /// Those of a session; none as long as the kernel has not set up the session's target.
    pub(crate) fn on(host: &Host, session: &iscsi::Session) -> io::Result<Self> {
        let luns = match session.target_id {
            Some(target) => block::luns_of(host, session.host_no, target)?,
            None => Vec::new(),
        };
        Ok(Self { target: session.target.clone(), luns })
    }

    /// The LUN that is meant; none if it is not among them, or if it is not known yet which of a list it is. If several fit, that
    /// is an error: nothing shows which one is right.
    pub(crate) fn chosen(&self, wanted: &WantedLun) -> io::Result<Option<&ShownLun>> {
        let at = wanted.choose(&self.names()).map_err(|several| self.ambiguous(wanted, &several))?;
        Ok(at.and_then(|at| self.luns.get(at)))
    }

    /// The same, or all of the list that may be meant.
    pub(crate) fn all(&self, wanted: &WantedLun) -> io::Result<Vec<&ShownLun>> {
        let all = wanted.choose_all(&self.names()).map_err(|several| self.ambiguous(wanted, &several))?;
        Ok(all.into_iter().filter_map(|at| self.luns.get(at)).collect())
    }

    fn names(&self) -> Vec<(LunAddress, Option<Wwid>)> {
        self.luns.iter().map(|lun| (lun.address, lun.wwid.clone())).collect()
    }

    fn ambiguous(&self, wanted: &WantedLun, Ambiguous(several): &Ambiguous) -> io::Error {
        let several = several.iter().filter_map(|at| self.luns.get(*at)).map(ToString::to_string);
        io::Error::other(format!(
            "{} shows {wanted} more than once: {}; set `node.wwid` and `node.lun` so that only one fits",
            self.target,
            several.collect::<Vec<_>>().join(", ")
        ))
    }

    /// All disks, as a list for a message.
    pub(crate) fn list(&self) -> String {
        let disks: Vec<_> = self.luns.iter().filter(|lun| lun.is_disk).map(ToString::to_string).collect();
        let more = match disks.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more, which `etcd-lun luns` lists"),
        };
        let first: Vec<_> = disks.into_iter().take(LISTED).collect();
        if first.is_empty() { "no LUN".into() } else { format!("{}{more}", first.join(", ")) }
    }
}

/// True if udev has finished with a disk, and with its multipath map if it belongs to one.
pub(crate) fn is_settled(host: &Host, name: &str) -> io::Result<bool> {
    let Some(disk) = block::disk(host, name)? else { return Ok(false) };
    if disk.udev.is_none() {
        return Ok(false);
    }
    match block::multipath_of(&disk) {
        Some(map) => Ok(block::disk(host, &map.name)?.is_some_and(|map| is_ready(&map))),
        None => Ok(!is_claimed(&disk)),
    }
}

/// True if a multipath map is over the disk.
pub(crate) fn has_map(host: &Host, name: &str) -> io::Result<bool> {
    Ok(block::disk(host, name)?.is_some_and(|disk| block::multipath_of(&disk).is_some()))
}

/// True if udev has processed a map that has its paths. A map is made in several steps. At the first event it has no paths
/// yet, and udev sets a flag that stops all other rules, also the one that labels it (lvm2, 10-dm.rules).
fn is_ready(map: &Disk) -> bool {
    let is_set = |name, value: &str| {
        map.udev.as_ref().and_then(|udev| udev.properties.get(name)).is_some_and(|found| found == value)
    };
    map.udev.is_some() && !is_set("DM_UDEV_DISABLE_OTHER_RULES_FLAG", "1") && !is_set("DM_SUSPENDED", "1")
}

/// The sessions to the config's target with the config's initiator name; none if the config names a device.
pub(crate) fn sessions_to_target(host: &Host, config: &Config) -> io::Result<Vec<iscsi::Session>> {
    config.backing.iscsi().map_or(Ok(Vec::new()), |iscsi| sessions_of(host, iscsi))
}

fn sessions_of(host: &Host, of: &Iscsi) -> io::Result<Vec<iscsi::Session>> {
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

/// The same, and without those that do not answer: a LUN in use may have fallen silent, and the first reads of a new one may get
/// no answer, though the log-in did. Until udev has finished with a new disk, the kernel may still hold it.
pub(crate) fn answering_disks(host: &Host, config: &Config) -> io::Result<Vec<String>> {
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

fn attached(
    host: &Host,
    config: &Config,
    paths: &[Disk],
    first: Disk,
    reachable: bool,
    staged: Option<&Staging>,
    mounts: &Everywhere<'_>,
) -> io::Result<Lun> {
    // Any path, because one may have been taken out of the map before its session is logged out.
    let map = paths.iter().find_map(block::multipath_of).map(|holder| holder.name.clone());
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
    let users: Fact<Vec<User>> = users(host, &device, staged, mounts).into();
    let silent = is_silent(host, paths)?;
    let content = if !reachable {
        // A read would block for the whole replacement timeout.
        Fact::Unknown("no session to it is logged in".into())
    } else if users.known().is_some_and(|users| !users.is_empty()) {
        Fact::Unknown("it is not read while it is mounted".into())
    } else if silent {
        Fact::Unknown("commands to it wait, and none ends".into())
    } else {
        content(host, config, &device, staged)
    };
    Ok(Lun {
        devno: format!("{}:{}", device.major, device.minor),
        multipath,
        wwid: wwid(&config.backing, paths),
        serial: device.serial.clone().or_else(|| paths.iter().find_map(|path| path.serial.clone())),
        size: device.size,
        path_size: paths.iter().map(|path| path.size).min().unwrap_or(device.size),
        silent,
        read_only: device.read_only || paths.iter().any(|path| path.read_only),
        holders: holders.collect(),
        partitions: device.partitions.clone(),
        users,
        content,
        paths: names,
        device: device.name,
    })
}

/// True if no path answers.
fn is_silent(host: &Host, paths: &[Disk]) -> io::Result<bool> {
    for path in paths {
        if !block::is_silent(host, &path.name)? {
            return Ok(false);
        }
    }
    Ok(!paths.is_empty())
}

/// True if multipath uses the disk. udev marks it before the map exists (multipath-tools `libmultipath/uevent.h`,
/// 11-dm-mpath.rules).
fn is_claimed(disk: &Disk) -> bool {
    let property = disk.udev.as_ref().and_then(|udev| udev.properties.get("DM_MULTIPATH_DEVICE_PATH"));
    property.is_some_and(|value| value == "1")
}

fn wwid(backing: &Backing, paths: &[Disk]) -> Fact<Wwid> {
    let mut found: Vec<_> = paths.iter().map(|path| path.wwid.clone()).collect();
    found.dedup();
    match found.as_slice() {
        [Some(wwid)] => Fact::Known(wwid.clone()),
        [None] => Fact::Unknown(match backing {
            Backing::Iscsi(_) => "the target gives no identifier in VPD page 0x83".into(),
            Backing::Device(device) => format!(
                "the disk at {} has no WWID, and no serial number that a virtio disk could have: name a whole disk, and give it a serial number in the hypervisor",
                device.path
            ),
        }),
        _ => {
            let wwids: Vec<_> = found.iter().map(|wwid| wwid.as_ref().map_or("none", Wwid::as_str)).collect();
            Fact::Unknown(format!(
                "its paths differ: {}; the portals lead to different LUNs",
                wwids.join(", ")
            ))
        }
    }
}

fn users(
    host: &Host,
    device: &Disk,
    staged: Option<&Staging>,
    mounts: &Everywhere<'_>,
) -> io::Result<Vec<User>> {
    let own = |at: &str| staged.is_some_and(|staged| at == staged.place().as_str());
    let mut users: Vec<_> = mounts
        .holders(device.major, device.minor)?
        .into_iter()
        .filter(|holder| !(holder.pid == std::process::id() && own(&holder.mount_point)))
        .map(|holder| User { at: holder.mount_point, pid: holder.pid, command: holder.comm })
        .collect();
    if is_swap(host, &device.name)? {
        users.push(User { at: "swap".into(), pid: 1, command: "the kernel".into() });
    }
    Ok(users)
}

/// True if udev has seen a filesystem with this label on the device.
pub(crate) fn carries_label(host: &Host, device: &str, label: &FsLabel) -> io::Result<bool> {
    let udev = block::disk(host, device)?.and_then(|disk| disk.udev);
    Ok(udev.is_some_and(|udev| udev.properties.get("ID_FS_LABEL").is_some_and(|text| text == label.as_str())))
}

fn content(host: &Host, config: &Config, device: &Disk, staged: Option<&Staging>) -> Fact<Content> {
    // Only a filesystem that the record announced and that is not authoritative can be an interrupted `mkfs.xfs`.
    let record = record(host);
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
            let (stamp, settled, empty) = stamp(host, config, device, staged);
            Content::Xfs {
                uuid: superblock.uuid,
                label: superblock.label.parse().ok(),
                size: superblock.size(),
                stamp,
                settled,
                empty,
            }
        }
    })
}

type StampFacts = (Fact<Option<Stamp>>, bool, Option<bool>);

/// The stamp: read through our staging mount, or else by a mount that writes nothing.
fn stamp(host: &Host, config: &Config, device: &Disk, staged: Option<&Staging>) -> StampFacts {
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
        let like = config.lun.staging_options();
        read_stamp(hands::inspect(host, &device.name, &like).map_err(io::Error::other)?)
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

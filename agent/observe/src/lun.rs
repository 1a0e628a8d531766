//! Observes the LUN: which disk it is, who uses it, and what it holds.

use super::local::record;
use config::{Backing, Config, Device, Iscsi};
use hands::Door;
use host::{
    Host,
    block::{self, Disk},
    dir, inode, iscsi,
    mountinfo::{self, Everywhere},
    staging::Staging,
    xfs::Superblock,
};
use locate::{disk_of, disks_of_device, is_claimed, is_swap};
use node::{
    Content, Fact, Lun, LunView, Multipath, User,
    authority::{Authority, Record, Stamp},
};
use std::{io, time::Duration};
use terms::{Session, WantedLun, Wwid};

/// After this time paths that differ are looked at once more: by then each shows what was being written.
const SETTLES: Duration = Duration::from_millis(500);

/// Finds the LUN on the sessions to the target, or behind the device's link, and looks at what it holds.
pub fn lun(door: &Door<'_>, config: &Config, staged: Option<&Staging>) -> Fact<LunView> {
    let mounts = Everywhere::new(door.host);
    Look { door, config, staged, mounts: &mounts, record: &record(door.host) }.lun()
}

/// The facts that every look at the LUN needs.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) door: &'a Door<'a>,
    pub(super) config: &'a Config,
    /// The staging mount of the LUN, if there is one.
    pub(super) staged: Option<&'a Staging>,
    pub(super) mounts: &'a Everywhere<'a>,
    pub(super) record: &'a Fact<Option<Record>>,
}

impl Look<'_> {
    pub(super) fn lun(self) -> Fact<LunView> {
        let view = match &self.config.backing {
            Backing::Iscsi(iscsi) => self.at_target(iscsi),
            Backing::Device(device) => self.at_link(device),
        };
        view.into()
    }

    fn at_target(self, iscsi: &Iscsi) -> io::Result<LunView> {
        let sessions = iscsi::sessions_of(self.door.host, &iscsi.target.iqn)?;
        let nothing = match sessions.iter().any(Session::is_logged_in) {
            true => LunView::NotAttached,
            false => LunView::NoSession,
        };
        Ok(self.on(&sessions, &iscsi.lun)?.map_or(nothing, |lun| LunView::Seen(Box::new(lun))))
    }

    /// One LUN, by all its paths; none if no session has it. A disk that udev has not labelled yet is not attached yet: another run
    /// may have made it known a moment ago, and SELinux would refuse the read. `attach-lun` waits for udev.
    fn on(self, sessions: &[Session], wanted: &WantedLun) -> io::Result<Option<Lun>> {
        let mut paths = Vec::new();
        let mut portals = Vec::new();
        for session in sessions {
            if let Some(name) = disk_of(self.door.host, session, wanted)?
                && let Some(disk) = block::disk(self.door.host, &name)?
                && disk.udev.is_some()
            {
                if session.is_logged_in() {
                    let portal = session.portal.as_ref().map(|portal| format!(" at {portal}"));
                    portals.push((disk.name.clone(), portal.unwrap_or_default()));
                }
                paths.push(disk);
            }
        }
        paths.sort_by(|one, other| one.name.cmp(&other.name));
        portals.sort();
        let Some(first) = paths.first().cloned() else { return Ok(None) };
        self.attached(&paths, first, &portals).map(Some)
    }

    /// How two of these paths differ in the filesystem's UUID or its stamp, if they do, also a moment later: a stamp that is written
    /// meanwhile differs once.
    fn difference(self, paths: &[(String, String)]) -> Option<String> {
        self.differ_now(paths)?;
        self.door.host.pause(SETTLES).ok()?;
        self.differ_now(paths)
    }

    /// A path that cannot be read, or does not answer, shows nothing.
    fn differ_now(self, paths: &[(String, String)]) -> Option<String> {
        let several = paths.iter().filter(|_| paths.len() > 1);
        let answers = several.filter(|(disk, _)| !block::is_silent(self.door.host, disk).unwrap_or(true));
        let shown = answers.filter_map(|(disk, portal)| {
            let what = match self.read_in_place(disk).ok()? {
                None => match block::probe(self.door.host, disk, None) {
                    Ok(block::Content::Blank) => "nothing".to_owned(),
                    Ok(_) | Err(_) => "no XFS".to_owned(),
                },
                Some((Superblock { uuid, .. }, stamp)) => match stamp {
                    Ok(None) => format!("XFS {uuid} without a stamp"),
                    Ok(Some(stamp)) => format!("XFS {uuid}, stamp {}", stamp.escape_ascii()),
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        format!("XFS {uuid}, where {error}")
                    }
                    Err(_) => return None,
                },
            };
            Some((format!("{disk}{portal}"), what))
        });
        let shown: Vec<_> = shown.collect();
        let (first, what) = shown.first()?;
        let (other, found) = shown.iter().find(|(_, found)| found != what)?;
        Some(format!(
            "two volumes have one WWID: {first} shows {what}, {other} shows {found}; give one of them another WWID (serial number) at its target, or take that portal out of the config and log its session out"
        ))
    }

    fn read_in_place(self, disk: &str) -> io::Result<Option<block::InPlace>> {
        let name = Stamp::ATTRIBUTE.to_string_lossy();
        block::in_place(self.door.host, disk, name.trim_start_matches("trusted."))
    }

    fn at_link(self, device: &Device) -> io::Result<LunView> {
        // udev is not asked whether it has finished: it starts again after every write to the disk. It makes the links last, so a
        // link is enough.
        let disks = disks_of_device(self.door.host, device)?
            .into_iter()
            .map(|name| block::disk(self.door.host, &name));
        let paths: Vec<_> = disks.filter_map(Result::transpose).collect::<io::Result<_>>()?;
        match paths.first().cloned() {
            Some(first) => {
                let all: Vec<_> = paths.iter().map(|path| (path.name.clone(), String::new())).collect();
                Ok(LunView::Seen(Box::new(self.attached(&paths, first, &all)?)))
            }
            None => Ok(LunView::NotAttached),
        }
    }

    /// The LUN with these paths. `answering` are those to which a session is logged in, each with words for its portal.
    fn attached(self, paths: &[Disk], first: Disk, answering: &[(String, String)]) -> io::Result<Lun> {
        // Any path, because one may have been taken out of the map before its session is logged out.
        let map = paths.iter().find_map(block::multipath_of).map(|holder| holder.name.clone());
        let multipath = match &map {
            Some(_) => Multipath::Mapped,
            None if paths.iter().any(is_claimed) => Multipath::Claimed,
            None => Multipath::Unclaimed,
        };
        let device = match &map {
            Some(name) => block::disk(self.door.host, name)?.unwrap_or(first),
            None => first,
        };
        let names: Vec<_> = paths.iter().map(|path| path.name.clone()).collect();
        let holders = paths
            .iter()
            .flat_map(|path| &path.holders)
            .filter(|holder| Some(&holder.name) != map.as_ref())
            .chain(map.iter().flat_map(|_| &device.holders))
            .map(|holder| holder.dm_name.clone().unwrap_or_else(|| holder.name.clone()));
        let users: Fact<Vec<User>> = self.users(&device).into();
        let silent = is_silent(self.door.host, paths)?;
        // One map may lead to two volumes: many targets make a WWID of numbers, and a copy of a volume may keep it.
        let paths_differ = if silent { None } else { self.difference(answering) };
        let content = if answering.is_empty() {
            // A read would block for the whole replacement timeout.
            Fact::Unknown("no session to it is logged in".into())
        } else if silent {
            Fact::Unknown("commands to it wait, and none ends".into())
        } else if let Some(differ) = &paths_differ {
            Fact::Unknown(differ.clone())
        } else if let Some(users) = users.known().filter(|users| !users.is_empty()) {
            match users.iter().any(|user| user.at == self.config.etcd.data_dir.as_str()) {
                true => self.in_place(&device),
                false => Fact::Unknown("it is not read while it is mounted".into()),
            }
        } else {
            self.content(&device)
        };
        Ok(Lun {
            devno: format!("{}:{}", device.major, device.minor),
            multipath,
            wwid: wwid(&self.config.backing, paths),
            serial: device.serial.clone().or_else(|| paths.iter().find_map(|path| path.serial.clone())),
            size: device.size,
            path_size: paths.iter().map(|path| path.size).min().unwrap_or(device.size),
            paths_differ,
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

    fn users(self, device: &Disk) -> io::Result<Vec<User>> {
        let own = |at: &str| self.staged.is_some_and(|staged| at == staged.place().as_str());
        let mut users: Vec<_> = self
            .mounts
            .holders(device.major, device.minor)?
            .into_iter()
            .filter(|holder| !(holder.pid == std::process::id() && own(&holder.mount_point)))
            .map(|holder| User { at: holder.mount_point, pid: holder.pid, command: holder.comm })
            .collect();
        if is_swap(self.door.host, &device.name)? {
            users.push(User { at: "swap".into(), pid: 1, command: "the kernel".into() });
        }
        Ok(users)
    }

    fn content(self, device: &Disk) -> Fact<Content> {
        // Only a filesystem that the record announced and that is not authoritative can be an interrupted `mkfs.xfs`.
        let announced = self
            .record
            .known()
            .and_then(Option::as_ref)
            .filter(|record| record.authority == Authority::Local)
            .map(|record| record.uuid);
        let probed = match block::probe(self.door.host, &device.name, announced.as_ref()) {
            Ok(content) => content,
            Err(error) => return Fact::Unknown(error.to_string()),
        };
        Fact::Known(match probed {
            block::Content::Blank => Content::Blank,
            block::Content::XfsUnfinished { uuid } => Content::Unfinished { uuid },
            block::Content::Foreign { found } => Content::Foreign { found },
            block::Content::Xfs(superblock) => {
                let Stamped { stamp, settled, empty } = self.stamp(device);
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

    /// The content of a LUN that is mounted for etcd, from the device itself: the mount answers from memory.
    fn in_place(self, device: &Disk) -> Fact<Content> {
        Fact::from(self.read_in_place(&device.name).map(|found| match found {
            None => Content::Foreign { found: "no XFS".into() },
            Some((superblock, stamp)) => Content::Xfs {
                uuid: superblock.uuid,
                label: superblock.label.parse().ok(),
                size: superblock.size(),
                stamp: stamp.and_then(|text| text.map(parse_stamp).transpose()).into(),
                settled: false,
                empty: None,
            },
        }))
    }

    /// The stamp: read through our staging mount, or else by a mount that writes nothing.
    fn stamp(self, device: &Disk) -> Stamped {
        if let Some(staged) = self.staged {
            let read = || -> io::Result<(Option<Stamp>, bool)> {
                let root = staged.root()?;
                Ok((read_stamp(&root)?, dir::names(&root)?.is_empty()))
            };
            return match read() {
                Ok((stamp, empty)) => {
                    Stamped { stamp: Fact::Known(stamp), settled: true, empty: Some(empty) }
                }
                Err(error) => Stamped { stamp: Fact::Unknown(error.to_string()), settled: true, empty: None },
            };
        }
        let own = mountinfo::of_pid1(self.door.host)
            .map(|mounts| mounts.iter().any(|mount| mount.device == (device.major, device.minor)));
        if own.unwrap_or(true) {
            let elsewhere = Fact::Unknown("it is mounted; its stamp is read there".into());
            return Stamped { stamp: elsewhere, settled: false, empty: None };
        }
        let read = || -> io::Result<Option<Stamp>> {
            read_stamp(self.door.inspect(&device.name).map_err(io::Error::other)?)
        };
        Stamped { stamp: read().into(), settled: false, empty: None }
    }
}

/// The facts of a filesystem's root directory: the same facts as in [`Content::Xfs`].
struct Stamped {
    stamp: Fact<Option<Stamp>>,
    settled: bool,
    empty: Option<bool>,
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

/// The stamp on a filesystem's root directory.
pub(super) fn read_stamp(root: impl std::os::fd::AsFd) -> io::Result<Option<Stamp>> {
    inode::attribute(root, Stamp::ATTRIBUTE)?.map(parse_stamp).transpose()
}

fn parse_stamp(bytes: Vec<u8>) -> io::Result<Stamp> {
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    Stamp::parse(&text).map_err(|error| io::Error::other(format!("the stamp is {error}")))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test makes a machine of files")]
mod tests {
    use super::*;
    use config::Source;
    use hands::{Direct, Requester};
    use host::{Root, files::Files, transcript::Transcript};

    const TARGET: &str = "iqn.2024-02.com.example:etcd";

    fn seen(machine: &Files) -> LunView {
        let text = format!(
            "[target]\niqn = \"{TARGET}\"\nportals = [\"10.0.0.1\"]\n[etcd]\nruntime = \"systemd\"\n[[node]]\n\
             hostname = \"a\"\ninitiator = \"iqn.1994-05.com.redhat:node\"\nlun = 1\n"
        );
        let source = Source { path: "config.toml".into(), text };
        let config = Config::load(&[source], "0123456789abcdef0123456789abcdef", "a").unwrap();
        let blkid = |disk: &str| format!("blkid -p -o export {}", machine.0.join(disk).display());
        let tools = Transcript::default().on(&blkid("dev/sda"), 0, "TYPE=xfs\nUSAGE=filesystem\n", "").on(
            &blkid("dev/sdb"),
            2,
            "",
            "",
        );
        let host = Host::fixture(Root::new(&machine.0), Box::new(tools)).unwrap();
        let hands = Box::new(Direct::by_hand(&config));
        lun(&Door::to(&host, Requester::Person, hands), &config, None).require().unwrap().clone()
    }

    /// Another run may have asked the target for its LUNs a moment ago.
    #[test]
    fn a_disk_that_udev_has_not_labelled_is_not_attached_yet() {
        let machine = Files::new("unlabelled");
        machine.session(1, TARGET, "etcd-lun");
        machine.lun(1, 1, "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4", "sda");
        machine.disk("sda", "8:0", 1 << 24);
        let (sequence, record) = ("sys/class/block/sda/diskseq", "run/udev/data/b8:0");
        let LunView::Seen(found) = seen(&machine) else { panic!("udev has labelled it") };
        assert_eq!(found.paths, ["sda"]);

        // A later event, such as after each write, takes nothing away.
        machine.put(record, "S:disk/by-diskseq/7\nI:1\nE:ID_PROCESSING=1\n");
        assert!(matches!(seen(&machine), LunView::Seen(_)));

        // No rule has run yet.
        machine.put(record, "E:ID_PROCESSING=1\n");
        assert_eq!(seen(&machine), LunView::NotAttached);

        // udev has not yet forgotten the disk that had this number before.
        machine.put(record, "S:disk/by-diskseq/7\nI:1\n");
        machine.put(sequence, "8\n");
        assert_eq!(seen(&machine), LunView::NotAttached);

        // An older systemd makes no such link, and an older kernel does not count disks.
        machine.put(record, "I:1\n");
        assert!(matches!(seen(&machine), LunView::Seen(_)));
    }

    /// The mount answers from memory, so what the device has is read from the device; a disk that does not answer is not read.
    #[test]
    fn a_lun_that_is_mounted_for_etcd_is_read_from_its_device() {
        let machine = Files::new("in-place");
        machine.session(1, TARGET, "etcd-lun");
        machine.lun(1, 1, "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4", "sda");
        machine.disk("sda", "8:0", 1 << 24);
        machine.put("dev/sda", &"\0".repeat(1 << 20));
        let content = |at: &str, waiting: u32| {
            machine.process(1, &format!("36 25 8:0 / {at} rw - xfs /dev/sda rw\n"));
            machine.put("sys/class/block/sda/stat", &format!("1 0 0 0 1 0 0 0 {waiting} 0 0\n"));
            let LunView::Seen(found) = seen(&machine) else { panic!("it is attached") };
            found.content
        };
        assert_eq!(content("/var/lib/etcd", 0), Fact::Known(Content::Foreign { found: "no XFS".into() }));
        assert!(content("/mnt", 0).require().unwrap_err().contains("while it is mounted"));
        assert!(content("/var/lib/etcd", 1).require().unwrap_err().contains("none ends"));
    }

    /// One WWID, two volumes: multipathd makes one map of both.
    #[test]
    fn paths_that_show_two_volumes_are_no_lun() {
        let machine = Files::new("two-volumes");
        for (sid, disk) in [(1, "sda"), (2, "sdb")] {
            machine.session(sid, TARGET, "etcd-lun");
            machine.lun(sid, 1, "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4", disk);
            machine.disk(disk, &format!("8:{sid}"), 1 << 11);
        }
        let volume = |uuid: u8| {
            let mut bytes = vec![0; 1 << 20];
            for (at, field) in [
                (0, &b"XFSB\0\0\x10\0\0\0\0\0\0\0\0\x10"[..]),
                (32, &[uuid; 16]),
                (84, &[0, 0, 0, 16, 0, 0, 0, 1]),
                (100, &[0, 5, 2, 0, 2, 0]),
            ] {
                bytes[at..at + field.len()].copy_from_slice(field);
            }
            String::from_utf8(bytes).unwrap()
        };
        let differs = |other: &str| {
            machine.put("dev/sda", &volume(1));
            machine.put("dev/sdb", other);
            let LunView::Seen(found) = seen(&machine) else { panic!("it is attached") };
            found
                .content
                .require()
                .is_err_and(|why| why.contains("two volumes have one WWID: sda shows XFS 0101"))
        };
        assert!(differs(&volume(2)));
        assert!(differs(&"\0".repeat(1 << 20)));
        assert!(!differs(&volume(1)));
        // A path that cannot be read shows nothing.
        assert!(!differs(""));
        // A map that etcd uses.
        machine.process(1, "36 25 8:1 / /var/lib/etcd rw - xfs /dev/sda rw\n");
        assert!(differs(&volume(2)) && !differs(&volume(1)));
    }
}

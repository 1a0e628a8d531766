//! The database of open-iscsi's that this process's iscsiadm has of its own.
//!
//! It is a filesystem in memory, and is mounted over the node's database in this process's mount namespace only, the lock included.
//! So nothing is left to clean up, every other program sees what it saw before, no secret is ever on a disk, and no link that
//! iscsiadm makes is where another program follows it.
//!
//! `ifaces` has the interface that gives our sessions an initiator name of their own. An interface is a file
//! `ifaces/NAME`. iscsiadm copies its values into each node record that is made for it, and discovers with its initiator
//! name (open-iscsi README, sections 5.1.1 and 5.1.3). No other program may see our file. Without `-I`, iscsiadm binds
//! every target that it discovers to all interfaces of transport `tcp` that it finds there, instead of to `default`
//! (`idbm_bind_ifaces_to_nodes`, usr/idbm.c). A CSI driver that discovers its own target would then log in with our name.
//!
//! `nodes` has the node record of a log-in, with its CHAP secrets, and `static` a link to it. Only the log-in needs it:
//! iscsid gets a copy (`iscsid.c`, `mgmt_ipc_session_login`), and an iscsid that was restarted takes what the kernel has
//! (usr/iscsid.c, `sync_session`). With a record that others see, others end or change our session ([`super::recorded`] says how).
//!
//! `send_targets` has the record of a discovery, with its CHAP secrets.

use super::database::DATABASES;
use crate::{Host, namespace, root::at};
use rustix::{
    fd::OwnedFd,
    fs::CWD,
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
};
use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};
use terms::{AbsPath, INTERFACE, Iqn};

/// The interfaces.
const IFACES: &str = "ifaces";
/// The node records, iscsiadm's links to those that discovery did not find, and the records of discoveries.
const RECORDS: [&str; 3] = ["nodes", "static", "send_targets"];
/// The directories of a database.
const PARTS: [&str; 4] = [RECORDS[0], RECORDS[1], RECORDS[2], IFACES];
/// Where open-iscsi has the lock of its database (`LOCK_DIR`, usr/initiator.h), which has the name `iscsi` here.
const LOCKS: &str = "/run/lock";
/// Our directory in its place.
const LOCK: &str = "lock";

/// Gives every iscsiadm that this process runs a database of its own, with our interface, which has this initiator name. `make` makes
/// a filesystem in memory, which is mounted at `place`. The process must be in a mount namespace of its own, whose mounts don't
/// propagate.
pub fn use_own_database(
    host: &Host,
    place: &AbsPath,
    initiator: &Iqn,
    make: impl FnOnce() -> io::Result<OwnedFd>,
) -> io::Result<()> {
    if namespace::is_in_namespace_of_pid1(host)? {
        return Err(io::Error::other("this process is not in a mount namespace of its own"));
    }
    host.root.make_dir(place.as_path(), 0o700)?;
    let ours = host.root.locate(place.as_path());
    if metadata(&ours)?.dev() == metadata(&host.root.locate(place.parent().as_path()))?.dev() {
        mount_on(&make()?, &ours)?;
    }
    for name in PARTS.into_iter().chain([LOCK]) {
        host.root.make_dir(place.join(name).as_path(), 0o700)?;
    }
    write_interface(&ours, initiator)?;
    for (name, onto) in databases(host)? {
        cover(&ours.join(name), &host.root.locate(onto.as_path()))?;
    }
    cover(&ours.join(LOCK), &host.root.locate(LOCKS))
}

/// Writes our interface, with this initiator name, into the node's database, which is of this process only, and empty.
pub fn fill_database(host: &Host, initiator: &Iqn) -> io::Result<()> {
    for database in DATABASES {
        host.root.make_dir(format!("{database}/{IFACES}"), 0o700)?;
        write_interface(&host.root.locate(database), initiator)?;
    }
    Ok(())
}

/// Removes the records of this process's log-ins and discoveries.
pub fn drop_own_records(host: &Host, place: &AbsPath) -> io::Result<()> {
    for name in RECORDS {
        let dir = place.join(name);
        for name in host.root.list_opt(dir.as_path())?.unwrap_or_default() {
            let path = host.root.locate(dir.as_path()).join(name);
            let is_dir = fs::symlink_metadata(&path)?.is_dir();
            let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(|error| at(&path, &error))?;
        }
    }
    Ok(())
}

/// Mounts our directory over one that iscsiadm may use, unless an earlier log-in of this run has done it.
fn cover(ours: &Path, onto: &Path) -> io::Result<()> {
    let (one, other) = (metadata(ours)?, metadata(onto)?);
    if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Ok(());
    }
    mount_on(&open_tree(CWD, ours, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?, onto)
}

// Not mount(2), by which a filesystem could be mounted too: the service may not call it.
fn mount_on(mount: &OwnedFd, onto: &Path) -> io::Result<()> {
    let done = move_mount(mount, "", CWD, onto, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
    done.map_err(|errno| {
        io::Error::other(format!("mounting open-iscsi's records on {}: {errno}", onto.display()))
    })
}

fn metadata(path: &Path) -> io::Result<fs::Metadata> {
    fs::metadata(path).map_err(|error| at(path, &error))
}

fn write_interface(database: &Path, initiator: &Iqn) -> io::Result<()> {
    fs::write(database.join(IFACES).join(INTERFACE), text(initiator))
}

fn text(initiator: &Iqn) -> String {
    format!(
        "# BEGIN RECORD\niface.iscsi_ifacename = {INTERFACE}\niface.transport_name = tcp\n\
         iface.initiatorname = {initiator}\n# END RECORD\n"
    )
}

/// What is covered, and by which of our directories. Nothing shows which database iscsiadm uses, so those of all. Where open-iscsi
/// has none yet, this makes the usual one, and as far as it may the other. `/etc/iscsi` alone shows nothing, because every
/// open-iscsi has its config there; its interfaces or records do.
fn databases(host: &Host) -> io::Result<Vec<(&'static str, AbsPath)>> {
    let parsed = |text: &str| text.parse::<AbsPath>().map_err(io::Error::other);
    let (usual, other) = (parsed(DATABASES[0])?, parsed(DATABASES[1])?);
    let exists = |path: &AbsPath| host.root.mode(path.as_path()).map(|mode| mode.is_some());
    let parts = PARTS.map(|part| (part, other.join(part)));
    let mut is_used = false;
    for (_, path) in &parts {
        is_used |= exists(path)?;
    }
    let is_new = !is_used && !exists(&usual)?;
    if is_new {
        host.root.make_dir(usual.as_path(), 0o700)?;
    }
    let mut found = Vec::new();
    if exists(&usual)? {
        found.push(("", usual));
    }
    if is_used || is_new && exists(&other)? {
        for (part, path) in parts {
            match host.root.make_dir(path.as_path(), 0o700) {
                // The confined service may make no directory there. Where it is confined, the usual database is the right one.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_new => {}
                done => {
                    done?;
                    found.push((part, path));
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::tests::Fixture;

    #[test]
    fn text_of_the_interface() {
        let text = text(&"iqn.1994-05.com.redhat:master0".parse().unwrap());
        assert!(text.contains("\niface.initiatorname = iqn.1994-05.com.redhat:master0\n"), "{text}");
    }

    #[test]
    fn directories_of_the_database() {
        let shown = |host: &Host| -> Vec<String> {
            databases(host).unwrap().iter().map(|(_, path)| path.to_string()).collect()
        };
        let parts = PARTS.map(|part| format!("/etc/iscsi/{part}"));
        let usual = || vec!["/var/lib/iscsi".to_owned()];
        let fixture = Fixture::new("places-none");
        assert_eq!(shown(&fixture.host), usual());
        // RHEL and Debian from 13 on: the config is in /etc, the database in /var.
        let fixture = Fixture::new("places-rhel");
        fixture.file("/etc/iscsi/iscsid.conf", "");
        fs::create_dir_all(fixture.host.root.locate("/var/lib/iscsi")).unwrap();
        assert_eq!(shown(&fixture.host), usual());
        // Debian before 13, before the first use. Its iscsiadm knows no interface of another directory.
        let fixture = Fixture::new("places-debian-unused");
        fixture.file("/etc/iscsi/iscsid.conf", "");
        assert_eq!(shown(&fixture.host), [usual(), parts.to_vec()].concat());
        // Debian before 13, with one of the directories only.
        for used in ["ifaces/iface.example", "nodes/iqn.2024-02.com.example:other/10.0.0.1,3260"] {
            let fixture = Fixture::new("places-debian");
            fixture.file(&format!("/etc/iscsi/{used}"), "");
            assert_eq!(shown(&fixture.host), parts);
        }
    }

    #[test]
    fn records_of_log_ins_are_dropped_and_nothing_else() {
        let fixture = Fixture::new("drop");
        let (host, place) = (&fixture.host, "/run/etcd-lun/iscsi".parse().unwrap());
        drop_own_records(host, &place).unwrap();
        fixture.file(
            "/run/etcd-lun/iscsi/nodes/iqn.2024-02.com.example:etcd/10.0.0.1,3260,1/etcd-lun",
            "secret",
        );
        fixture.file("/run/etcd-lun/iscsi/send_targets/10.0.0.1,3260/st_config", "secret");
        fs::create_dir_all(host.root.locate("/run/etcd-lun/iscsi/static")).unwrap();
        std::os::unix::fs::symlink("nowhere", host.root.locate("/run/etcd-lun/iscsi/static/link")).unwrap();
        fixture.file("/run/etcd-lun/iscsi/ifaces/etcd-lun", "");
        drop_own_records(host, &place).unwrap();
        for name in RECORDS {
            assert_eq!(host.root.list(place.join(name).as_path()).unwrap(), [""; 0]);
        }
        assert_eq!(host.root.list("/run/etcd-lun/iscsi/ifaces").unwrap().len(), 1);
    }

    #[test]
    fn never_in_the_namespace_of_others() {
        let fixture = Fixture::new("interface-pid1");
        let host = &fixture.host;
        for namespace in ["/proc/thread-self/ns/mnt", "/proc/1/ns/mnt"] {
            let path = host.root.locate(namespace);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("mnt:[1]", path).unwrap();
        }
        let (place, initiator) = ("/run/etcd-lun/iscsi".parse().unwrap(), "iqn.1994-05.com.redhat:master0");
        let make = || panic!("nothing is made for it");
        let error = use_own_database(host, &place, &initiator.parse().unwrap(), make).unwrap_err();
        assert!(error.to_string().contains("mount namespace of its own"), "{error}");
    }
}

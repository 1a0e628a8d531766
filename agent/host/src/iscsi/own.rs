//! The directories of open-iscsi's database that this process's iscsiadm has of its own.
//!
//! Each is in a directory below `/run` that the caller names, and is mounted over the one of the database in this process's mount namespace only. So nothing is
//! left to clean up, every other program sees what it saw before, and nothing of it is ever on a disk.
//!
//! `ifaces` has the interface that gives our sessions an initiator name of their own. An interface is a file
//! `ifaces/NAME`. iscsiadm copies its values into each node record that is made for it, and discovers with its initiator
//! name (open-iscsi README, sections 5.1.1 and 5.1.3). No other program may see our file. Without `-I`, iscsiadm binds
//! every target that it discovers to all interfaces of transport `tcp` that it finds there, instead of to `default`
//! (`idbm_bind_ifaces_to_nodes`, usr/idbm.c). A CSI driver that discovers its own target would then log in with our name.
//!
//! `nodes` has the node record of a log-in, with its CHAP secrets, and `static` a link to it. Only the log-in needs it:
//! iscsid gets a copy (`iscsid.c`, `mgmt_ipc_session_login`). With a record that others see, others end or change our
//! session ([`super::leftover`] says how).
//!
//! `send_targets` has the record of a discovery, with its CHAP secrets. So a run that is killed meanwhile leaves none on a disk, and
//! a record of others for the same portal is neither used nor changed.

use super::{
    database::DATABASES,
    leftover::{delete_discoveries, delete_records, recorded},
};
use crate::{Host, namespace, root::absent_is_none, root::at};
use rustix::{
    fs::CWD,
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
};
use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};
use terms::{AbsPath, Chap, INTERFACE, Iqn, Portal};

/// The interfaces.
const IFACES: &str = "ifaces";
/// The node records, iscsiadm's links to those that discovery did not find, and the records of discoveries.
const RECORDS: [&str; 3] = ["nodes", "static", "send_targets"];

/// Makes our interface, with this initiator name, for every iscsiadm that this process runs. The process must be in a
/// mount namespace of its own, whose mounts don't propagate.
pub fn use_interface(host: &Host, ours: &str, initiator: &Iqn) -> io::Result<()> {
    check_namespace(host)?;
    write(host, ours, initiator)?;
    cover(host, ours, IFACES)
}

/// Has every iscsiadm that this process runs keep its records where no other program sees them. First deletes our records of
/// the target that an earlier release left in the database of all, and those of discoveries at these portals with these
/// credentials. The process must be in a mount namespace of its own, whose mounts don't propagate.
pub fn use_own_records(
    host: &Host,
    ours: &str,
    target: &Iqn,
    settings: &[(&str, &str)],
    (portals, discovery): (&[Portal], Option<&Chap>),
) -> io::Result<()> {
    check_namespace(host)?;
    delete_records(host, target, settings)?;
    delete_discoveries(host, target, portals, discovery)?;
    for name in RECORDS {
        host.root.make_dir(format!("{ours}/{name}"), 0o700)?;
        cover(host, ours, name)?;
    }
    drop_own_records(host, ours)?;
    match recorded(host, target)?.as_slice() {
        [] => Ok(()),
        [portal, ..] => Err(io::Error::other(format!("the record of {portal} is still there"))),
    }
}

/// Removes the records of this process's log-ins and discoveries, and those that a killed run left.
pub fn drop_own_records(host: &Host, ours: &str) -> io::Result<()> {
    for name in RECORDS {
        let dir = format!("{ours}/{name}");
        for name in host.root.list_opt(&dir)?.unwrap_or_default() {
            let path = host.root.locate(&dir).join(name);
            let is_dir = absent_is_none(fs::symlink_metadata(&path))?.is_some_and(|found| found.is_dir());
            let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            absent_is_none(removed).map_err(|error| at(&path, &error))?;
        }
    }
    Ok(())
}

fn check_namespace(host: &Host) -> io::Result<()> {
    if namespace::is_in_namespace_of_pid1(host)? {
        return Err(io::Error::other("this process is not in a mount namespace of its own"));
    }
    Ok(())
}

/// Mounts our directory of this name over each that iscsiadm may use.
fn cover(host: &Host, directory: &str, name: &str) -> io::Result<()> {
    let ours = host.root.locate(format!("{directory}/{name}"));
    for place in places(host, name)? {
        let onto = host.root.locate(place.as_path());
        let (one, other) = (metadata(&ours)?, metadata(&onto)?);
        if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
            continue; // mounted by an earlier login of this run
        }
        // Not mount(2), by which a filesystem could be mounted too: the service may not call it.
        let (clone, whole) = (OpenTreeFlags::OPEN_TREE_CLONE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
        let bound = open_tree(CWD, &ours, clone | OpenTreeFlags::OPEN_TREE_CLOEXEC);
        let done = bound.and_then(|bound| move_mount(&bound, "", CWD, &onto, whole));
        done.map_err(|errno| io::Error::other(format!("mounting {} on {place}: {errno}", ours.display())))?;
    }
    Ok(())
}

fn metadata(path: &Path) -> io::Result<fs::Metadata> {
    fs::metadata(path).map_err(|error| at(path, &error))
}

fn write(host: &Host, ours: &str, initiator: &Iqn) -> io::Result<()> {
    host.root.make_dir(format!("{ours}/{IFACES}"), 0o700)?;
    let file: AbsPath = format!("{ours}/{IFACES}/{INTERFACE}").parse().map_err(io::Error::other)?;
    host.root.write_durably(&file, &text(initiator), 0o600)
}

fn text(initiator: &Iqn) -> String {
    format!(
        "# BEGIN RECORD\niface.iscsi_ifacename = {INTERFACE}\niface.transport_name = tcp\n\
         iface.initiatorname = {initiator}\n# END RECORD\n"
    )
}

/// The directories of this name. Nothing shows which database iscsiadm uses, so those of all. Where open-iscsi has not
/// made its own yet, this makes it: in the usual database if that exists, otherwise in each possible one. `/etc/iscsi`
/// alone shows nothing, because every open-iscsi has its config there; its interfaces or records do.
fn places(host: &Host, name: &str) -> io::Result<Vec<AbsPath>> {
    let exists = |path: &AbsPath| host.root.mode(path.as_path()).map(|mode| mode.is_some());
    let databases = DATABASES.map(|text| text.parse::<AbsPath>().map_err(io::Error::other));
    let mut found: Vec<AbsPath> = Vec::new();
    let mut possible: Vec<AbsPath> = Vec::new();
    for (database, is_usual) in databases.into_iter().zip([true, false]) {
        let database = database?;
        let is_there = exists(&database)?;
        let mut is_used = is_usual && is_there;
        for part in [IFACES].into_iter().chain(RECORDS) {
            is_used |= exists(&database.join(part))?;
        }
        if is_used {
            found.push(database.join(name));
        } else if is_usual || is_there {
            possible.push(database.join(name));
        }
    }
    let mut made = Vec::new();
    for place in if found.is_empty() { possible } else { found } {
        match host.root.make_dir(place.as_path(), 0o700) {
            // The confined service may make no directory in /etc/iscsi. Where it is confined, the usual database is the right one.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !made.is_empty() => {}
            done => {
                done?;
                made.push(place);
            }
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::tests::Fixture;

    const OURS: &str = "/run/etcd-lun";

    #[test]
    fn file_of_the_interface() {
        let fixture = Fixture::new("interface");
        let host = &fixture.host;
        for name in ["iqn.1994-05.com.redhat:master0", "iqn.1994-05.com.redhat:master1"] {
            write(host, OURS, &name.parse().unwrap()).unwrap();
            let text = host.root.read(format!("{OURS}/ifaces/{INTERFACE}")).unwrap();
            assert!(text.contains(&format!("\niface.initiatorname = {name}\n")), "{text}");
        }
        assert_eq!(host.root.list(format!("{OURS}/ifaces")).unwrap(), [INTERFACE]);
    }

    #[test]
    fn directories_of_the_database() {
        for name in ["ifaces", "nodes", "static", "send_targets"] {
            let shown = |host: &Host| -> Vec<String> {
                let strip = |place: &AbsPath| place.to_string().strip_suffix(name).unwrap().to_owned();
                places(host, name).unwrap().iter().map(strip).collect()
            };
            let fixture = Fixture::new("places-none");
            assert_eq!(shown(&fixture.host), ["/var/lib/iscsi/"]);
            // RHEL: the config is in /etc, the database in /var.
            let fixture = Fixture::new("places-rhel");
            fixture.file("/etc/iscsi/iscsid.conf", "");
            fs::create_dir_all(fixture.host.root.locate("/var/lib/iscsi/ifaces")).unwrap();
            assert_eq!(shown(&fixture.host), ["/var/lib/iscsi/"]);
            // RHEL and Debian from 13 on, before the first use of open-iscsi.
            let fixture = Fixture::new("places-unused");
            fixture.file("/etc/iscsi/iscsid.conf", "");
            fs::create_dir_all(fixture.host.root.locate("/var/lib/iscsi")).unwrap();
            assert_eq!(shown(&fixture.host), ["/var/lib/iscsi/"]);
            // Debian before 13, before the first use. Its iscsiadm knows no interface of another directory.
            let fixture = Fixture::new("places-debian-unused");
            fixture.file("/etc/iscsi/iscsid.conf", "");
            assert_eq!(shown(&fixture.host), ["/var/lib/iscsi/", "/etc/iscsi/"]);
            assert!(fixture.host.root.locate(format!("/etc/iscsi/{name}")).is_dir());
            // Debian before 13, with one of the directories only.
            for used in ["ifaces/iface.example", "nodes/iqn.2024-02.com.example:other/10.0.0.1,3260"] {
                let fixture = Fixture::new("places-debian");
                fixture.file(&format!("/etc/iscsi/{used}"), "");
                assert_eq!(shown(&fixture.host), ["/etc/iscsi/"]);
            }
        }
    }

    #[test]
    fn records_of_log_ins_are_dropped_and_nothing_else() {
        let fixture = Fixture::new("drop");
        let host = &fixture.host;
        drop_own_records(host, OURS).unwrap();
        fixture.file("/run/etcd-lun/nodes/iqn.2024-02.com.example:etcd/10.0.0.1,3260,1/etcd-lun", "secret");
        fixture.file("/run/etcd-lun/nodes/.etcd-lun.new", "secret");
        fixture.file("/run/etcd-lun/send_targets/10.0.0.1,3260/st_config", "secret");
        fs::create_dir_all(host.root.locate("/run/etcd-lun/static")).unwrap();
        std::os::unix::fs::symlink("nowhere", host.root.locate("/run/etcd-lun/static/link")).unwrap();
        fixture.file("/run/etcd-lun/health.json", "");
        fixture.file("/var/lib/iscsi/nodes/iqn.2024-02.com.example:etcd/10.0.0.1,3260,1/default", "others");
        drop_own_records(host, OURS).unwrap();
        for name in RECORDS {
            assert_eq!(host.root.list(format!("{OURS}/{name}")).unwrap(), [""; 0]);
        }
        assert_eq!(host.root.list(OURS).unwrap(), ["health.json", "nodes", "send_targets", "static"]);
        assert_eq!(host.root.list("/var/lib/iscsi/nodes").unwrap().len(), 1);
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
        let record = "/var/lib/iscsi/nodes/iqn.2024-02.com.example:etcd/10.0.0.1,3260,1/etcd-lun";
        fixture.file(record, "");
        let target = "iqn.2024-02.com.example:etcd".parse().unwrap();
        for error in [
            use_interface(host, OURS, &"iqn.1994-05.com.redhat:master0".parse().unwrap()).unwrap_err(),
            use_own_records(host, OURS, &target, &[], (&[], None)).unwrap_err(),
        ] {
            assert!(error.to_string().contains("mount namespace of its own"), "{error}");
        }
        assert!(host.root.mode(record).unwrap().is_some());
    }
}

//! The interface that gives our sessions an initiator name of their own.
//!
//! An interface in open-iscsi is a file `ifaces/NAME` in its database. iscsiadm copies its values into each node record
//! that is made for it, and discovers with its initiator name (open-iscsi README, sections 5.1.1 and 5.1.3).
//!
//! No other program may see our file. Without `-I`, iscsiadm binds every target that it discovers to all interfaces of
//! transport `tcp` that it finds there, instead of to `default` (`idbm_bind_ifaces_to_nodes`, usr/idbm.c). A CSI driver
//! that discovers its own target would then log in with our name. So the file is below `/run`, and its directory is
//! mounted over `ifaces` in this process's mount namespace only. The iscsiadm that this process runs sees our
//! interface and no others; every other program sees the node's interfaces and not ours. Nothing is left to clean up. A
//! login needs only the node record, of which iscsid gets a copy (`iscsid.c`, `mgmt_ipc_session_login`).

use super::database::DATABASES;
use crate::{
    host::{Host, namespace},
    terms::{AbsPath, INTERFACE, Iqn},
};
use nix::mount::{MsFlags, mount};
use std::{fs, io, os::unix::fs::MetadataExt as _};

/// The directory that is mounted over the one of the database.
const OURS: &str = "/run/etcd-lun/ifaces";

/// Makes our interface, with this initiator name, for every iscsiadm that this process runs. The process must be in a
/// mount namespace of its own, whose mounts don't propagate.
pub fn use_interface(host: &Host, initiator: &Iqn) -> io::Result<()> {
    if namespace::is_in_namespace_of_pid1(host)? {
        return Err(io::Error::other("this process is not in a mount namespace of its own"));
    }
    write(host, initiator)?;
    let ours = host.root.locate(OURS);
    for place in places(host)? {
        let onto = host.root.locate(place.as_path());
        let (one, other) = (fs::metadata(&ours)?, fs::metadata(&onto)?);
        if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
            continue; // mounted by an earlier login of this run
        }
        let done = mount(Some(&ours), &onto, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        done.map_err(|errno| io::Error::other(format!("mounting {OURS} on {place}: {errno}")))?;
    }
    Ok(())
}

fn write(host: &Host, initiator: &Iqn) -> io::Result<()> {
    host.root.make_dir(OURS, 0o700)?;
    let file: AbsPath = format!("{OURS}/{INTERFACE}").parse().map_err(io::Error::other)?;
    host.root.write_durably(&file, &text(initiator), 0o600)
}

fn text(initiator: &Iqn) -> String {
    format!(
        "# BEGIN RECORD\niface.iscsi_ifacename = {INTERFACE}\niface.transport_name = tcp\n\
         iface.initiatorname = {initiator}\n# END RECORD\n"
    )
}

/// The directories of interfaces. Nothing shows which database iscsiadm uses, so those of all. Where open-iscsi has not
/// made its own yet, this makes it: in the usual database if that exists, otherwise in each possible one. `/etc/iscsi`
/// alone shows nothing, because every open-iscsi has its config there.
fn places(host: &Host) -> io::Result<Vec<AbsPath>> {
    let exists = |path: &AbsPath| host.root.mode(path.as_path()).map(|mode| mode.is_some());
    let databases = DATABASES.map(|text| text.parse::<AbsPath>().map_err(io::Error::other));
    let mut found: Vec<AbsPath> = Vec::new();
    let mut possible: Vec<AbsPath> = Vec::new();
    for (database, is_usual) in databases.into_iter().zip([true, false]) {
        let database = database?;
        let (place, is_there) = (database.join("ifaces"), exists(&database)?);
        if exists(&place)? || is_usual && is_there {
            found.push(place);
        } else if is_usual || is_there {
            possible.push(place);
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
    use crate::host::iscsi::tests::Fixture;

    #[test]
    fn file_of_the_interface() {
        let fixture = Fixture::new("interface");
        let host = &fixture.host;
        for name in ["iqn.1994-05.com.redhat:master0", "iqn.1994-05.com.redhat:master1"] {
            write(host, &name.parse().unwrap()).unwrap();
            let text = host.root.read(format!("{OURS}/{INTERFACE}")).unwrap();
            assert!(text.contains(&format!("\niface.initiatorname = {name}\n")), "{text}");
        }
        assert_eq!(host.root.list(OURS).unwrap(), [INTERFACE]);
    }

    #[test]
    fn directories_of_interfaces() {
        let shown = |host: &Host| places(host).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        let fixture = Fixture::new("places-none");
        assert_eq!(shown(&fixture.host), ["/var/lib/iscsi/ifaces"]);
        // RHEL: the config is in /etc, the database in /var.
        let fixture = Fixture::new("places-rhel");
        fixture.file("/etc/iscsi/iscsid.conf", "");
        fs::create_dir_all(fixture.host.root.locate("/var/lib/iscsi/ifaces")).unwrap();
        assert_eq!(shown(&fixture.host), ["/var/lib/iscsi/ifaces"]);
        // RHEL and Debian from 13 on, before the first use of open-iscsi.
        let fixture = Fixture::new("places-unused");
        fixture.file("/etc/iscsi/iscsid.conf", "");
        fs::create_dir_all(fixture.host.root.locate("/var/lib/iscsi")).unwrap();
        assert_eq!(shown(&fixture.host), ["/var/lib/iscsi/ifaces"]);
        // Debian before 13, before the first use. Its iscsiadm knows no interface of another directory.
        let fixture = Fixture::new("places-debian-unused");
        fixture.file("/etc/iscsi/iscsid.conf", "");
        assert_eq!(shown(&fixture.host), ["/var/lib/iscsi/ifaces", "/etc/iscsi/ifaces"]);
        assert!(fixture.host.root.locate("/etc/iscsi/ifaces").is_dir());
        // Debian before 13.
        let fixture = Fixture::new("places-debian");
        fixture.file("/etc/iscsi/ifaces/iface.example", "");
        assert_eq!(shown(&fixture.host), ["/etc/iscsi/ifaces"]);
    }

    #[test]
    fn never_in_the_namespace_of_others() {
        let fixture = Fixture::new("interface-pid1");
        for namespace in ["/proc/thread-self/ns/mnt", "/proc/1/ns/mnt"] {
            let path = fixture.host.root.locate(namespace);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("mnt:[1]", path).unwrap();
        }
        let error =
            use_interface(&fixture.host, &"iqn.1994-05.com.redhat:master0".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("mount namespace of its own"), "{error}");
    }
}

//! Node records of ours in the node's database: those that an earlier release left there, which kept them.
//!
//! A session needs no record once it is there. iscsid has a copy of what it logged in with, and an iscsid that was
//! restarted takes what the kernel has (usr/iscsid.c, `sync_session`). With a record, commands of others reach the
//! session: `--logoutall` and `--loginall` skip a session without one, and `-o update` changes none (usr/iscsiadm.c,
//! `__logout_by_startup`). So each record goes, also while its session is up. `iscsiadm -o delete` would refuse that.

use super::{
    database::{Credentials, RecordFile, discovery_file, has_all, node_files, node_portals, with_chap},
    lock::DatabaseLock,
    session::sessions,
};
use crate::Host;
use std::io;
use terms::{Chap, INTERFACE, Iqn, Portal, Session};

/// The interface of sessions and records that were made without one.
const DEFAULT: &str = "default";

/// The portals that our interface has a record of, also an incomplete one. Takes no lock.
pub fn recorded(host: &Host, target: &Iqn) -> io::Result<Vec<Portal>> {
    recorded_by(host, target, |interface| interface == Some(INTERFACE))
}

/// The portals that another interface has a record of, or a program without one. Takes no lock.
pub fn recorded_by_others(host: &Host, target: &Iqn) -> io::Result<Vec<Portal>> {
    recorded_by(host, target, |interface| interface != Some(INTERFACE))
}

fn recorded_by(
    host: &Host,
    target: &Iqn,
    is_meant: impl Fn(Option<&str>) -> bool,
) -> io::Result<Vec<Portal>> {
    let mut found = Vec::new();
    for portal in node_portals(host, target)? {
        for file in node_files(host, target, &portal)? {
            let text = host.root.read_opt(file.path.as_path())?;
            if is_meant(file.interface(text.as_deref())) && !found.contains(&portal) {
                found.push(portal.clone());
            }
        }
    }
    Ok(found)
}

/// Deletes our interface's record of a portal. A session that was made by it stays.
pub fn delete_record(host: &Host, target: &Iqn, portal: &Portal) -> io::Result<()> {
    delete(host, target, portal, |_, file, text| Ok(file.interface(text) == Some(INTERFACE)))
}

/// Deletes all our records of a target. Those of a release that used no interface yet too, unless a session without an
/// interface uses them: they have all these settings.
///
/// Records of other interfaces are not ours: another program may have sessions to the same target.
pub fn delete_records(host: &Host, target: &Iqn, settings: &[(&str, &str)]) -> io::Result<()> {
    for portal in node_portals(host, target)? {
        delete(host, target, &portal, |host, file, text| match file.interface(text) {
            Some(INTERFACE) => Ok(true),
            Some(DEFAULT) if text.is_some_and(|text| has_all(text, settings)) => {
                Ok(!is_used(host, target, &portal)?)
            }
            _ => Ok(false),
        })?;
    }
    Ok(())
}

/// Deletes the records of discoveries at these portals with exactly these credentials, which a killed run of an earlier release
/// left. Others have node records of the target, if such a record is theirs.
pub fn delete_discoveries(
    host: &Host,
    target: &Iqn,
    portals: &[Portal],
    credentials: Option<&Chap>,
) -> io::Result<()> {
    let Some(chap) = credentials else { return Ok(()) };
    if !recorded_by_others(host, target)?.is_empty() {
        return Ok(());
    }
    for portal in portals {
        let lock = DatabaseLock::take(host)?;
        let Some(file) = discovery_file(host, portal)? else { continue };
        let text = lock.read(host, &file)?;
        let is_ours =
            |text: &String| with_chap(text, Credentials::Discovery, Some(chap)).as_ref() == Some(text);
        if text.as_ref().is_some_and(is_ours) {
            tracing::info!("removing {}", file.path);
            lock.remove(host, &file)?;
        }
    }
    Ok(())
}

fn delete(
    host: &Host,
    target: &Iqn,
    portal: &Portal,
    is_ours: impl Fn(&Host, &RecordFile, Option<&str>) -> io::Result<bool>,
) -> io::Result<()> {
    let lock = DatabaseLock::take(host)?;
    for file in node_files(host, target, portal)? {
        let text = lock.read(host, &file)?;
        if is_ours(host, &file, text.as_deref())? {
            tracing::info!("removing {}", file.path);
            lock.remove(host, &file)?;
            // The link that iscsiadm made to it (`idbm_add_node`, usr/idbm.c) leads nowhere now.
            file.link().map_or(Ok(()), |link| host.root.remove(link.as_path()))?;
        }
    }
    Ok(())
}

/// True if a session without an interface was made by the record of this portal.
fn is_used(host: &Host, target: &Iqn, portal: &Portal) -> io::Result<bool> {
    let uses = |session: &Session| {
        session.target == target.as_str()
            && session.interface.as_deref() != Some(INTERFACE)
            && session.is_at(portal)
    };
    Ok(sessions(host)?.iter().any(uses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::tests::Fixture;
    use std::{fs, os::unix::fs::symlink};
    use terms::Secret;

    const TARGET: &str = "iqn.2024-02.com.example:etcd";
    const RECORD: &str = "# BEGIN RECORD 2.1.11\nnode.name = iqn.2024-02.com.example:etcd\niface.iscsi_ifacename = etcd-lun\n\
        node.startup = manual\nnode.session.auth.password = hunter2hunter2\n# END RECORD\n";
    const SETTINGS: &[(&str, &str)] = &[("node.startup", "manual")];

    /// Where open-iscsi was never used, nothing shows which database it has, and both get this process's own directory.
    #[test]
    fn one_directory_in_the_place_of_both_databases_is_one() {
        let fixture = Fixture::new("both");
        let (host, target): (_, Iqn) = (&fixture.host, TARGET.parse().unwrap());
        fixture.file(&format!("/run/etcd-lun/nodes/{TARGET}/10.0.0.1,3260,1/etcd-lun"), RECORD);
        for database in super::super::database::DATABASES {
            fs::create_dir_all(host.root.locate(database)).unwrap();
            symlink(host.root.locate("/run/etcd-lun/nodes"), host.root.locate(format!("{database}/nodes")))
                .unwrap();
        }
        let files = node_files(host, &target, &"10.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(files.len(), 1, "{files:?}");
    }

    #[test]
    fn only_our_records_are_listed_and_deleted() {
        for database in super::super::database::DATABASES {
            let fixture = Fixture::new("recorded");
            let host = &fixture.host;
            let target: Iqn = TARGET.parse().unwrap();
            assert_eq!(
                (recorded(host, &target).unwrap(), recorded_by_others(host, &target).unwrap()),
                (vec![], vec![])
            );
            let nodes = format!("{database}/nodes/{TARGET}");
            let others = RECORD.replace("etcd-lun", "default").replace("manual", "automatic");
            for (name, text) in [
                ("10.0.0.1,3260,1/etcd-lun", RECORD),
                ("10.0.0.1,3260,1/default", &others),
                ("10.0.0.2,3260,1/default", &others),
                ("fd00::5,3261,2/etcd-lun", "# BEGIN RECORD 2.1.11\nnode.na"),
                ("san.example,3260", RECORD),
                ("san2.example,3260", &others),
                ("no portal,x", RECORD),
            ] {
                fixture.file(&format!("{nodes}/{name}"), text);
            }
            let link = |name: &str| {
                let link = host.root.locate(format!("{database}/static/{TARGET},{name}"));
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                symlink("nowhere", link).unwrap();
            };
            link("10.0.0.1,3260,1,etcd-lun");
            link("10.0.0.1,3260,1,default");
            let portals =
                || -> Vec<_> { recorded(host, &target).unwrap().iter().map(ToString::to_string).collect() };
            assert_eq!(portals(), ["10.0.0.1:3260", "[fd00::5]:3261", "san.example:3260"]);
            delete_record(host, &target, &"10.0.0.1".parse().unwrap()).unwrap();
            assert_eq!(portals(), ["[fd00::5]:3261", "san.example:3260"]);
            delete_records(host, &target, SETTINGS).unwrap();
            assert_eq!(portals(), [""; 0]);
            let left = host.root.list(&nodes).unwrap();
            assert_eq!(left, ["10.0.0.1,3260,1", "10.0.0.2,3260,1", "no portal,x", "san2.example,3260"]);
            assert_eq!(
                host.root.list(format!("{database}/static")).unwrap(),
                [format!("{TARGET},10.0.0.1,3260,1,default")]
            );
        }
    }

    #[test]
    fn only_a_discovery_of_ours_is_deleted() {
        let (target, portal): (Iqn, Portal) = (TARGET.parse().unwrap(), "10.0.0.1".parse().unwrap());
        let chap = |secret: &str| Chap::new("disco".into(), Secret::new(secret.into()), None).unwrap();
        let plain = "# BEGIN RECORD 2.1.11\ndiscovery.startup = manual\n# END RECORD\n";
        let left = with_chap(plain, Credentials::Discovery, Some(&chap("secretsecret1"))).unwrap();
        for (text, credentials, others, is_left) in [
            (left.as_str(), Some(chap("secretsecret1")), false, false),
            (&left, Some(chap("secretsecret2")), false, true),
            (&left, None, false, true),
            (plain, Some(chap("secretsecret1")), false, true),
            (&left, Some(chap("secretsecret1")), true, true),
        ] {
            let fixture = Fixture::new("discoveries");
            let file = "/var/lib/iscsi/send_targets/10.0.0.1,3260/st_config";
            fixture.file(file, text);
            if others {
                let record = RECORD.replace("etcd-lun", "default");
                fixture.file(&format!("/var/lib/iscsi/nodes/{TARGET}/10.0.0.1,3260,1/default"), &record);
            }
            delete_discoveries(&fixture.host, &target, std::slice::from_ref(&portal), credentials.as_ref())
                .unwrap();
            assert_eq!(fixture.host.root.mode(file).unwrap().is_some(), is_left, "{text}, {others}");
        }
    }

    #[test]
    fn a_session_does_not_keep_its_record_but_one_of_an_earlier_release_does() {
        let fixture = Fixture::new("left-in-use");
        let host = &fixture.host;
        let target: Iqn = TARGET.parse().unwrap();
        let dir = format!("/var/lib/iscsi/nodes/{TARGET}/10.0.0.1,3260,1");
        let former = RECORD.replace("etcd-lun", "default");
        fixture.file(&format!("{dir}/etcd-lun"), RECORD);
        fixture.file(&format!("{dir}/default"), &former);
        crate::iscsi::session::tests::session(&fixture, 1, "10.0.0.1", Some("10.0.0.1"));
        fixture.file("/sys/class/iscsi_session/session1/ifacename", "default\n");
        delete_records(host, &target, SETTINGS).unwrap();
        assert_eq!(host.root.list(&dir).unwrap(), ["default"]);
        fixture.file("/sys/class/iscsi_session/session1/ifacename", "etcd-lun\n");
        delete_records(host, &target, &[("node.startup", "automatic")]).unwrap();
        assert_eq!(host.root.list(&dir).unwrap(), ["default"], "another program's");
        delete_records(host, &target, SETTINGS).unwrap();
        assert_eq!(host.root.list("/var/lib/iscsi/nodes").unwrap(), [""; 0], "no empty directory stays");
    }
}

//! Node records that are kept while sessions use them: what differs from the config, and changing just that.
//!
//! iscsid copies a record when it logs in. So a record may change under a session that is up: the session stays as it
//! is, and the next log-in by `iscsiadm` uses the new values. A restarted iscsid reads the record too, but for a session that
//! is there it takes the credentials from the kernel, which are the old ones (usr/iscsid.c, `sync_session`).

use super::{
    IscsiError,
    database::{Credentials, END, node_files, node_portals, with_chap},
    lock::DatabaseLock,
};
use crate::{
    host::Host,
    terms::{Chap, INTERFACE, Iqn, Portal},
};
use std::io;

/// The keys of our interface's record of a portal that have other values than these; none if there is no complete
/// record. Takes no lock: a record that is just being written counts as incomplete. With `chap` none, the credentials
/// are not looked at.
pub fn differences(
    host: &Host,
    target: &Iqn,
    portal: &Portal,
    settings: &[(&'static str, String)],
    chap: Option<Option<&Chap>>,
) -> io::Result<Option<Vec<&'static str>>> {
    for file in node_files(host, target, portal)? {
        let text = host.root.read_opt(file.path.as_path())?;
        let Some(text) = text.filter(|text| text.lines().any(|line| line == END)) else { continue };
        if file.interface(Some(&text)) == Some(INTERFACE) {
            return Ok(Some(differing(&text, settings, chap)));
        }
    }
    Ok(None)
}

fn differing(
    text: &str,
    settings: &[(&'static str, String)],
    chap: Option<Option<&Chap>>,
) -> Vec<&'static str> {
    let differs = |key: &str, wanted: &str| value(text, key) != wanted;
    let mut found: Vec<_> =
        settings.iter().filter(|(key, wanted)| differs(key, wanted)).map(|(key, _)| *key).collect();
    if let Some(chap) = chap {
        found.extend(
            credentials(chap).into_iter().filter(|(key, wanted)| differs(key, wanted)).map(|(key, _)| key),
        );
    }
    found
}

/// The value of a key; empty if it is not set.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    value.filter(|value| *value != "<empty>").unwrap_or_default()
}

/// The keys of secrets in a node record.
pub const SECRETS: [&str; 2] = ["node.session.auth.password", "node.session.auth.password_in"];

/// What a record says with these credentials.
fn credentials(chap: Option<&Chap>) -> Vec<(&'static str, String)> {
    let mutual = chap.and_then(Chap::mutual);
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    vec![
        ("node.session.auth.authmethod", if chap.is_some() { "CHAP" } else { "None" }.to_owned()),
        ("node.session.auth.username", text(chap.map(Chap::username))),
        (SECRETS[0], text(chap.map(|chap| chap.password().reveal()))),
        ("node.session.auth.username_in", text(mutual.map(|(username, _)| username))),
        (SECRETS[1], text(mutual.map(|(_, password)| password.reveal()))),
    ]
}

/// The portals that our interface has a record of, also an incomplete one.
pub fn recorded(host: &Host, target: &Iqn) -> io::Result<Vec<Portal>> {
    let mut found = Vec::new();
    for portal in node_portals(host, target)? {
        for file in node_files(host, target, &portal)? {
            let text = host.root.read_opt(file.path.as_path())?;
            if file.interface(text.as_deref()) == Some(INTERFACE) && !found.contains(&portal) {
                found.push(portal.clone());
            }
        }
    }
    Ok(found)
}

/// Deletes our interface's record of a portal. No session may use it.
pub fn delete_record(host: &Host, target: &Iqn, portal: &Portal) -> io::Result<()> {
    let lock = DatabaseLock::take(host)?;
    for file in node_files(host, target, portal)? {
        let text = lock.read(host, &file)?;
        if file.interface(text.as_deref()) == Some(INTERFACE) {
            lock.remove(host, &file)?;
        }
    }
    Ok(())
}

/// Gives our interface's record of a portal these settings and exactly these credentials, and leaves the rest of it as it
/// is. A session may use it. CHAP's algorithms stay too, because only iscsiadm shows whether this open-iscsi knows them:
/// the record gets them when it is made anew, at the next boot.
pub fn update_record(
    host: &Host,
    target: &Iqn,
    portal: &Portal,
    settings: &[(&'static str, String)],
    chap: Option<&Chap>,
) -> Result<(), IscsiError> {
    let chap = chap.map(|chap| chap.clone().with_algs(&[]));
    let chap = chap.as_ref();
    let doing = format!("changing the record of {target} at {portal}");
    let io = IscsiError::io(&doing);
    let lock = DatabaseLock::take(host).map_err(&io)?;
    for file in node_files(host, target, portal).map_err(&io)? {
        let text = lock.read(host, &file).map_err(&io)?;
        let Some(text) = text.filter(|text| file.interface(Some(text)) == Some(INTERFACE)) else { continue };
        let new =
            with_chap(&with_settings(&text, settings), Credentials::Session, chap).ok_or_else(|| {
                IscsiError::Unexpected { doing: doing.clone(), found: "an incomplete record".into() }
            })?;
        return lock.replace(host, &file, &new).map_err(&io);
    }
    Err(IscsiError::Unexpected { doing: doing.clone(), found: "no record of ours any more".into() })
}

fn with_settings(text: &str, settings: &[(&'static str, String)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (key, value) in settings {
        let new = format!("{key} = {value}");
        let is_key = |line: &String| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(" ="));
        match lines.iter_mut().find(|line| is_key(line)) {
            Some(line) => *line = new,
            None => {
                let end = lines.iter().position(|line| line == END).unwrap_or(lines.len());
                lines.insert(end, new);
            }
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host::iscsi::tests::Fixture, terms::Secret};

    const RECORD: &str = "# BEGIN RECORD 2.1.11\nnode.name = iqn.2024-02.com.example:etcd\niface.iscsi_ifacename = etcd-lun\n\
        node.conn[0].timeo.noop_out_timeout = 5\nnode.session.auth.authmethod = CHAP\nnode.session.auth.username = initiator1\n\
        node.session.auth.password = hunter2hunter2\nnode.session.auth.password_length = 14\n# END RECORD\n";

    fn chap(user: &str, secret: &str) -> Chap {
        Chap::new(user.into(), Secret::new(secret.into()), None).unwrap()
    }

    #[test]
    fn only_what_differs_is_named_and_changed() {
        let fixture = Fixture::new("kept");
        let host = &fixture.host;
        let target: Iqn = "iqn.2024-02.com.example:etcd".parse().unwrap();
        let portal: Portal = "10.0.0.1".parse().unwrap();
        let setting = |value: &str| vec![("node.conn[0].timeo.noop_out_timeout", value.to_owned())];
        let look = |value: &str, chap: Option<Option<&Chap>>| {
            differences(host, &target, &portal, &setting(value), chap).unwrap()
        };
        let (same, other) = (chap("initiator1", "hunter2hunter2"), chap("initiator1", "another-secret"));
        assert_eq!(look("5", Some(Some(&same))), None, "there is no record");
        let dir = "/var/lib/iscsi/nodes/iqn.2024-02.com.example:etcd/10.0.0.1,3260,1";
        fixture.file(&format!("{dir}/default"), &RECORD.replace("etcd-lun", "default"));
        assert_eq!(look("5", Some(Some(&same))), None, "another program's record");
        fixture.file(&format!("{dir}/etcd-lun"), &RECORD.replace("# END RECORD\n", ""));
        assert_eq!(look("5", Some(Some(&same))), None, "incomplete");
        fixture.file(&format!("{dir}/etcd-lun"), RECORD);
        assert_eq!(look("5", Some(Some(&same))), Some(vec![]));
        assert_eq!(look("3", None), Some(vec!["node.conn[0].timeo.noop_out_timeout"]));
        assert_eq!(look("5", Some(Some(&other))), Some(vec![SECRETS[0]]));
        let without = vec!["node.session.auth.authmethod", "node.session.auth.username", SECRETS[0]];
        assert_eq!(look("5", Some(None)), Some(without));
        update_record(host, &target, &portal, &setting("3"), Some(&other)).unwrap();
        assert_eq!(look("3", Some(Some(&other))), Some(vec![]));
        let text = host.root.read(format!("{dir}/etcd-lun")).unwrap();
        assert!(
            text.contains("node.name = iqn.2024-02.com.example:etcd\n") && !text.contains("hunter2"),
            "{text}"
        );
        update_record(host, &target, &portal, &setting("3"), None).unwrap();
        assert_eq!(look("3", Some(None)), Some(vec![]));
        assert!(host.root.read(format!("{dir}/default")).unwrap().contains("hunter2"), "not ours");
        assert!(update_record(host, &target, &"10.0.0.2".parse().unwrap(), &[], None).is_err());
    }

    #[test]
    fn only_our_records_are_listed_and_deleted() {
        let fixture = Fixture::new("recorded");
        let host = &fixture.host;
        let target: Iqn = "iqn.2024-02.com.example:etcd".parse().unwrap();
        assert_eq!(recorded(host, &target).unwrap(), []);
        let nodes = "/var/lib/iscsi/nodes/iqn.2024-02.com.example:etcd";
        let others = RECORD.replace("etcd-lun", "default");
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
        let portals =
            || -> Vec<_> { recorded(host, &target).unwrap().iter().map(ToString::to_string).collect() };
        assert_eq!(portals(), ["10.0.0.1:3260", "[fd00::5]:3261", "san.example:3260"]);
        for portal in portals() {
            delete_record(host, &target, &portal.parse().unwrap()).unwrap();
        }
        assert_eq!(portals(), [""; 0]);
        let left = host.root.list(nodes).unwrap();
        assert_eq!(left, ["10.0.0.1,3260,1", "10.0.0.2,3260,1", "no portal,x", "san2.example,3260"]);
    }
}

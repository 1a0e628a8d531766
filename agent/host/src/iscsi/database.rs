//! Where open-iscsi keeps its records, and how their credentials are changed.
//!
//! ```text
//! nodes/TARGET/HOST,PORT                 one record, made without a portal group tag
//! nodes/TARGET/HOST,PORT,TAG/INTERFACE   one for each interface, made with one
//! send_targets/HOST,PORT/st_config       how to discover at a portal
//! ```
//!
//! A record is `key = value` lines between `# BEGIN RECORD` and `# END RECORD` (`idbm_print`,
//! usr/idbm.c).

use crate::{Host, root::absent_is_none};
use std::{fs, io, os::unix::fs::MetadataExt as _};
use terms::{AbsPath, Chap, ChapAlg, Iqn, Portal};

/// The possible directories of the database. Each build of open-iscsi uses one of them. The first is that of upstream,
/// RHEL, and Debian from 13 on; the second that of earlier Debian releases.
pub(super) const DATABASES: [&str; 2] = ["/var/lib/iscsi", "/etc/iscsi"];

const END: &str = "# END RECORD";

/// The files of the node records of a target at a portal.
pub(super) fn node_files(host: &Host, target: &Iqn, portal: &Portal) -> io::Result<Vec<AbsPath>> {
    let mut files = Vec::new();
    for nodes in directories(host, "nodes")? {
        for path in entries(host, &nodes.join(target.as_str()), portal)? {
            if path.name().split(',').count() == 2 {
                files.push(path);
            } else {
                files.extend(host.root.list(path.as_path())?.iter().map(|name| path.join(name)));
            }
        }
    }
    Ok(files)
}

/// The file of the SendTargets record of a portal.
pub(super) fn discovery_file(host: &Host, portal: &Portal) -> io::Result<Option<AbsPath>> {
    for dir in directories(host, "send_targets")? {
        if let Some(path) = entries(host, &dir, portal)?.first() {
            return Ok(Some(path.join("st_config")));
        }
    }
    Ok(None)
}

/// The directories of records of a kind, each once: one database may be a link to the other, and this process's own directory may
/// be mounted over both.
pub(super) fn directories(host: &Host, kind: &str) -> io::Result<Vec<AbsPath>> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for text in DATABASES {
        let dir = text.parse::<AbsPath>().map_err(io::Error::other)?.join(kind);
        let Some(real) = absent_is_none(fs::metadata(host.root.locate(dir.as_path())))? else { continue };
        let real = (real.dev(), real.ino());
        if !seen.contains(&real) {
            seen.push(real);
            found.push(dir);
        }
    }
    Ok(found)
}

/// What belongs to a portal in `dir`.
fn entries(host: &Host, dir: &AbsPath, portal: &Portal) -> io::Result<Vec<AbsPath>> {
    let mut names = host.root.list_opt(dir.as_path())?.unwrap_or_default();
    names.retain(|name| {
        let mut parts = name.split(',');
        let (address, port) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        port.parse() == Ok(portal.port()) && portal.is_host(address)
    });
    Ok(names.iter().map(|name| dir.join(name)).collect())
}

/// Gives a record these credentials and no others. Returns the text that it had, or none if that is incomplete.
pub(super) fn set_credentials(
    host: &Host,
    record: &AbsPath,
    which: Credentials,
    chap: Option<&Chap>,
) -> io::Result<Option<String>> {
    let text = host.root.read(record.as_path())?;
    let Some(new) = with_chap(&text, which, chap) else { return Ok(None) };
    fs::write(host.root.locate(record.as_path()), new)?;
    Ok(Some(text))
}

/// Which credentials of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Credentials {
    /// In a node record, for sessions.
    Session,
    /// In a SendTargets record, for discovery.
    Discovery,
}

/// The record with these credentials and no others. Without credentials, this node doesn't authenticate itself to the
/// target. None if `text` has no end line. The new lines are where iscsiadm would write them. Without algorithms those in
/// the record stay.
fn with_chap(text: &str, which: Credentials, chap: Option<&Chap>) -> Option<String> {
    let prefix = match which {
        Credentials::Session => "node.session.auth.",
        Credentials::Discovery => "discovery.sendtargets.auth.",
    };
    let algs = chap.map(Chap::algs).unwrap_or_default();
    let is_credential = |line: &str| {
        let key = line.trim_start().split(['=', ' ', '\t']).next().unwrap_or_default();
        key.strip_prefix(prefix).is_some_and(|name| CREDENTIALS.contains(&name))
            || (key == CHAP_ALGS && !algs.is_empty())
    };
    let line = |name: &str, value: &str| format!("{prefix}{name} = {value}");
    let mut credentials = vec![line("authmethod", if chap.is_some() { "CHAP" } else { "None" })];
    if let Some(chap) = chap {
        credentials.push(line("username", chap.username()));
        credentials.push(line("password", chap.password().reveal()));
        if let Some((username, password)) = chap.mutual() {
            credentials.push(line("username_in", username));
            credentials.push(line("password_in", password.reveal()));
        }
    }
    if !algs.is_empty() {
        credentials.push(format!("{CHAP_ALGS} = {}", ChapAlg::list(algs)));
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().position(|line| *line == END)?;
    let place = lines.iter().position(|line| is_credential(line)).unwrap_or(end);
    lines.splice(place..place, credentials.iter().map(String::as_str));
    let mut index = 0;
    lines.retain(|line| {
        index += 1;
        (place + 1..=place + credentials.len()).contains(&index) || !is_credential(line)
    });
    Some(lines.join("\n") + "\n")
}

/// The key of the algorithms. A SendTargets record has it too, with the same prefix as a node record ("reusing
/// SESSION_CHAP_ALGS", usr/idbm.c).
pub const CHAP_ALGS: &str = "node.session.auth.chap_algs";

/// The keys of credentials. The two lengths are never written: open-iscsi computes them whenever it reads a password
/// (`idbm_rec_update_param`, usr/idbm.c).
const CREDENTIALS: [&str; 7] = [
    "authmethod",
    "username",
    "password",
    "password_length",
    "username_in",
    "password_in",
    "password_in_length",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::tests::Fixture;
    use std::os::unix::fs::symlink;
    use terms::Secret;

    fn chap(mutual: bool) -> Chap {
        let mutual = mutual.then(|| ("target".into(), Secret::new("othersecret12".into())));
        Chap::new("initiator1".into(), Secret::new("secretsecret1".into()), mutual).unwrap()
    }

    /// As open-iscsi 2.1.8 writes it, shortened.
    const PLAIN: &str = "# BEGIN RECORD 2.1.8\nnode.session.nr_sessions = 1\n\
         node.session.auth.authmethod = None\nnode.session.auth.chap_algs = MD5\n# END RECORD\n";
    const ONE_WAY: &str = "# BEGIN RECORD 2.1.8\nnode.session.nr_sessions = 1\n\
         node.session.auth.authmethod = CHAP\nnode.session.auth.username = initiator1\n\
         node.session.auth.password = secretsecret1\nnode.session.auth.chap_algs = MD5\n# END RECORD\n";
    const MUTUAL: &str = "# BEGIN RECORD 2.1.8\nnode.session.nr_sessions = 1\n\
         node.session.auth.authmethod = CHAP\nnode.session.auth.username = initiator1\n\
         node.session.auth.password = secretsecret1\nnode.session.auth.username_in = target\n\
         node.session.auth.password_in = othersecret12\nnode.session.auth.chap_algs = MD5\n# END RECORD\n";

    #[test]
    fn credentials_from_any_to_any() {
        for from in [PLAIN, ONE_WAY, MUTUAL] {
            for (chap, to) in [(None, PLAIN), (Some(chap(false)), ONE_WAY), (Some(chap(true)), MUTUAL)] {
                assert_eq!(with_chap(from, Credentials::Session, chap.as_ref()).unwrap(), to);
            }
        }
        // Algorithms, from any and to any.
        let strong = chap(false).with_algs(&[ChapAlg::Sha3, ChapAlg::Sha256]);
        for from in [PLAIN, ONE_WAY, MUTUAL] {
            let to = ONE_WAY.replace("= MD5", "= SHA3-256,SHA256");
            assert_eq!(with_chap(from, Credentials::Session, Some(&strong)).unwrap(), to);
        }
        let discovery = with_chap(PLAIN, Credentials::Discovery, Some(&strong)).unwrap();
        assert!(discovery.contains("node.session.auth.chap_algs = SHA3-256,SHA256\n"), "{discovery}");
        // Written by hand: white space and order as iscsid.conf(5) allows them.
        let hand = "# BEGIN RECORD 2.1.8\nnode.session.nr_sessions = 1\nnode.session.auth.chap_algs = MD5\n  \
            node.session.auth.password=x\n\tnode.session.auth.password_in_length = 1\n# END RECORD\n";
        assert!(!with_chap(hand, Credentials::Session, None).unwrap().contains("password"));
        // No credentials at all, and keys of discovery, which stay.
        let odd = "# BEGIN RECORD\nnode.session.auth.chap_algs = MD5\n# END RECORD\n";
        assert_eq!(
            with_chap(odd, Credentials::Discovery, None).unwrap(),
            "# BEGIN RECORD\nnode.session.auth.chap_algs = MD5\n\
             discovery.sendtargets.auth.authmethod = None\n# END RECORD\n"
        );
        for broken in ["", "# BEGIN RECORD 2.1.8\nnode.session.auth.username = a\n", "# END RECOR"] {
            assert_eq!(with_chap(broken, Credentials::Session, Some(&chap(true))), None);
        }
    }

    #[test]
    fn finds_both_forms_in_either_database() {
        let target: Iqn = "iqn.2024-02.com.example:etcd".parse().unwrap();
        for database in DATABASES {
            let fixture = Fixture::new("find");
            let nodes = format!("{database}/nodes/{target}");
            for name in ["10.0.0.1,3260", "2001:0db8::0001,3260,1/default", "2001:db8::1,3260,1/eth1"] {
                fixture.file(&format!("{nodes}/{name}"), PLAIN);
            }
            fixture.file(&format!("{nodes}/10.0.0.1,3261,1/default"), PLAIN);
            fixture.file(&format!("{nodes}/san1.example,3260,2/default"), PLAIN);
            for (portal, paths) in [
                ("10.0.0.1", vec!["10.0.0.1,3260"]),
                ("10.0.0.1:3261", vec!["10.0.0.1,3261,1/default"]),
                ("[2001:db8::1]", vec!["2001:0db8::0001,3260,1/default", "2001:db8::1,3260,1/eth1"]),
                ("SAN1.example", vec!["san1.example,3260,2/default"]),
                ("10.0.0.2", vec![]),
            ] {
                let files = node_files(&fixture.host, &target, &portal.parse().unwrap()).unwrap();
                let found: Vec<_> = files.iter().map(|file| file.as_str().to_owned()).collect();
                let wanted: Vec<_> = paths.iter().map(|path| format!("{nodes}/{path}")).collect();
                assert_eq!(found, wanted, "{portal}");
            }
        }
    }

    /// Where open-iscsi was never used, nothing shows which database it has, and both get this process's own directory.
    #[test]
    fn two_databases_may_be_one() {
        let target: Iqn = "iqn.2024-02.com.example:etcd".parse().unwrap();
        let fixture = Fixture::new("two");
        fixture.file(&format!("/var/lib/iscsi/nodes/{target}/10.0.0.1,3260"), PLAIN);
        fs::create_dir_all(fixture.host.root.locate("/etc")).unwrap();
        symlink("../var/lib/iscsi", fixture.host.root.locate("/etc/iscsi")).unwrap();
        assert_eq!(node_files(&fixture.host, &target, &"10.0.0.1".parse().unwrap()).unwrap().len(), 1);
    }

    #[test]
    fn credentials_of_a_record() {
        let fixture = Fixture::new("credentials");
        let host = &fixture.host;
        fixture.file("/var/lib/iscsi/send_targets/10.0.0.1,3260/st_config", PLAIN);
        let file = discovery_file(host, &"10.0.0.1".parse().unwrap()).unwrap().unwrap();
        let old = set_credentials(host, &file, Credentials::Session, Some(&chap(false))).unwrap();
        assert_eq!(
            (old.as_deref(), host.root.read(file.as_path()).unwrap().as_str()),
            (Some(PLAIN), ONE_WAY)
        );
        fixture.file(file.as_str(), "# BEGIN RECORD 2.1.8\n");
        assert_eq!(set_credentials(host, &file, Credentials::Session, Some(&chap(false))).unwrap(), None);
        assert_eq!(discovery_file(host, &"10.0.0.2".parse().unwrap()).unwrap(), None);
    }
}

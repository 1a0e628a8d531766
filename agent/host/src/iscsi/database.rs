//! Where open-iscsi keeps its records, and how their credentials are changed.
//!
//! ```text
//! nodes/TARGET/HOST,PORT                 one record, made without a portal group tag
//! nodes/TARGET/HOST,PORT,TAG/INTERFACE   one for each interface, made with one
//! send_targets/HOST,PORT/st_config       how to discover at a portal
//! ```
//!
//! A record is `key = value` lines between `# BEGIN RECORD` and `# END RECORD` (`idbm_print`,
//! usr/idbm.c). iscsiadm writes it in place and without fsync, so a power cut can leave it empty;
//! iscsiadm then neither uses nor removes it.

use super::lock::DatabaseLock;
use crate::{Host, root::absent_is_none, root::at};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt},
};
use terms::{AbsPath, Chap, ChapAlg, Iqn, Portal};

/// The possible directories of the database. Each build of open-iscsi uses one of them. The first is that of upstream,
/// RHEL, and Debian from 13 on; the second that of earlier Debian releases.
pub(super) const DATABASES: [&str; 2] = ["/var/lib/iscsi", "/etc/iscsi"];

pub(super) const END: &str = "# END RECORD";

/// A record's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordFile {
    /// The directory of all records of its kind in this database: `nodes` or `send_targets`.
    kind: AbsPath,
    pub(super) path: AbsPath,
}

impl RecordFile {
    /// True for a record that was made without a portal group tag: there is one for all interfaces.
    pub(super) fn is_without_tag(&self) -> bool {
        self.path.name().contains(',')
    }

    /// The link that iscsiadm makes to a node record of a portal with a tag, unless discovery found it: of its place and
    /// its interface (`setup_disc_to_node_link`, usr/idbm.c).
    pub(super) fn link(&self) -> Option<AbsPath> {
        let (portal, interface) = (self.path.parent(), self.path.name());
        let name = format!("{},{},{interface}", portal.parent().name(), portal.name());
        (!self.is_without_tag()).then(|| self.kind.parent().join("static").join(&name))
    }

    /// The interface of a node record; none if the record has to say it, and is absent or incomplete.
    pub(super) fn interface<'a>(&'a self, text: Option<&'a str>) -> Option<&'a str> {
        if !self.is_without_tag() {
            return Some(self.path.name());
        }
        text?.lines().find_map(|line| line.strip_prefix("iface.iscsi_ifacename = "))
    }
}

/// The files of the node records of a target at a portal. There are several if interfaces are bound.
pub(super) fn node_files(host: &Host, target: &Iqn, portal: &Portal) -> io::Result<Vec<RecordFile>> {
    one_database(host, "nodes", |nodes| {
        let mut files = Vec::new();
        let dir = nodes.join(target.as_str());
        for name in entries(host, &dir, portal)? {
            let path = dir.join(&name);
            if name.split(',').count() == 2 {
                files.push(path);
            } else {
                files.extend(host.root.list(path.as_path())?.iter().map(|name| path.join(name)));
            }
        }
        Ok(files)
    })
}

/// The portals that there are node records of, of any interface. A name that is no portal's is not one of ours.
pub(super) fn node_portals(host: &Host, target: &Iqn) -> io::Result<Vec<Portal>> {
    let mut portals = Vec::new();
    for nodes in directories(host, "nodes")? {
        let dir = nodes.join(target.as_str());
        for name in host.root.list_opt(dir.as_path())?.unwrap_or_default() {
            let mut parts = name.split(',');
            let (address, port) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            portals.extend(format!("{host}:{port}").parse::<Portal>());
        }
    }
    Ok(portals)
}

/// The file of the SendTargets record of a portal.
pub(super) fn discovery_file(host: &Host, portal: &Portal) -> io::Result<Option<RecordFile>> {
    let files = one_database(host, "send_targets", |dir| {
        let mut files = Vec::new();
        for name in entries(host, dir, portal)? {
            let path = dir.join(&name).join("st_config");
            if host.root.mode(path.as_path())?.is_some() {
                files.push(path);
            }
        }
        Ok(files)
    })?;
    Ok(files.into_iter().next())
}

/// Looks in all databases. Only one of them may have records, because nothing shows which one iscsiadm uses.
fn one_database(
    host: &Host,
    kind: &str,
    look: impl Fn(&AbsPath) -> io::Result<Vec<AbsPath>>,
) -> io::Result<Vec<RecordFile>> {
    let mut found: Vec<RecordFile> = Vec::new();
    for kind in directories(host, kind)? {
        let paths = look(&kind)?;
        if let (Some(one), Some(other)) = (found.first(), paths.first()) {
            return Err(io::Error::other(format!(
                "both {} and {other} exist; remove the one that this node's open-iscsi doesn't use",
                one.path
            )));
        }
        let with = |path| RecordFile { kind: kind.clone(), path };
        found.extend(paths.into_iter().map(with));
    }
    Ok(found)
}

/// The directories of records of a kind, each once: one database may be a link to the other, and this process's own directory may
/// be mounted over both.
fn directories(host: &Host, kind: &str) -> io::Result<Vec<AbsPath>> {
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

/// The names in `dir` that belong to a portal.
fn entries(host: &Host, dir: &AbsPath, portal: &Portal) -> io::Result<Vec<String>> {
    let mut names = host.root.list_opt(dir.as_path())?.unwrap_or_default();
    names.retain(|name| {
        let mut parts = name.split(',');
        let (address, port) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        port.parse() == Ok(portal.port()) && portal.is_host(address)
    });
    Ok(names)
}

impl DatabaseLock {
    /// The text of a record; none if it is absent, or incomplete after a power cut.
    pub(super) fn read(&self, host: &Host, file: &RecordFile) -> io::Result<Option<String>> {
        let text = host.root.read_opt(file.path.as_path())?;
        Ok(text.filter(|text| text.lines().any(|line| line == END)))
    }

    /// Replaces the text of a record, atomically. The temporary file is at the top of the records of its kind: next to the
    /// record, iscsiadm would read it as another record, and farther up the node records may be on another filesystem
    /// ([`super::use_own_records`]).
    pub(super) fn replace(&self, host: &Host, file: &RecordFile, text: &str) -> io::Result<()> {
        let temporary = host.root.locate(file.kind.join(".etcd-lun.new").as_path());
        let target = host.root.locate(file.path.as_path());
        let attempt = || -> io::Result<()> {
            absent_is_none(fs::remove_file(&temporary))?;
            let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            new.write_all(text.as_bytes())?;
            new.sync_all()?;
            fs::rename(&temporary, &target)?;
            File::open(host.root.locate(file.path.parent().as_path()))?.sync_all()
        };
        attempt().map_err(|error| at(file.path.as_path(), &error))
    }

    /// Removes a record, and the directories that it leaves empty: those of its portal and its target.
    pub(super) fn remove(&self, host: &Host, file: &RecordFile) -> io::Result<()> {
        host.root.remove(file.path.as_path())?;
        let mut dir = file.path.parent();
        while dir != file.kind {
            match fs::remove_dir(host.root.locate(dir.as_path())) {
                // In /etc/iscsi the confined service may remove no directory. The record is what counts.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::PermissionDenied
                    ) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(at(dir.as_path(), &error)),
                Ok(()) => dir = dir.parent(),
            }
        }
        Ok(())
    }
}

/// True if a record has all these settings, and there are any.
pub(super) fn has_all(text: &str, settings: &[(&str, &str)]) -> bool {
    let has = |(key, value): &(&str, &str)| text.lines().any(|line| line == format!("{key} = {value}"));
    !settings.is_empty() && settings.iter().all(has)
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
pub(super) fn with_chap(text: &str, which: Credentials, chap: Option<&Chap>) -> Option<String> {
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
    use std::os::unix::fs::{PermissionsExt, symlink};
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
                let found: Vec<_> = files.iter().map(|file| file.path.as_str().to_owned()).collect();
                let wanted: Vec<_> = paths.iter().map(|path| format!("{nodes}/{path}")).collect();
                assert_eq!(found, wanted, "{portal}");
                assert!(files.iter().all(|file| file.kind.parent().as_str() == database));
            }
        }
    }

    #[test]
    fn two_databases_are_one_or_an_error() {
        let target: Iqn = "iqn.2024-02.com.example:etcd".parse().unwrap();
        let portal: Portal = "10.0.0.1".parse().unwrap();
        let fixture = Fixture::new("two");
        fixture.file(&format!("/var/lib/iscsi/nodes/{target}/10.0.0.1,3260"), PLAIN);
        fs::create_dir_all(fixture.host.root.locate("/etc")).unwrap();
        symlink("../var/lib/iscsi", fixture.host.root.locate("/etc/iscsi")).unwrap();
        assert_eq!(node_files(&fixture.host, &target, &portal).unwrap().len(), 1);
        fs::remove_file(fixture.host.root.locate("/etc/iscsi")).unwrap();
        fixture.file(&format!("/etc/iscsi/nodes/{target}/10.0.0.1,3260"), PLAIN);
        let error = node_files(&fixture.host, &target, &portal).unwrap_err().to_string();
        assert!(error.starts_with("both /var/lib/iscsi/nodes/"), "{error}");
    }

    #[test]
    fn replaces_and_removes_without_a_trace() {
        let fixture = Fixture::new("replace");
        let host = &fixture.host;
        let dir = "/var/lib/iscsi/send_targets/10.0.0.1,3260";
        fixture.file(&format!("{dir}/st_config"), PLAIN);
        let file = discovery_file(host, &"10.0.0.1".parse().unwrap()).unwrap().unwrap();
        let lock = DatabaseLock::take(host).unwrap();
        lock.replace(host, &file, ONE_WAY).unwrap();
        assert_eq!(lock.read(host, &file).unwrap().unwrap(), ONE_WAY);
        assert_eq!(host.root.list(dir).unwrap(), ["st_config"]);
        assert_eq!(host.root.list("/var/lib/iscsi").unwrap(), ["send_targets"]);
        let mode = fs::metadata(host.root.locate(file.path.as_path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        lock.remove(host, &file).unwrap();
        assert_eq!(discovery_file(host, &"10.0.0.1".parse().unwrap()).unwrap(), None);
        assert_eq!(host.root.list("/var/lib/iscsi/send_targets").unwrap(), [""; 0]);
    }
}

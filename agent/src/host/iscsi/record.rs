//! Node records: how open-iscsi logs in to a target at a portal.

use super::{
    DATABASE_LIMIT, IscsiError, IscsiExit,
    database::{Credentials, DATABASES, node_files, with_chap},
    iscsiadm,
    lock::DatabaseLock,
};
use crate::{
    host::Host,
    terms::{Chap, Iqn, Portal},
};
use std::collections::BTreeMap;

/// The settings of a node record, by key (`node.session.scan`). A value that isn't set is empty. A secret that is set
/// reads `********`. If interfaces are bound, there are several records, and a key is left out if its values differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record(pub BTreeMap<String, String>);

/// The record of a target at a portal, as iscsiadm shows it; none if there is none.
pub fn record(host: &Host, target: &Iqn, portal: &Portal) -> Result<Option<Record>, IscsiError> {
    let doing = format!("reading the record of {target} at {portal}");
    let portal = portal.to_string();
    let args = ["-m", "node", "-T", target.as_str(), "-p", &portal];
    match iscsiadm(host, &doing, &args, DATABASE_LIMIT, None) {
        Ok(output) => {
            parse_records(&output.stdout).map(Some).map_err(|found| IscsiError::Unexpected { doing, found })
        }
        Err(IscsiError::Exit { exit: IscsiExit::NothingFound, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses one or more records; the error is what was found instead.
fn parse_records(text: &str) -> Result<Record, String> {
    let mut merged: Option<BTreeMap<String, String>> = None;
    let mut current: Option<BTreeMap<String, String>> = None;
    for line in text.lines() {
        if line.starts_with("# BEGIN RECORD") && current.is_none() {
            current = Some(BTreeMap::new());
        } else if line == "# END RECORD"
            && let Some(mut record) = current.take()
        {
            if let Some(merged) = &merged {
                record.retain(|key, value| merged.get(key) == Some(value));
            }
            merged = Some(record);
        } else if let Some(record) = &mut current
            && let Some((key, value)) = line.split_once(" = ")
        {
            let value = if value == "<empty>" { "" } else { value };
            record.insert(key.into(), value.into());
        } else {
            return Err(format!("`{}`", line.escape_debug()));
        }
    }
    match (merged, current) {
        (Some(merged), None) => Ok(Record(merged)),
        (_, Some(_)) => Err("an incomplete record".into()),
        (None, None) => Err("no record".into()),
    }
}

/// Makes the record of a target at a portal, or changes the existing one, so that it holds `settings` and exactly these
/// credentials. `tpgt` is the portal group tag for a new record, if discovery reported one. Records differ by their
/// tag, but an existing record with another tag is used too.
///
/// The secret is never an argument of a program. It is written into the record's file, under open-iscsi's lock.
/// iscsiadm does the same: every `-o update` reads that file and rewrites it (`idbm_node_set_param`, usr/idbm.c), and
/// every login reads it.
pub fn write_record(
    host: &Host,
    target: &Iqn,
    portal: &Portal,
    tpgt: Option<u16>,
    settings: &[(&str, &str)],
    chap: Option<&Chap>,
) -> Result<(), IscsiError> {
    let doing = format!("writing the record of {target} at {portal}");
    let unexpected = |found: String| IscsiError::Unexpected { doing: doing.clone(), found };
    if let Some((name, _)) = settings.iter().find(|(name, _)| name.contains("password")) {
        return Err(unexpected(format!("the setting {name}: it is secret, and everyone can read arguments")));
    }
    let run = |address: &str, args: &[&str]| {
        let args = [&["-m", "node", "-T", target.as_str(), "-p", address, "-o"], args].concat();
        iscsiadm(host, &doing, &args, DATABASE_LIMIT, chap)
    };
    remove_broken(host, target, portal).map_err(IscsiError::io(&doing))?;
    // For an existing record `-o new` would reset all settings to the defaults of iscsid.conf.
    if node_files(host, target, portal).map_err(IscsiError::io(&doing))?.is_empty() {
        let tag = tpgt.map(|tpgt| format!(",{tpgt}")).unwrap_or_default();
        run(&format!("{portal}{tag}"), &["new"])?;
    }
    if !settings.is_empty() {
        let pairs = settings.iter().flat_map(|(name, value)| ["-n", name, "-v", value]);
        run(&portal.to_string(), &std::iter::once("update").chain(pairs).collect::<Vec<_>>())?;
    }
    let lock = DatabaseLock::take(host).map_err(IscsiError::io(&doing))?;
    let files = node_files(host, target, portal).map_err(IscsiError::io(&doing))?;
    if files.is_empty() {
        return Err(unexpected(format!(
            "no such record in {} after iscsiadm made it",
            DATABASES.join(" or ")
        )));
    }
    for file in files {
        let text = lock.read(host, &file).map_err(IscsiError::io(&doing))?;
        let new = text.as_deref().and_then(|text| with_chap(text, Credentials::Session, chap));
        let new = new.ok_or_else(|| unexpected(format!("{}, an incomplete record", file.path)))?;
        if Some(&new) != text.as_ref() {
            lock.replace(host, &file, &new).map_err(IscsiError::io(&doing))?;
        }
    }
    Ok(())
}

/// Removes records that are incomplete after a power cut: iscsiadm can't use, replace or remove them.
fn remove_broken(host: &Host, target: &Iqn, portal: &Portal) -> std::io::Result<()> {
    let lock = DatabaseLock::take(host)?; // also removes a stale lock, for which iscsiadm would wait
    for file in node_files(host, target, portal)? {
        if lock.read(host, &file)?.is_none() {
            tracing::warn!("removing {}, an incomplete record", file.path);
            lock.remove(host, &file)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        host::{iscsi::tests::Fixture, transcript::Transcript},
        terms::Secret,
    };

    const TARGET: &str = "iqn.2024-02.com.example:etcd";
    const NODE: &str = "iscsiadm -m node -T iqn.2024-02.com.example:etcd -p 10.0.0.1:3260";
    const STORED: &str = "# BEGIN RECORD 2.1.11\nnode.name = iqn.2024-02.com.example:etcd\n\
        node.session.auth.authmethod = None\nnode.session.auth.chap_algs = MD5\n# END RECORD\n";

    fn terms() -> (Iqn, Portal, Chap) {
        let chap = Chap::new("initiator1".into(), Secret::new("secretsecret1".into()), None).unwrap();
        (TARGET.parse().unwrap(), "10.0.0.1".parse().unwrap(), chap)
    }

    #[test]
    fn shown_records() {
        // Recorded from open-iscsi 2.1.8, shortened; the second as bound to an interface.
        let one = "# BEGIN RECORD 2.1.8\nnode.startup = manual\niface.net_ifacename = <empty>\n\
            node.session.auth.password = ********\nnode.session.scan = auto\n# END RECORD\n";
        let other = one.replace("<empty>", "eth1").replace("auto", "manual");
        let Record(record) = parse_records(one).unwrap();
        assert_eq!(record["iface.net_ifacename"], "");
        assert_eq!((record["node.session.auth.password"].as_str(), record.len()), ("********", 4));
        let Record(record) = parse_records(&format!("{one}{other}")).unwrap();
        assert_eq!(record.keys().collect::<Vec<_>>(), ["node.session.auth.password", "node.startup"]);
        for text in [
            "",
            "# END RECORD\n",
            "# BEGIN RECORD 2.1.8\n",
            "# BEGIN RECORD 2.1.8\nnode.startup = manual\n",
            "# BEGIN RECORD 2.1.8\n# BEGIN RECORD 2.1.8\n# END RECORD\n",
            "# BEGIN RECORD 2.1.8\nnode.startup\n# END RECORD\n",
            "artup = manual\n# END RECORD\n",
            "# BEGIN RECORD 2.1.8\n# END RECORD\n\u{1b}[2J\n",
        ] {
            let found = parse_records(text).unwrap_err();
            assert!(!found.contains('\u{1b}'), "{found}");
        }
    }

    #[test]
    fn absent_is_none_and_failure_is_an_error() {
        let (target, portal, _) = terms();
        let none = Transcript::default().on(NODE, 21, "", "iscsiadm: No records found\n");
        assert_eq!(record(&Fixture::with("none", none).host, &target, &portal).unwrap(), None);
        let failure = Transcript::default().on(NODE, 6, "", "iscsiadm: no lock\n");
        let error = record(&Fixture::with("six", failure).host, &target, &portal).unwrap_err();
        assert!(matches!(error, IscsiError::Exit { exit: IscsiExit::Database, .. }), "{error}");
        let nothing = Transcript::default().on(NODE, 0, "", "");
        assert!(record(&Fixture::with("nothing", nothing).host, &target, &portal).is_err());
    }

    #[test]
    fn secret_goes_into_the_file_and_nowhere_else() {
        let (target, portal, chap) = terms();
        let update = format!("{NODE} -o update -n node.startup -v manual -n node.session.scan -v manual");
        let transcript = Transcript::default().on(&update, 0, "", "");
        let calls = transcript.calls();
        let fixture = Fixture::with("secret", transcript);
        let path = format!("/var/lib/iscsi/nodes/{TARGET}/10.0.0.1,3260,1/default");
        fixture.file(&path, STORED);
        let settings = [("node.startup", "manual"), ("node.session.scan", "manual")];
        write_record(&fixture.host, &target, &portal, Some(1), &settings, Some(&chap)).unwrap();
        assert!(fixture.host.root.read(&path).unwrap().contains("password = secretsecret1\n"));
        assert_eq!(*calls.borrow(), [update]);
        write_record(&fixture.host, &target, &portal, Some(1), &[], None).unwrap();
        assert_eq!(fixture.host.root.read(&path).unwrap(), STORED);
        let leak = [("node.session.auth.password", "secretsecret1")];
        assert!(write_record(&fixture.host, &target, &portal, Some(1), &leak, None).is_err());
    }

    #[test]
    fn broken_record_is_made_anew_and_a_missing_one_is_an_error() {
        let (target, portal, _) = terms();
        let new = format!("{NODE},1 -o new");
        let fixture = Fixture::with("broken", Transcript::default().on(&new, 0, "", ""));
        let path = format!("/etc/iscsi/nodes/{TARGET}/10.0.0.1,3260,1/default");
        fixture.file(&path, "# BEGIN RECORD 2.1.8\nnode.name = iqn.20");
        // This iscsiadm keeps its records in a directory that we don't know.
        let error = write_record(&fixture.host, &target, &portal, Some(1), &[], None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "writing the record of iqn.2024-02.com.example:etcd at 10.0.0.1:3260: found no such record in \
             /var/lib/iscsi or /etc/iscsi after iscsiadm made it"
        );
        assert_eq!(fixture.host.root.read_opt(&path).unwrap(), None);
    }
}

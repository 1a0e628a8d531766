//! Node records: how open-iscsi logs in to a target at a portal.

use super::{
    DATABASE_LIMIT, IscsiError, IscsiExit,
    database::{CHAP_ALGS, Credentials, DATABASES, node_files, set_credentials},
    iscsiadm,
};
use crate::Host;
use std::collections::BTreeMap;
use terms::{Chap, INTERFACE, Iqn, Portal};

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

/// The settings of our records beside open-iscsi's defaults and the credentials.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// This line is in every record that etcd-lun has ever made.
    pub fixed: &'a [(&'a str, &'a str)],
    /// From the config.
    pub of_config: &'a [(&'a str, &'a str)],
}

/// Makes our interface's record of a target at a portal anew, with these settings and exactly these credentials. So a
/// setting that is no longer in the config has open-iscsi's default again. `tpgt` is the portal group tag, if discovery
/// reported one. The record is for the next log-in of this process only ([`super::use_own_database`]).
///
/// The secret is never an argument of a program. It is written into the record's file.
/// iscsiadm does the same: every `-o update` reads that file and rewrites it (`idbm_node_set_param`, usr/idbm.c), and
/// every login reads it.
pub fn write_record(
    host: &Host,
    target: &Iqn,
    portal: &Portal,
    tpgt: Option<u16>,
    settings: Settings<'_>,
    chap: Option<&Chap>,
) -> Result<(), IscsiError> {
    let doing = format!("writing the record of {target} at {portal}");
    let unexpected = |found: String| IscsiError::Unexpected { doing: doing.clone(), found };
    let all: Vec<_> = settings.fixed.iter().chain(settings.of_config).copied().collect();
    if let Some((name, _)) = all.iter().find(|(name, _)| name.contains("password")) {
        return Err(unexpected(format!("the setting {name}: it is secret, and everyone can read arguments")));
    }
    let run = |address: &str, args: &[&str]| {
        let node = ["-m", "node", "-T", target.as_str(), "-p", address, "-I", INTERFACE, "-o"];
        iscsiadm(host, &doing, &[&node, args].concat(), DATABASE_LIMIT, chap)
    };
    let tag = tpgt.map(|tpgt| format!(",{tpgt}")).unwrap_or_default();
    run(&format!("{portal}{tag}"), &["new"])?;
    if !all.is_empty() {
        let pairs = all.iter().flat_map(|(name, value)| ["-n", name, "-v", value]);
        run(&portal.to_string(), &std::iter::once("update").chain(pairs).collect::<Vec<_>>())?;
    }
    let files = node_files(host, target, portal).map_err(IscsiError::io(&doing))?;
    let Some(file) = files.first() else {
        return Err(unexpected(format!("no record in {} after iscsiadm made it", DATABASES.join(" or "))));
    };
    let text = set_credentials(host, file, Credentials::Session, chap).map_err(IscsiError::io(&doing))?;
    let text = text.ok_or_else(|| unexpected(format!("{file}, an incomplete record")))?;
    match unknown_alg(&text, &all) {
        Some(alg) => Err(IscsiError::UnknownAlg { doing, alg: alg.to_owned(), file: file.clone() }),
        None => Ok(()),
    }
}

/// An algorithm of the settings that isn't in the record: iscsiadm ignores names that it doesn't know, with exit code 0
/// (seen with 2.1.8). Without it the session would be less safe than the config says.
fn unknown_alg<'a>(text: &str, settings: &[(&str, &'a str)]) -> Option<&'a str> {
    let (_, wanted) = settings.iter().find(|(key, _)| *key == CHAP_ALGS)?;
    let taken = text.lines().find_map(|line| line.strip_prefix(CHAP_ALGS)?.strip_prefix(" = "));
    wanted.split(',').find(|alg| !taken.is_some_and(|taken| taken.split(',').any(|one| one.trim() == *alg)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{iscsi::tests::Fixture, transcript::Transcript};
    use terms::Secret;

    const TARGET: &str = "iqn.2024-02.com.example:etcd";
    const NODE: &str = "iscsiadm -m node -T iqn.2024-02.com.example:etcd -p 10.0.0.1:3260";
    const STORED: &str = "# BEGIN RECORD 2.1.11\nnode.name = iqn.2024-02.com.example:etcd\n\
        iface.iscsi_ifacename = etcd-lun\nnode.session.auth.authmethod = None\nnode.session.auth.chap_algs = MD5\n# END RECORD\n";

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

    const NEW: &str =
        "iscsiadm -m node -T iqn.2024-02.com.example:etcd -p 10.0.0.1:3260,1 -I etcd-lun -o new";
    const UPDATE: &str = "iscsiadm -m node -T iqn.2024-02.com.example:etcd -p 10.0.0.1:3260 -I etcd-lun -o update \
        -n node.startup -v manual -n node.session.scan -v manual";
    const SETTINGS: Settings<'_> =
        Settings { fixed: &[("node.startup", "manual")], of_config: &[("node.session.scan", "manual")] };

    fn dir() -> String {
        format!("/var/lib/iscsi/nodes/{TARGET}")
    }

    /// A database in which iscsiadm's `-o new` makes the record `STORED`.
    fn fixture(name: &str) -> (Fixture, crate::transcript::Calls) {
        let path = Fixture::base(name).join(&dir()[1..]).join("10.0.0.1,3260,1/etcd-lun");
        let transcript = Transcript::default().writing(NEW, path, STORED).on(UPDATE, 0, "", "");
        let calls = transcript.calls();
        (Fixture::with(name, transcript), calls)
    }

    #[test]
    fn secret_goes_into_the_file_and_nowhere_else() {
        let (target, portal, chap) = terms();
        let (fixture, calls) = fixture("secret");
        let path = format!("{}/10.0.0.1,3260,1/etcd-lun", dir());
        write_record(&fixture.host, &target, &portal, Some(1), SETTINGS, Some(&chap)).unwrap();
        assert!(fixture.host.root.read(&path).unwrap().contains("password = secretsecret1\n"));
        assert_eq!(*calls.borrow(), [NEW, UPDATE]);
        write_record(&fixture.host, &target, &portal, Some(1), SETTINGS, None).unwrap();
        assert_eq!(fixture.host.root.read(&path).unwrap(), STORED);
        let leak = Settings { fixed: &[("node.session.auth.password", "secretsecret1")], of_config: &[] };
        assert!(write_record(&fixture.host, &target, &portal, Some(1), leak, None).is_err());
    }

    #[test]
    fn an_algorithm_that_iscsiadm_ignores_is_an_error() {
        let settings = [("node.startup", "manual"), (CHAP_ALGS, "SHA3-256,SHA256")];
        for (line, unknown) in [
            ("node.session.auth.chap_algs = SHA3-256,SHA256\n", None),
            ("node.session.auth.chap_algs = SHA256\n", Some("SHA3-256")),
            ("", Some("SHA3-256")),
        ] {
            assert_eq!(unknown_alg(&format!("# BEGIN RECORD\n{line}"), &settings), unknown, "{line}");
        }
        assert_eq!(unknown_alg("", &[("node.startup", "manual")]), None);
    }

    #[test]
    fn a_missing_record_is_an_error() {
        let (target, portal, _) = terms();
        let transcript = Transcript::default().on(NEW, 0, "", "").on(UPDATE, 0, "", "");
        let fixture = Fixture::with("missing", transcript);
        // This iscsiadm keeps its records in a directory that we don't know.
        let error = write_record(&fixture.host, &target, &portal, Some(1), SETTINGS, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "writing the record of iqn.2024-02.com.example:etcd at 10.0.0.1:3260: found no record in \
             /var/lib/iscsi or /etc/iscsi after iscsiadm made it"
        );
    }
}

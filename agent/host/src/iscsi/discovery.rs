//! SendTargets discovery: the targets that a portal reports. Sample:
//!
//! ```text
//! 10.77.0.1:3260,1 iqn.2024-02.com.example:etcd
//! [2001:db8::1]:3260,1 iqn.2024-02.com.example:etcd
//! ```

use super::{
    DATABASE_LIMIT, IscsiError, IscsiExit,
    command::ended,
    database::{Credentials, discovery_file, set_credentials},
    iscsiadm,
};
use crate::{Host, Invocation, Output, Tool};
use std::{collections::BTreeSet, io, net::Ipv6Addr, time::Duration};
use terms::{Chap, INTERFACE, Iqn, Portal};

/// A target at one of its portals, as it was announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// The target's name, as text: it need not be a name that [`Iqn`] accepts.
    pub target: String,
    /// Where it can be reached; none if the address is none that this node could use, such as a link-local one.
    pub portal: Option<Portal>,
    /// The portal group tag.
    pub tpgt: Option<u16>,
}

impl IscsiError {
    /// The error for a discovery that found other targets, or none.
    pub fn not_announced(portal: &Portal, target: &Iqn, found: &Announced) -> Self {
        let names: BTreeSet<_> = found.targets.iter().map(|one| one.target.as_str()).collect();
        let mut announced = match names.is_empty() {
            true => "none".to_owned(),
            false => names.into_iter().collect::<Vec<_>>().join(", "),
        };
        if let Some(line) = found.skipped.first() {
            announced += &format!(
                " that can be read: {} of the answer's lines could not, such as {line}; `discovery = \"static\"` in [target] logs in without asking",
                found.skipped.len()
            );
        }
        Self::NotAnnounced { portal: portal.clone(), target: target.clone(), announced }
    }
}

/// The answer of a portal.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The targets, each at each of its portals.
    pub targets: Vec<Discovered>,
    /// The lines that could not be read, without control characters. A line may be odd and concern another target or a portal
    /// that the config does not name.
    pub skipped: Vec<String>,
}

/// Asks a portal for its targets, with the initiator name of our interface, and with these credentials or without
/// any. Returns how iscsiadm ended: [`announced`] reads that. iscsiadm asks the kernel for the handle of its transport, which needs
/// `CAP_SYS_ADMIN` (`show_transport_handle`, drivers/scsi/scsi_transport_iscsi.c).
///
/// `-o nonpersistent` makes no node records, but it uses the portal's discovery record (`exec_discover`, usr/iscsiadm.c). The
/// secret is written into that record, so that it is no argument of a program. The record is of this discovery only, where
/// nobody else sees it ([`super::use_own_database`]).
pub fn ask(host: &Host, portal: &Portal, chap: Option<&Chap>, limit: Duration) -> Result<Output, IscsiError> {
    let doing = of(portal);
    let text = portal.to_string();
    let of_portal = ["-m", "discoverydb", "-t", "sendtargets", "-p", &text];
    let io = IscsiError::io(&doing);
    iscsiadm(host, &doing, &[&of_portal[..], &["-o", "new"]].concat(), DATABASE_LIMIT, chap)?;
    let absent =
        || io::Error::other("iscsiadm has made no complete discovery record in /var/lib/iscsi or /etc/iscsi");
    let record = discovery_file(host, portal).and_then(|file| file.ok_or_else(absent)).map_err(&io)?;
    set_credentials(host, &record, Credentials::Discovery, chap)
        .and_then(|text| text.ok_or_else(absent))
        .map_err(&io)?;
    let asks = [&of_portal[..], &["-I", INTERFACE, "-D", "-o", "nonpersistent"]].concat();
    let what = Invocation::new(Tool::Iscsiadm, asks);
    host.run(&what.limit(limit)).map_err(|source| IscsiError::Exec { doing: doing.clone(), source })
}

/// The targets that a portal has announced, from how iscsiadm ended. If there are none, the list is empty.
pub fn announced(portal: &Portal, output: &Output, chap: Option<&Chap>) -> Result<Announced, IscsiError> {
    let found = match ended(&of(portal), output, chap) {
        Ok(()) => Ok(parse_discovered(&output.stdout)),
        // iscsiadm has this exit code for a portal without targets (usr/discovery.c, `setup_portal`).
        Err(IscsiError::Exit { exit: IscsiExit::NothingFound, said, .. }) if said.contains(NO_ADDRESS) => {
            Err(IscsiError::Unresolved { portal: portal.clone(), said })
        }
        Err(IscsiError::Exit { exit: IscsiExit::NothingFound, .. }) => Ok(Announced::default()),
        Err(error) => Err(error),
    }?;
    for line in &found.skipped {
        tracing::debug!("{portal} announces {line}, which is skipped");
    }
    Ok(found)
}

fn of(portal: &Portal) -> String {
    format!("asking {portal} for its targets")
}

/// iscsiadm's message for a portal with a name that it cannot resolve.
const NO_ADDRESS: &str = "cannot resolve host name";

/// Parses `HOST:PORT,TAG NAME` lines. Of a target the name and the tag are needed, and not its address: only the portals of the
/// config are used.
pub fn parse_discovered(text: &str) -> Announced {
    let parse = |line: &str| {
        let (address, target) = line.split_once(' ')?;
        let (address, tag) = address.rsplit_once(',')?;
        // iscsiadm prints an unknown tag as -1, or as 4294967295, which is -1 without its sign.
        let tpgt = if matches!(tag, "-1" | "4294967295") { None } else { Some(tag.parse().ok()?) };
        let name = !target.is_empty() && target.chars().all(|c| !c.is_control() && !c.is_whitespace());
        name.then_some(())?;
        Some(Discovered { target: target.to_owned(), portal: parse_portal(address), tpgt })
    };
    let mut found = Announced::default();
    for line in text.lines() {
        match parse(line) {
            Some(one) => found.targets.push(one),
            None => found.skipped.push(format!("`{}`", line.escape_debug())),
        }
    }
    found
}

/// iscsiadm puts brackets around every host without a dot: around IPv6 addresses, and also around short names
/// (`idbm_print_node_flat`, usr/idbm.c).
fn parse_portal(text: &str) -> Option<Portal> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // Parsed like the portals in the config: what is wrong there, such as port 0, is wrong here too.
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]:{port}").parse().ok(),
        Err(_) => format!("{host}:{port}").parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{iscsi::tests::Fixture, transcript::Transcript};
    use terms::Secret;

    const DISCOVERY: &str = "iscsiadm -m discoverydb -t sendtargets -p 10.0.0.1:3260";
    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn answers() {
        let text = "10.77.0.1:3260,1 iqn.2024-02.com.example:etcd\n\
            [fd00:99::1]:3260,2 iqn.1992-08.com.NetApp:SN.1\n\
            [san1]:860,-1 iqn.2024-02.com.example:etcd\n\
            ::ffff:10.0.0.1:3260,4294967295 eui.02004567a425678d\n";
        let Announced { targets: found, skipped } = parse_discovered(text);
        assert_eq!(skipped, [""; 0]);
        let shown: Vec<_> =
            found.iter().map(|one| (one.portal.as_ref().unwrap().to_string(), one.tpgt)).collect();
        assert_eq!(
            shown,
            [
                ("10.77.0.1:3260".to_owned(), Some(1)),
                ("[fd00:99::1]:3260".to_owned(), Some(2)),
                ("san1:860".to_owned(), None),
                ("[::ffff:10.0.0.1]:3260".to_owned(), None),
            ]
        );
        assert_eq!(found[1].target, "iqn.1992-08.com.NetApp:SN.1");
        assert_eq!(parse_discovered(""), Announced::default());
        for text in [
            "No targets",
            "10.77.0.1:3260,1",
            "10.77.0.1:3260,1 ",
            "10.77.0.1:3260 iqn.2024-02.com.example:etcd",
            "10.77.0.1:3260,70000 iqn.2024-02.com.example:etcd",
            "10.77.0.1:3260,1 iqn.2024-02.com.example:\u{1b}[2J",
        ] {
            let found = parse_discovered(text);
            assert!(found.targets.is_empty() && found.skipped.len() == 1, "{text}: {found:?}");
            assert!(!found.skipped[0].contains('\u{1b}'), "{found:?}");
        }
    }

    /// SCST and TrueNAS announce link-local addresses, others names with `_` or port 0.
    #[test]
    fn an_odd_line_hides_no_other() {
        let ours = "10.77.0.1:3260,1 iqn.2024-02.com.example:etcd";
        for odd in [
            "[fe80::1%2]:3260,1 iqn.2024-02.com.example:other",
            "[fe80::1%enp0s9]:3260,1 iqn.2024-02.com.example:etcd",
            "san_1.example:3260,1 iqn.2024-02.com.example:etcd",
            "10.77.0.9:0,1 iqn.2024-02.com.example:other",
            "10.77.0.9:3260,1 iqn.2024-02.com.example:with a blank",
            "",
        ] {
            for text in [format!("{odd}\n{ours}\n"), format!("{ours}\n{odd}\n")] {
                let found = parse_discovered(&text);
                let here: Vec<_> = found.targets.iter().filter(|one| one.portal.is_some()).collect();
                assert_eq!(here.len(), 1, "{text}");
                assert_eq!(
                    (here[0].target.as_str(), here[0].tpgt),
                    ("iqn.2024-02.com.example:etcd", Some(1))
                );
            }
        }
        let (portal, target): (Portal, Iqn) =
            ("10.0.0.1".parse().unwrap(), "iqn.2024-02.com.example:etcd".parse().unwrap());
        let error = IscsiError::not_announced(&portal, &target, &parse_discovered("garbage")).to_string();
        assert!(error.contains("`garbage`") && error.contains("discovery = \"static\""), "{error}");
    }

    #[test]
    fn the_secret_is_in_the_record_whatever_the_answer_is() {
        let chap = Chap::new("disco".into(), Secret::new("secretsecret1".into()), None).unwrap();
        let text = "# BEGIN RECORD 2.1.8\ndiscovery.sendtargets.address = 10.0.0.1\n\
            discovery.sendtargets.auth.authmethod = None\n# END RECORD\n";
        let no_address = "iscsiadm: cannot resolve host name target-late\niscsiadm: No portals found\n";
        for (code, stdout, stderr) in [
            (0, "10.0.0.1:3260,1 iqn.2024-02.com.example:etcd\n", ""),
            (21, "", "iscsiadm: No portals found\n"),
            (21, "", no_address),
            (24, "", ""),
        ] {
            let path = "/etc/iscsi/send_targets/10.0.0.1,3260/st_config";
            let made = Fixture::base("disc").join(&path[1..]);
            let asks = format!("{DISCOVERY} -I etcd-lun -D -o nonpersistent");
            let transcript = Transcript::default()
                .writing(&format!("{DISCOVERY} -o new"), made, text)
                .on(&asks, code, stdout, stderr);
            let calls = transcript.calls();
            let fixture = Fixture::with("disc", transcript);
            let portal = "10.0.0.1".parse().unwrap();
            let output = ask(&fixture.host, &portal, Some(&chap), LIMIT).unwrap();
            let result = announced(&portal, &output, Some(&chap));
            match code {
                24 => assert!(!result.unwrap_err().is_transient()),
                _ if stderr == no_address => {
                    let error = result.unwrap_err();
                    assert!(
                        error.is_transient() && matches!(error, IscsiError::Unresolved { .. }),
                        "{error}"
                    );
                }
                code => assert_eq!(result.unwrap().targets.len(), usize::from(code == 0)),
            }
            assert!(fixture.host.root.read(path).unwrap().contains("password = secretsecret1\n"));
            assert_eq!(calls.borrow().len(), 2);
        }
    }
}

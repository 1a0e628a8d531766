//! What the service asks of portals: a process of its own does it, in a domain that reaches portals and has nothing else of the
//! node. So the service itself connects to no target: iscsid does, at its log-in.

use super::{Door, Requester};
use anyhow::{Context as _, anyhow};
use host::{
    Host, Output,
    iscsi::{self, Announced, IscsiError},
    line_socket, route,
};
use serde::{Deserialize, Serialize};
use std::{io, os::fd::AsFd, time::Duration};
use terms::{Chap, ChapAlg, Iqn, Portal, Secret};
use unit::PORTALS_PATH;

/// How long a portal may take to answer a discovery.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(30);
/// The process waits for iscsiadm three times at most, with a limit each.
const LIMIT: Duration = Duration::from_secs(110);

/// What is asked.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Question {
    portal: Portal,
    /// For its targets. Without it, the question is whether it accepts a connection.
    discovery: Option<Discovery>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Discovery {
    initiator: Iqn,
    account: Option<Account>,
}

/// The credentials of a discovery. The type has no `Debug`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Account {
    username: String,
    password: String,
    mutual: Option<(String, String)>,
    algs: Vec<ChapAlg>,
}

/// What was found out.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Told {
    Accepts(bool),
    /// The end of iscsiadm.
    Iscsiadm(Output),
}

impl Account {
    fn of(chap: &Chap) -> Self {
        let text = |secret: &Secret| secret.reveal().to_owned();
        Self {
            username: chap.username().to_owned(),
            password: text(chap.password()),
            mutual: chap.mutual().map(|(name, secret)| (name.to_owned(), text(secret))),
            algs: chap.algs().to_vec(),
        }
    }

    fn chap(self) -> anyhow::Result<Chap> {
        let mutual = self.mutual.map(|(name, secret)| (name, Secret::new(secret)));
        Ok(Chap::new(self.username, Secret::new(self.password), mutual)?.with_algs(&self.algs))
    }
}

impl Door<'_> {
    /// True if a portal accepts a connection. It ends at once; nothing is said.
    pub fn accepts(&self, portal: &Portal) -> bool {
        match self.requester {
            Requester::Person => route::accepts(portal),
            Requester::Service => {
                let told = self.ask(&Question { portal: portal.clone(), discovery: None });
                told.is_ok_and(|told| matches!(told, Told::Accepts(true)))
            }
        }
    }

    /// Asks a portal for its targets. Returns none where the process for that cannot be asked: the units may be those of an earlier
    /// release. A person's iscsiadm has its records in the database of this process ([`iscsi::use_own_database`]).
    pub fn discover(
        &self,
        portal: &Portal,
        initiator: &Iqn,
        chap: Option<&Chap>,
    ) -> Result<Option<Announced>, IscsiError> {
        let output = match self.requester {
            Requester::Person => iscsi::ask(self.host, portal, chap, DISCOVERY_LIMIT)?,
            Requester::Service => {
                let account = chap.map(Account::of);
                let discovery = Some(Discovery { initiator: initiator.clone(), account });
                let told = self.ask(&Question { portal: portal.clone(), discovery });
                let ended = told.and_then(|told| match told {
                    Told::Iscsiadm(output) => Ok(output),
                    Told::Accepts(_) => Err(anyhow!("another question was answered")),
                });
                match ended {
                    Ok(output) => output,
                    Err(error) => {
                        tracing::warn!("logging in without asking {portal} for its targets: {error:#}");
                        return Ok(None);
                    }
                }
            }
        };
        iscsi::announced(portal, &output, chap).map(Some)
    }

    fn ask(&self, question: &Question) -> anyhow::Result<Told> {
        let text = serde_json::to_string(question)?;
        let heard = line_socket::ask(self.host, PORTALS_PATH, &format!("{text}\n"), LIMIT);
        let text = heard.context("see `systemctl status etcd-lun-portals.socket`")?.text;
        let told: Result<Told, String> =
            serde_json::from_str(&text).context("see `journalctl -u 'etcd-lun-portals@*'`")?;
        told.map_err(anyhow::Error::msg)
    }
}

/// Finds out what the text asks for, and answers over the connection. The directories of open-iscsi must be this process's own.
pub fn serve_portals(host: &Host, text: &str, to: impl AsFd) -> io::Result<()> {
    let told = found_out(host, text).map_err(|error| format!("{error:#}"));
    let text = serde_json::to_string::<Result<Told, String>>(&told).map_err(io::Error::other)?;
    line_socket::answer(to, &text, None)
}

fn found_out(host: &Host, text: &str) -> anyhow::Result<Told> {
    let Question { portal, discovery } =
        serde_json::from_str(text).context("the question has another form: it is of another version")?;
    let Some(Discovery { initiator, account }) = discovery else {
        return Ok(Told::Accepts(route::accepts(&portal)));
    };
    let chap = account.map(Account::chap).transpose()?;
    iscsi::fill_database(host, &initiator).context("making open-iscsi's interface")?;
    let mut output = iscsi::ask(host, &portal, chap.as_ref(), DISCOVERY_LIMIT)?;
    // It cannot ask iscsid for its config here, says so, and takes the usual one (`get_config_file`, usr/iscsiadm.c).
    let said: Vec<_> = output.stderr.lines().filter(|line| !line.contains("IPC socket")).collect();
    output.stderr = said.join("\n");
    Ok(Told::Iscsiadm(output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::Transcript};

    const ASKS: &str = "iscsiadm -m discoverydb -t sendtargets -p 10.0.0.1:3260";

    /// A machine whose iscsiadm makes a record and is answered by the portal.
    fn machine(name: &str) -> (Files, Host) {
        let files = Files::new(name);
        let record = files.0.join("var/lib/iscsi/send_targets/10.0.0.1,3260/st_config");
        let text = "# BEGIN RECORD 2.1.11\ndiscovery.sendtargets.auth.authmethod = None\n# END RECORD\n";
        let transcript = Transcript::default().writing(&format!("{ASKS} -o new"), record, text).on(
            &format!("{ASKS} -I etcd-lun -D -o nonpersistent"),
            0,
            "10.0.0.1:3260,1 iqn.2024-02.com.example:etcd\n",
            "",
        );
        let host = Host::fixture(Root::new(&files.0), Box::new(transcript)).unwrap();
        (files, host)
    }

    #[test]
    fn a_discovery_has_its_own_initiator_name_and_secret() {
        let (_files, host) = machine("portals");
        let chap = Chap::new("disco".into(), Secret::new("secretsecret1".into()), None).unwrap();
        let discovery = Some(Discovery {
            initiator: "iqn.1994-05.com.redhat:master0".parse().unwrap(),
            account: Some(Account::of(&chap)),
        });
        let portal: Portal = "10.0.0.1".parse().unwrap();
        let question = serde_json::to_string(&Question { portal: portal.clone(), discovery }).unwrap();
        let Told::Iscsiadm(output) = found_out(&host, &question).unwrap() else { panic!() };
        let found = iscsi::announced(&portal, &output, Some(&chap)).unwrap();
        assert_eq!(found.targets[0].target, "iqn.2024-02.com.example:etcd");
        for (path, has) in [
            ("etc/iscsi/ifaces/etcd-lun", "iface.initiatorname = iqn.1994-05.com.redhat:master0\n"),
            ("var/lib/iscsi/ifaces/etcd-lun", "iface.initiatorname = iqn.1994-05.com.redhat:master0\n"),
            ("var/lib/iscsi/send_targets/10.0.0.1,3260/st_config", "password = secretsecret1\n"),
        ] {
            let text = host.root.read(format!("/{path}")).unwrap();
            assert!(text.contains(has), "{path}: {text}");
        }
    }

    #[test]
    fn other_questions_are_refused() {
        let (_files, host) = machine("portals-refused");
        for text in [
            "",
            "\"park\"",
            "{\"portal\":\"10.0.0.1;x\",\"discovery\":null}",
            "{\"portal\":\"10.0.0.1\",\"discovery\":{\"initiator\":\"x\",\"account\":null}}",
            "{\"portal\":\"10.0.0.1\",\"discovery\":null,\"run\":\"x\"}",
        ] {
            let error = found_out(&host, text).unwrap_err().to_string();
            assert!(error.starts_with("the question has another form"), "{text}: {error}");
        }
    }
}

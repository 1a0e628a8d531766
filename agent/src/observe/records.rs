//! Observes what our node records say otherwise than the config. Secrets are compared here, and leave nothing behind but
//! the answer.

use super::secrets;
use crate::{
    config::{Config, DIGESTS, record_settings},
    host::{
        Host,
        iscsi::{self, SECRETS},
    },
    node::{Fact, PortalRecord, RecordPart},
};
use std::io;

/// The records of the target's portals; of those that the config does not name, only that they exist. Of a secret that is a
/// credential of the service, only the service knows the text, so the credentials are not compared then.
pub(super) fn records(host: &Host, config: &Config, multipathd: &Fact<bool>) -> Fact<Vec<PortalRecord>> {
    let Some(iscsi) = config.backing.iscsi() else {
        return Fact::Unknown("not looked at: the config names a device, and no target".into());
    };
    let runs = match multipathd {
        Fact::Known(runs) => *runs,
        Fact::Unknown(why) => return Fact::Unknown(why.clone()),
    };
    let secrets = secrets::load(host, config, None).ok();
    let chap = secrets.as_ref().map(|secrets| secrets.session.as_ref());
    let [interval, timeout] = iscsi.target.timeouts.pings(iscsi.target.has_paths(runs));
    let settings = record_settings(interval, timeout, iscsi.target.digests);
    let look = || -> io::Result<Vec<PortalRecord>> {
        let mut records = Vec::new();
        for portal in &iscsi.target.portals {
            if let Some(keys) = iscsi::differences(host, &iscsi.target.iqn, portal, &settings, chap)? {
                records.push(PortalRecord { portal: portal.clone(), differs: parts(&keys) });
            }
        }
        for portal in iscsi::recorded(host, &iscsi.target.iqn)? {
            if !iscsi.target.portals.contains(&portal) {
                records.push(PortalRecord { portal, differs: Vec::new() });
            }
        }
        Ok(records)
    };
    look().into()
}

fn parts(keys: &[&str]) -> Vec<RecordPart> {
    let part = |key: &&str| match *key {
        key if SECRETS.contains(&key) => RecordPart::ChapSecret,
        key if key.starts_with("node.session.auth.") => RecordPart::ChapName,
        key if DIGESTS.contains(&key) => RecordPart::Digests,
        _ => RecordPart::Timeouts,
    };
    let mut parts: Vec<_> = keys.iter().map(part).collect();
    parts.sort();
    parts.dedup();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_the_words_of_the_config() {
        let keys = [
            "node.conn[0].timeo.noop_out_timeout",
            SECRETS[1],
            SECRETS[0],
            DIGESTS[0],
            DIGESTS[1],
            "node.session.auth.username",
        ];
        let expected =
            [RecordPart::Timeouts, RecordPart::Digests, RecordPart::ChapName, RecordPart::ChapSecret];
        assert_eq!(parts(&keys), expected);
    }
}

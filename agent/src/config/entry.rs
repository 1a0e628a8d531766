//! Which `[[node]]` entry this host takes.

use super::{ConfigError, fragment::NodeFragment};
use crate::terms::{Iqn, LunNumber, Wwid};
use serde::Serialize;
use std::collections::BTreeSet;

/// The entry of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeEntry {
    /// The host name or machine id that it was chosen by.
    pub name: String,
    /// What it was chosen by, as written.
    pub chosen_by: String,
    /// The initiator name of this node.
    pub initiator: Iqn,
    /// The LUN's number at the target.
    pub lun: LunNumber,
    /// The LUN's WWID, when the config insists on one.
    pub wwid: Option<Wwid>,
}

/// The one entry that matches: by machine id, or by host name, short or fully qualified. A short
/// name in the config matches a node that knows itself by its FQDN, and the other way round; two
/// different FQDNs never match.
pub(super) fn choose(
    entries: &[NodeFragment],
    machine_id: &str,
    hostname: &str,
) -> Result<NodeEntry, ConfigError> {
    named_once(entries)?;
    let matching: Vec<_> = entries.iter().filter(|entry| matches(entry, machine_id, hostname)).collect();
    let names = |entries: &[&NodeFragment]| entries.iter().map(|entry| title(entry)).collect::<Vec<_>>();
    match matching.as_slice() {
        [entry] => whole(entry),
        [] => Err(ConfigError::NoEntry {
            hostname: hostname.to_owned(),
            machine_id: machine_id.to_owned(),
            tried: names(&entries.iter().collect::<Vec<_>>()),
        }),
        several => Err(ConfigError::SeveralEntries {
            hostname: hostname.to_owned(),
            machine_id: machine_id.to_owned(),
            matching: names(several),
        }),
    }
}

/// All entries, each whole, none twice.
pub(super) fn all(entries: &[NodeFragment]) -> Result<Vec<NodeEntry>, ConfigError> {
    if entries.is_empty() {
        return Err(ConfigError::Missing { key: "node.hostname", example: "\"master-0\"" });
    }
    named_once(entries)?;
    let (mut names, mut initiators) = (BTreeSet::new(), BTreeSet::new());
    let nodes = entries.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
    for node in &nodes {
        if !names.insert(node.name.to_ascii_lowercase()) {
            let found = format!("two entries for {}", node.name);
            return Err(ConfigError::value("node", &found, "one for each node"));
        }
        if !initiators.insert(&node.initiator) {
            let found = format!("{} in two entries", node.initiator);
            return Err(ConfigError::value("node.initiator", &found, "a name of its own for each node"));
        }
    }
    Ok(nodes)
}

fn whole(entry: &NodeFragment) -> Result<NodeEntry, ConfigError> {
    let missing = |key, example| ConfigError::Missing { key, example };
    Ok(NodeEntry {
        name: entry.hostname.clone().or_else(|| entry.machine_id.clone()).unwrap_or_default(),
        chosen_by: title(entry),
        initiator: entry
            .initiator
            .clone()
            .ok_or_else(|| missing("node.initiator", "\"iqn.1994-05.com.redhat:master0\""))?,
        lun: entry.lun.ok_or_else(|| missing("node.lun", "1"))?,
        wwid: entry.wwid.clone(),
    })
}

fn named_once(entries: &[NodeFragment]) -> Result<(), ConfigError> {
    for entry in entries {
        let named = [entry.hostname.is_some(), entry.machine_id.is_some()];
        if named.iter().filter(|given| **given).count() != 1 {
            let path = &entry.written_in;
            return Err(ConfigError::value(
                "node",
                &format!(
                    "an entry in {path} with {}",
                    if named[0] { "both hostname and machine_id" } else { "neither hostname nor machine_id" }
                ),
                "exactly one of the two",
            ));
        }
    }
    Ok(())
}

fn matches(entry: &NodeFragment, machine_id: &str, hostname: &str) -> bool {
    if let Some(wanted) = &entry.machine_id {
        return wanted.eq_ignore_ascii_case(machine_id);
    }
    let Some(wanted) = &entry.hostname else { return false };
    let (wanted, own) = (wanted.trim_end_matches('.'), hostname.trim_end_matches('.'));
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    if wanted.contains('.') && own.contains('.') {
        return wanted.eq_ignore_ascii_case(own);
    }
    !own.is_empty() && short(wanted) == short(own)
}

/// How an entry is named in messages.
fn title(entry: &NodeFragment) -> String {
    let file = &entry.written_in;
    match (&entry.hostname, &entry.machine_id) {
        (Some(name), _) => format!("hostname = \"{name}\" in {file}"),
        (None, Some(id)) => format!("machine_id = \"{id}\" in {file}"),
        (None, None) => format!("an unnamed entry in {file}"),
    }
}

//! What must hold for the `[[node]]` entries: each by itself, and beside the others.

use super::{
    backing::IscsiNode,
    error::ConfigError,
    parts::{NodeEntry, Target},
    pattern::{self, InitiatorName},
    tables::NodeTable,
};
use std::collections::BTreeSet;

/// A target distinguishes nodes by their initiator names. With a name that a pattern gives to another node, this node would see
/// that node's LUN.
pub(super) fn each_with_its_own_initiator(
    target: &Target,
    nodes: &[IscsiNode],
    entries: &[NodeTable],
) -> Result<(), ConfigError> {
    let mut initiators = BTreeSet::new();
    for (at, (node, entry)) in nodes.iter().zip(entries).enumerate() {
        let wrong = |found: String, expected| {
            let found = format!("{}{found}", node.initiator);
            Err(ConfigError::value("node.initiator", &found, expected).at(|_| Some(entry.written_in.clone())))
        };
        let own = "a name of its own for each node";
        match &node.initiator {
            InitiatorName::Whole(name) => {
                if !initiators.insert(name) {
                    return wrong(" in two entries".into(), own);
                }
                if *name == target.iqn {
                    let own = "the node's own name, as the target's access list has it, such as \"iqn.1994-05.com.redhat:master0\"";
                    return wrong(" is the target's name".into(), own);
                }
                for (other, by) in nodes.iter().zip(entries) {
                    let (Some(host), Some(pattern), Some(named)) =
                        (other.initiator.host_of(name), pattern_of(by), &entry.hostname)
                    else {
                        continue;
                    };
                    if pattern::matches(pattern, &host) && !pattern::matches(named, &host) {
                        return wrong(format!(" is what the pattern {pattern} gives to {host}"), own);
                    }
                }
            }
            InitiatorName::OfHost { .. } => {
                for (other, by) in nodes.iter().zip(entries).take(at) {
                    let (Some(one), Some(two)) = (pattern_of(by), pattern_of(entry)) else { continue };
                    // A host that both match has no entry. Two hosts with the same short name would have one initiator name.
                    let meets = pattern::short_names_meet(one, two) && !pattern::names_meet(one, two);
                    if other.initiator == node.initiator && meets {
                        return wrong(format!(" for {one} and {two}, which may be hosts of one name"), own);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Two nodes would share one LUN. A virtio disk has only the serial number that its machine's host gives it, so it is left out.
pub(super) fn each_with_its_own_wwid(entries: &[NodeTable]) -> Result<(), ConfigError> {
    let mut wwids = BTreeSet::new();
    for entry in entries {
        for wwid in named(entry).named().filter(|wwid| !wwid.as_str().starts_with("virtio.")) {
            if !wwids.insert(wwid.clone()) {
                let (key, found) = match entry.wwids.as_ref().is_some_and(|listed| listed.contains(wwid)) {
                    true => ("node.wwids", format!("{wwid} is listed twice, or is in two entries")),
                    false => ("node.wwid", format!("{wwid} in two entries")),
                };
                let error = ConfigError::value(key, &found, "a LUN of its own for each node");
                return Err(error.at(|_| Some(entry.written_in.clone())));
            }
        }
    }
    Ok(())
}

/// Refuses a list of WWIDs that says nothing, or contradicts something else.
pub(super) fn check_wwids(entry: &NodeTable) -> Result<(), ConfigError> {
    let Some(listed) = &entry.wwids else { return Ok(()) };
    let wrong = |found: String, expected| {
        Err(ConfigError::value("node.wwids", &found, expected).at(|_| Some(entry.written_in.clone())))
    };
    if pattern_of(entry).is_none() {
        let expected = "`wwid`: only an entry with a pattern, such as hostname = \"master-*\", has a list";
        return wrong(format!("it is set in the entry {}", title(entry)), expected);
    }
    if entry.lun.is_some() {
        return wrong(format!("`lun` beside it for {}", named(entry).name), "one of the two");
    }
    if listed.is_empty() {
        return wrong(
            "the list is empty".into(),
            "the WWID of a LUN for each node, as `etcd-lun luns` prints it",
        );
    }
    Ok(())
}

/// Refuses a pattern that could give two nodes one initiator name or one LUN.
pub(super) fn check_pattern(target: &Target, entry: &NodeTable) -> Result<(), ConfigError> {
    let wrong = |key, found: String, expected| {
        Err(ConfigError::value(key, &found, expected).at(|_| Some(entry.written_in.clone())))
    };
    let NodeEntry { name, .. } = named(entry);
    if !target.lun_masking {
        let expected = "an entry for each node; or `lun_masking = true` below [target], if the array shows each LUN to one initiator only: without masking two \
            nodes could use one LUN";
        return wrong("node.hostname", format!("the pattern {name}"), expected);
    }
    if let Some(InitiatorName::Whole(initiator)) = &entry.initiator {
        let expected = "`{hostname}` in it, such as \"iqn.2024-02.com.example:{hostname}\": no two nodes have the same name";
        return wrong("node.initiator", format!("{initiator} for all nodes that {name} matches"), expected);
    }
    match &entry.wwid {
        Some(wwid) => wrong("node.wwid", format!("{wwid} for all nodes that {name} matches"), NO_WWID),
        None => Ok(()),
    }
}

const NO_WWID: &str = "`wwids`, a list with a LUN for each node, or none: a WWID is that of one LUN";

/// With a device.
pub(super) const NO_WWID_OF_DISK: &str =
    "none with a pattern: a WWID is that of one disk, and each node has a disk of its own";

pub(super) fn absent(
    key: &'static str,
    given: bool,
    entry: &NodeTable,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if given {
        let found = format!("it is set in the entry {}", title(entry));
        Err(ConfigError::value(key, &found, expected).at(|_| Some(entry.written_in.clone())))
    } else {
        Ok(())
    }
}

pub(super) fn named(entry: &NodeTable) -> NodeEntry {
    NodeEntry {
        name: entry.hostname.clone().or_else(|| entry.machine_id.clone()).unwrap_or_default(),
        chosen_by: title(entry),
        wwid: entry.wwid.clone(),
        wwids: entry.wwids.clone().unwrap_or_default(),
        migrate: entry.migrate,
    }
}

pub(super) fn named_once(entries: &[NodeTable]) -> Result<(), ConfigError> {
    for entry in entries {
        let named = [entry.hostname.is_some(), entry.machine_id.is_some()];
        if named.iter().filter(|given| **given).count() != 1 {
            let path = &entry.written_in;
            let found = if named[0] {
                "an entry with both hostname and machine_id"
            } else {
                "an entry with neither hostname nor machine_id"
            };
            let error = ConfigError::value("node", found, "exactly one of the two");
            return Err(error.at(|_| Some(path.clone())));
        }
    }
    Ok(())
}

/// The pattern of host names of an entry; none in an entry for one node.
pub(super) fn pattern_of(entry: &NodeTable) -> Option<&str> {
    entry.hostname.as_deref().filter(|name| pattern::is_pattern(name))
}

/// The name of an entry in messages.
pub(super) fn title(entry: &NodeTable) -> String {
    let file = &entry.written_in;
    match (&entry.hostname, &entry.machine_id) {
        (Some(name), _) => format!("hostname = \"{name}\" in {file}"),
        (None, Some(id)) => format!("machine_id = \"{id}\" in {file}"),
        (None, None) => format!("an unnamed entry in {file}"),
    }
}

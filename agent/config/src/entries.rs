//! What must hold for the `[[node]]` entries beside each other.

use super::{
    entry_rules::{AtTarget, is_named, named, pattern_of, wrong},
    errors::Errors,
    parts::NodeEntry,
    pattern::{self, InitiatorName},
    tables::NodeTable,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ptr,
};
use terms::{Iqn, LunNumber};

/// No node has two entries.
pub(super) fn each_node_once(entries: &[NodeTable], errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for entry in entries.iter().filter(|entry| is_named(entry)) {
        let NodeEntry { name, .. } = named(entry);
        if !names.insert(name.to_ascii_lowercase()) {
            errors.add(wrong(entry, "node", format!("two entries for {name}"), "one for each node"));
        }
    }
}

/// Returns true if these are two entries of one node. That is an error already, and what else both have says no more.
fn is_repeated(one: &NodeTable, other: &NodeTable) -> bool {
    !ptr::eq(one, other) && named(one).name.eq_ignore_ascii_case(&named(other).name)
}

/// Two nodes would share one LUN. A virtio disk has only the serial number that its machine's host gives it, so it is left out.
pub(super) fn each_with_its_own_wwid(entries: &[NodeTable], errors: &mut Errors) {
    let mut last_of = BTreeMap::new();
    for entry in entries {
        for wwid in entry.wwid.iter().filter(|wwid| !wwid.as_str().starts_with("virtio.")) {
            let Some(other) = last_of.insert(wwid.clone(), entry) else { continue };
            if is_repeated(other, entry) {
                continue;
            }
            let found = format!("{wwid} in two entries");
            errors.add(wrong(entry, "node.wwid", found, "a LUN of its own for each node"));
        }
    }
}

/// Arrays differ in how they address such a LUN, so only its WWID shows that it is the right one.
pub(super) fn each_number_in_one_byte(entries: &[NodeTable], errors: &mut Errors) {
    for entry in entries {
        if let (Some(number), None) = (entry.lun, &entry.wwid)
            && number.0 > LunNumber::ONE_BYTE
        {
            let found = format!("{number} for {}, which has no `wwid`", named(entry).name);
            errors.add(wrong(entry, "node.lun", found, ABOVE_ONE_BYTE));
        }
    }
}

const ABOVE_ONE_BYTE: &str =
    "a number from 0 to 255, or `wwid` beside it: `etcd-lun luns` prints the WWID on the node";

/// A target distinguishes nodes by their initiator names. With a name that a pattern gives to another node, this node would see
/// that node's LUN.
pub(super) fn each_with_its_own_initiator(
    targets: &[AtTarget<'_>],
    entries: &[NodeTable],
    errors: &mut Errors,
) {
    // A name of the wrong form for its entry has an error already.
    let nodes: Vec<(&InitiatorName, &NodeTable)> = entries
        .iter()
        .filter_map(|entry| {
            let name = entry.initiator.as_ref()?;
            let is_pattern = matches!(name, InitiatorName::OfHost { .. });
            (is_pattern == pattern_of(entry).is_some()).then_some((name, entry))
        })
        .collect();
    let mut last_of = BTreeMap::new();
    for (at, (name, entry)) in nodes.iter().enumerate() {
        let earlier = nodes.get(..at).unwrap_or_default();
        let found = match name {
            InitiatorName::Whole(own) => match last_of.insert(own, *entry) {
                Some(other) if is_repeated(other, entry) => None,
                Some(_) => Some((" in two entries".into(), OWN)),
                None if targets.iter().any(|target| target.iqn == Some(own)) => {
                    Some((" is the target's name".into(), OWN_OF_LIST))
                }
                None => given_to_another(own, entry, &nodes).map(|found| (found, OWN)),
            },
            InitiatorName::OfHost { .. } => given_twice(name, entry, earlier).map(|found| (found, OWN)),
        };
        if let Some((found, expected)) = found {
            errors.add(wrong(entry, "node.initiator", format!("{name}{found}"), expected));
        }
    }
}

const OWN: &str = "a name of its own for each node";
const OWN_OF_LIST: &str =
    "the node's own name, as the target's access list has it, such as \"iqn.1994-05.com.redhat:master0\"";

/// Returns true if a pattern gives this name to another node.
fn given_to_another(name: &Iqn, entry: &NodeTable, nodes: &[(&InitiatorName, &NodeTable)]) -> Option<String> {
    let named = entry.hostname.as_ref()?;
    nodes.iter().find_map(|(other, by)| {
        let (host, pattern) = (other.host_of(name)?, pattern_of(by)?);
        let is_other = pattern::matches(pattern, &host) && !pattern::matches(named, &host);
        is_other.then(|| format!(" is what the pattern {pattern} gives to {host}"))
    })
}

/// Returns true if an earlier pattern gives the same name. A host that both match has no entry. Two hosts with the same
/// short name would have one initiator name.
fn given_twice(
    name: &InitiatorName,
    entry: &NodeTable,
    earlier: &[(&InitiatorName, &NodeTable)],
) -> Option<String> {
    let two = pattern_of(entry)?;
    earlier.iter().find_map(|(other, by)| {
        let one = pattern_of(by)?;
        let meets = pattern::short_names_meet(one, two) && !pattern::names_meet(one, two);
        (*other == name && meets).then(|| format!(" for {one} and {two}, which may be hosts of one name"))
    })
}

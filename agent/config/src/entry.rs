//! Which `[[node]]` entry this host uses.

use super::{
    backing::{Backing, Device, DeviceNode, Iscsi, IscsiNode, Nodes, Place, Storage},
    defaults,
    entries::{each_node_once, each_number_in_one_byte, each_with_its_own_initiator, each_with_its_own_wwid},
    entry_rules::{
        AtTarget, Kind, at_target, named, named_once, pattern_of, shared_path, title, with_device, wrong,
    },
    error::ConfigError,
    errors::Errors,
    node_config::NodeRow,
    parts::{NodeEntry, Target},
    pattern::{self, InitiatorName},
    tables::NodeTable,
};
use std::collections::BTreeMap;
use terms::{DiskLink, Iqn, LunNumber, WantedLun};

/// Finds the one entry that matches this node: by machine id, or by host name, short or fully qualified. A short name in the
/// config matches a node whose host name is an FQDN, and the other way round. Two different FQDNs never match. Only a node
/// without such an entry uses one with a pattern.
///
/// The names of cloud nodes aren't known in advance. So with `[device]` and no entry at all, every node uses the path of
/// `[device]`.
pub(super) fn choose(
    storage: &Storage,
    entries: &[NodeTable],
    machine_id: &str,
    hostname: &str,
) -> Result<(Backing, NodeEntry), ConfigError> {
    let mut errors = Errors::default();
    entries.iter().for_each(|entry| named_once(entry, &mut errors));
    if !errors.is_empty() {
        return Err(with_those_of_all(storage, entries, errors));
    }
    if let (Storage::Device(path), []) = (storage, entries) {
        let chosen_by =
            "none: the config has no [[node]] entry, so every node uses the path of [device]".into();
        let name = hostname.to_owned();
        let entry = NodeEntry { name, chosen_by, wwid: None, migrate: defaults::MIGRATE };
        return Ok((Backing::Device(Device { path: shared_path(path.as_ref())? }), entry));
    }
    let mut matching: Vec<_> = entries.iter().filter(|entry| matches(entry, machine_id, hostname)).collect();
    if matching.iter().any(|entry| pattern_of(entry).is_none()) {
        matching.retain(|entry| pattern_of(entry).is_none());
    }
    let names = |entries: &[&NodeTable]| entries.iter().map(|entry| title(entry)).collect::<Vec<_>>();
    match matching.as_slice() {
        [entry] => backing(storage, entries, entry, hostname),
        [] => Err(ConfigError::NoEntry {
            hostname: hostname.to_owned(),
            machine_id: machine_id.to_owned(),
            tried: names(&entries.iter().collect::<Vec<_>>()),
            wanted: match storage {
                Storage::Iscsi(_) => "its initiator, and its lun or wwid",
                Storage::Device(_) => "its path, if that differs from the path of [device]",
            },
        }),
        several => Err(ConfigError::SeveralEntries {
            hostname: hostname.to_owned(),
            machine_id: machine_id.to_owned(),
            matching: names(several),
        }),
    }
}

/// The storage of this host by its entry.
fn backing(
    storage: &Storage,
    entries: &[NodeTable],
    entry: &NodeTable,
    hostname: &str,
) -> Result<(Backing, NodeEntry), ConfigError> {
    let mut errors = Errors::default();
    let made = match storage {
        Storage::Iscsi(targets) => at_target(&AtTarget::each(targets), entry, &mut errors).and_then(|node| {
            let initiator = errors.take(initiator_of(&node, entry, hostname))?;
            let iscsi = Iscsi { target: node.target, initiator, lun: wanted(entry) };
            Some(Backing::Iscsi(Box::new(iscsi)))
        }),
        Storage::Device(path) => {
            let node = with_device(path.as_ref(), entry, &mut errors);
            node.map(|DeviceNode { path, wwid: _ }| Backing::Device(Device { path }))
        }
    };
    let name = match pattern_of(entry) {
        Some(_) => NodeEntry { name: hostname.to_owned(), ..named(entry) },
        None => named(entry),
    };
    match made {
        Some(backing) if errors.is_empty() => Ok((backing, name)),
        _ => Err(with_those_of_all(storage, entries, errors)),
    }
}

/// The errors of this node's entry, and of the others: a node that cannot go on says all that is to be corrected.
fn with_those_of_all(storage: &Storage, entries: &[NodeTable], mut errors: Errors) -> ConfigError {
    check(&Kind::of_storage(storage), entries, &mut errors);
    errors.error(&files(entries))
}

/// Which LUN of the target an entry means.
fn wanted(entry: &NodeTable) -> WantedLun {
    WantedLun { number: entry.lun, wwid: entry.wwid.clone() }
}

fn initiator_of(node: &IscsiNode, entry: &NodeTable, hostname: &str) -> Result<Iqn, ConfigError> {
    node.initiator.of(hostname).map_err(|_| {
        let found = format!("{} with the host name {hostname}", node.initiator);
        let expected = "an iSCSI name, which has lower-case letters, digits, \"-\", \".\" and \":\" only: add an entry of this node's own, with an \
             initiator name that you choose";
        wrong(entry, "node.initiator", found, expected)
    })
}

/// Validates all entries: each must be complete, and no node may have two.
pub(super) fn all(storage: &Storage, entries: &[NodeTable]) -> Result<Nodes, ConfigError> {
    let mut errors = Errors::default();
    check_together(entries, &mut errors);
    let nodes = match storage {
        Storage::Iscsi(targets) => Nodes::Iscsi(at_targets(&AtTarget::each(targets), entries, &mut errors)),
        Storage::Device(path) => Nodes::Device(with_devices(path.as_ref(), entries, &mut errors)),
    };
    errors.finish(&files(entries), Some(nodes))
}

/// Adds the errors of all entries.
pub(super) fn check(kind: &Kind<'_>, entries: &[NodeTable], errors: &mut Errors) {
    check_together(entries, errors);
    match kind {
        Kind::Targets(all) => drop(at_targets(all, entries, errors)),
        Kind::Device(path) => drop(with_devices(*path, entries, errors)),
        Kind::Unknown => {}
    }
}

/// The files of the entries, in their order.
fn files(entries: &[NodeTable]) -> Vec<&str> {
    entries.iter().map(|entry| entry.written_in.path.as_str()).collect()
}

/// Checks the rules for the entries of any storage.
fn check_together(entries: &[NodeTable], errors: &mut Errors) {
    entries.iter().for_each(|entry| named_once(entry, errors));
    each_node_once(entries, errors);
    each_with_its_own_wwid(entries, errors);
}

fn at_targets(targets: &[AtTarget<'_>], entries: &[NodeTable], errors: &mut Errors) -> Vec<IscsiNode> {
    if entries.is_empty() {
        let expected = "one table for each node: `[[node]]`, and below it hostname, initiator and lun";
        errors.add(ConfigError::value("node", "there is none", expected));
    }
    let nodes = entries.iter().filter_map(|entry| at_target(targets, entry, errors)).collect();
    each_with_its_own_initiator(targets, entries, errors);
    each_number_in_one_byte(entries, errors);
    nodes
}

fn with_devices(path: Option<&DiskLink>, entries: &[NodeTable], errors: &mut Errors) -> Vec<DeviceNode> {
    if entries.is_empty() {
        let path = errors.take(shared_path(path));
        return path.map(|path| DeviceNode { path, wwid: None }).into_iter().collect();
    }
    entries.iter().filter_map(|entry| with_device(path, entry, errors)).collect()
}

/// All nodes whose names are known: those of the entries without a pattern, and of these names.
pub(super) fn of_names(
    storage: &Storage,
    entries: &[NodeTable],
    names: &[String],
) -> Result<Nodes, ConfigError> {
    let Nodes::Iscsi(nodes) = all(storage, entries)? else { return all(storage, entries) };
    let of_entries = nodes.into_iter().zip(entries);
    let mut nodes: Vec<_> =
        of_entries.filter(|(_, entry)| pattern_of(entry).is_none()).map(|(node, _)| node).collect();
    for name in names {
        let (backing, entry) = choose(storage, entries, name, name)?;
        if let Some(Iscsi { target, initiator, lun }) = backing.iscsi()
            && !nodes.iter().any(|node| node.entry == entry)
        {
            let (target, initiator) = (target.clone(), InitiatorName::Whole(initiator.clone()));
            nodes.push(IscsiNode { target, entry, initiator, lun: lun.number });
        }
    }
    Ok(Nodes::Iscsi(nodes))
}

/// All entries as a table; none for a config with `[device]` that serves every node.
pub(super) fn rows(storage: &Storage, entries: &[NodeTable]) -> Result<Vec<NodeRow>, ConfigError> {
    let of_entry = |entry: &NodeTable, target, initiator, place| {
        let NodeEntry { name, chosen_by, wwid, migrate } = named(entry);
        NodeRow { name, chosen_by, initiator, target, place, wwid, migrate }
    };
    Ok(match all(storage, entries)? {
        Nodes::Iscsi(nodes) => {
            let row = |(node, entry): (IscsiNode, _)| {
                let place = Place::at_target(&wanted(entry));
                of_entry(entry, node.target.name, Some(node.initiator), place)
            };
            nodes.into_iter().zip(entries).map(row).collect()
        }
        Nodes::Device(nodes) => {
            let rows = nodes.into_iter().zip(entries);
            rows.map(|(node, entry)| of_entry(entry, None, None, Place::Device(node.path))).collect()
        }
    })
}

/// The patterns of host names, as the entries have them.
pub(super) fn patterns(entries: &[NodeTable]) -> Vec<String> {
    entries.iter().filter_map(pattern_of).map(str::to_owned).collect()
}

/// Pairs of patterns that one host can match.
pub(super) fn overlapping(entries: &[NodeTable]) -> Vec<(&str, &str)> {
    let patterns: Vec<_> = entries.iter().filter_map(pattern_of).collect();
    let later = |at: usize| patterns.iter().skip(at + 1);
    let pairs = patterns.iter().enumerate().flat_map(|(at, one)| later(at).map(|other| (*one, *other)));
    pairs.filter(|(one, other)| pattern::names_meet(one, other)).collect()
}

/// The entries for one node each that have no WWID.
fn without(entries: &[NodeTable]) -> impl Iterator<Item = &NodeTable> {
    entries.iter().filter(|entry| entry.wwid.is_none() && pattern_of(entry).is_none())
}

/// The entries of a target that have no WWID, as warnings name them.
pub(super) fn without_wwid(entries: &[NodeTable]) -> Vec<String> {
    without(entries).map(|entry| named(entry).name).collect()
}

/// True if this entry takes this target: the only one, or the one that it names.
fn takes(entry: &NodeTable, target: &Target) -> bool {
    entry.target.as_ref().is_none_or(|name| Some(name.get_ref()) == target.name.as_ref())
}

/// True if some entry takes this target. Without entries that is an error of its own.
pub(super) fn is_taken(target: &Target, entries: &[NodeTable]) -> bool {
    entries.is_empty() || entries.iter().any(|entry| takes(entry, target))
}

/// The numbers that several entries of a target without LUN masking have, if they have no WWID, and the names of these entries.
pub(super) fn same_numbers(target: &Target, entries: &[NodeTable]) -> Vec<(LunNumber, Vec<String>)> {
    let mut named_by: BTreeMap<LunNumber, Vec<String>> = BTreeMap::new();
    for entry in without(entries).filter(|entry| !target.lun_masking && takes(entry, target)) {
        if let Some(number) = entry.lun {
            named_by.entry(number).or_default().push(named(entry).name);
        }
    }
    named_by.into_iter().filter(|(_, names)| names.len() > 1).collect()
}

fn matches(entry: &NodeTable, machine_id: &str, hostname: &str) -> bool {
    match (&entry.machine_id, &entry.hostname) {
        (Some(wanted), _) => wanted.eq_ignore_ascii_case(machine_id),
        (None, Some(wanted)) => pattern::matches(wanted, hostname),
        (None, None) => false,
    }
}

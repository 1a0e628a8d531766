//! Which `[[node]]` entry this host uses.

use super::{
    backing::{Backing, Device, DeviceNode, Iscsi, IscsiNode, Nodes, Place, Storage},
    defaults,
    entry_rules::{
        NO_WWID_OF_DISK, absent, check_pattern, check_wwids, each_with_its_own_initiator,
        each_with_its_own_wwid, named, named_once, pattern_of, title,
    },
    error::ConfigError,
    node_config::NodeRow,
    parts::{NodeEntry, Target},
    pattern::{self, InitiatorName},
    tables::NodeTable,
};
use std::collections::BTreeSet;
use terms::{DiskLink, Iqn, LunNumber, WantedLun};

/// Finds the one entry that matches this node: by machine id, or by host name, short or fully qualified. A short name in the
/// config matches a node whose host name is an FQDN, and the other way round. Two different FQDNs never match. Only a node
/// without such an entry uses one with a pattern.
///
/// The names of cloud nodes aren't known in advance. So with `[device]` and no entry at all, every node uses the path of
/// `[device]`.
pub(super) fn choose(
    storage: Storage,
    entries: &[NodeTable],
    machine_id: &str,
    hostname: &str,
) -> Result<(Backing, NodeEntry), ConfigError> {
    named_once(entries)?;
    if let (Storage::Device(path), []) = (&storage, entries) {
        let chosen_by =
            "none: the config has no [[node]] entry, so every node uses the path of [device]".into();
        let name = hostname.to_owned();
        let entry = NodeEntry { name, chosen_by, wwid: None, wwids: Vec::new(), migrate: defaults::MIGRATE };
        return Ok((Backing::Device(Device { path: shared(path.as_ref())? }), entry));
    }
    let mut matching: Vec<_> = entries.iter().filter(|entry| matches(entry, machine_id, hostname)).collect();
    if matching.iter().any(|entry| pattern_of(entry).is_none()) {
        matching.retain(|entry| pattern_of(entry).is_none());
    }
    let names = |entries: &[&NodeTable]| entries.iter().map(|entry| title(entry)).collect::<Vec<_>>();
    match matching.as_slice() {
        [entry] => backing(storage, entry, hostname),
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
fn backing(storage: Storage, entry: &NodeTable, hostname: &str) -> Result<(Backing, NodeEntry), ConfigError> {
    let name = |named: NodeEntry| match pattern_of(entry) {
        Some(_) => NodeEntry { name: hostname.to_owned(), ..named },
        None => named,
    };
    Ok(match storage {
        Storage::Iscsi(target) => {
            let node = at_target(&target, entry)?;
            let initiator = initiator_of(&node, entry, hostname)?;
            let lun = wanted(entry);
            (Backing::Iscsi(Box::new(Iscsi { target: *target, initiator, lun })), name(node.entry))
        }
        Storage::Device(path) => {
            let DeviceNode { path, wwid: _ } = with_device(path.as_ref(), entry)?;
            (Backing::Device(Device { path }), name(named(entry)))
        }
    })
}

/// Which LUN of the target an entry means.
fn wanted(entry: &NodeTable) -> WantedLun {
    WantedLun { number: entry.lun, wwid: entry.wwid.clone(), listed: entry.wwids.clone().unwrap_or_default() }
}

fn initiator_of(node: &IscsiNode, entry: &NodeTable, hostname: &str) -> Result<Iqn, ConfigError> {
    node.initiator.of(hostname).map_err(|_| {
        let found = format!("{} with the host name {hostname}", node.initiator);
        let expected = "an iSCSI name, which has lower-case letters, digits, \"-\", \".\" and \":\" only: add an entry of this node's own, with an \
             initiator name that you choose";
        ConfigError::value("node.initiator", &found, expected).at(|_| Some(entry.written_in.clone()))
    })
}

/// Validates all entries: each must be complete, and no node may have two.
pub(super) fn all<'a>(storage: &'a Storage, entries: &[NodeTable]) -> Result<Nodes<'a>, ConfigError> {
    named_once(entries)?;
    let mut names = BTreeSet::new();
    for node in entries {
        let NodeEntry { name, .. } = named(node);
        if !names.insert(name.to_ascii_lowercase()) {
            let found = format!("two entries for {name}");
            let error = ConfigError::value("node", &found, "one for each node");
            return Err(error.at(|_| Some(node.written_in.clone())));
        }
    }
    each_with_its_own_wwid(entries)?;
    match storage {
        Storage::Device(path) if entries.is_empty() => {
            Ok(Nodes::Device(vec![DeviceNode { path: shared(path.as_ref())?, wwid: None }]))
        }
        Storage::Device(path) => {
            let nodes = entries.iter().map(|entry| with_device(path.as_ref(), entry));
            Ok(Nodes::Device(nodes.collect::<Result<_, _>>()?))
        }
        Storage::Iscsi(_) if entries.is_empty() => {
            let expected = "one table for each node: `[[node]]`, and below it hostname, initiator and lun";
            Err(ConfigError::value("node", "there is none", expected))
        }
        Storage::Iscsi(target) => {
            let nodes =
                entries.iter().map(|entry| at_target(target, entry)).collect::<Result<Vec<_>, _>>()?;
            each_with_its_own_initiator(target, &nodes, entries)?;
            for (node, entry) in nodes.iter().zip(entries) {
                if let (Some(number), None) = (node.lun, &entry.wwid)
                    && number.0 > LunNumber::ONE_BYTE
                {
                    let found = format!("{number} for {}, which has no `wwid`", node.entry.name);
                    let error = ConfigError::value("node.lun", &found, ABOVE_ONE_BYTE);
                    return Err(error.at(|_| Some(entry.written_in.clone())));
                }
            }
            Ok(Nodes::Iscsi { target, nodes })
        }
    }
}

/// All nodes whose names are known: those of the entries without a pattern, and of these names.
pub(super) fn of_names<'a>(
    storage: &'a Storage,
    entries: &[NodeTable],
    names: &[String],
) -> Result<Nodes<'a>, ConfigError> {
    let Nodes::Iscsi { target, nodes } = all(storage, entries)? else { return all(storage, entries) };
    let of_entries = nodes.into_iter().zip(entries);
    let mut nodes: Vec<_> =
        of_entries.filter(|(_, entry)| pattern_of(entry).is_none()).map(|(node, _)| node).collect();
    for name in names {
        let (backing, entry) = choose(storage.clone(), entries, name, name)?;
        if let Some(Iscsi { initiator, lun, .. }) = backing.iscsi()
            && !nodes.iter().any(|node| node.entry == entry)
        {
            let initiator = InitiatorName::Whole(initiator.clone());
            nodes.push(IscsiNode { entry, initiator, lun: lun.number });
        }
    }
    Ok(Nodes::Iscsi { target, nodes })
}

/// All entries as a table; none for a config with `[device]` that serves every node.
pub(super) fn rows(storage: &Storage, entries: &[NodeTable]) -> Result<Vec<NodeRow>, ConfigError> {
    let row = |entry: &NodeTable| {
        let NodeEntry { name, chosen_by, wwid, wwids, migrate } = named(entry);
        let (initiator, place) = match storage {
            Storage::Iscsi(target) => {
                let node = at_target(target, entry)?;
                (Some(node.initiator), Place::at_target(&wanted(entry)))
            }
            Storage::Device(path) => (None, Place::Device(with_device(path.as_ref(), entry)?.path)),
        };
        Ok(NodeRow { name, chosen_by, initiator, place, wwid, wwids, migrate })
    };
    entries.iter().map(row).collect()
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

/// Arrays differ in how they address such a LUN, so only its WWID shows that it is the right one.
const ABOVE_ONE_BYTE: &str =
    "a number from 0 to 255, or `wwid` beside it: `etcd-lun luns` prints the WWID on the node";

/// The entries of a target that have no WWID, as warnings name them.
pub(super) fn without_wwid(entries: &[NodeTable]) -> Vec<String> {
    let unnamed = entries.iter().filter(|entry| entry.wwid.is_none() && pattern_of(entry).is_none());
    unnamed.map(|entry| named(entry).name).collect()
}

fn at_target(target: &Target, entry: &NodeTable) -> Result<IscsiNode, ConfigError> {
    let missing =
        |key, example| ConfigError::missing(key, example).at(|_| Some(format!("the entry {}", title(entry))));
    absent(
        "node.path",
        entry.path.is_some(),
        entry,
        "none with [target]: the LUN is found by `wwid` or `lun`",
    )?;
    if pattern_of(entry).is_some() {
        check_pattern(target, entry)?;
    }
    check_wwids(entry)?;
    if target.multipath {
        // multipath-tools names a LUN by its WWID alone.
        let named = named(entry);
        let found = match named.named().find(|wwid| wwid.multipath().is_none()) {
            Some(wwid) => Some(format!("{wwid} for {}", named.name)),
            None => named.named().next().is_none().then(|| format!("there is none for {}", named.name)),
        };
        if let Some(found) = found {
            let expected = "the WWID of the node's LUN, because of `target.multipath = true`: `naa.` or `eui.` and digits";
            return Err(
                ConfigError::value("node.wwid", &found, expected).at(|_| Some(entry.written_in.clone()))
            );
        }
    }
    let initiator = match &entry.initiator {
        Some(InitiatorName::OfHost { .. }) if pattern_of(entry).is_none() => {
            let found = format!("`{{hostname}}` in the entry {}", title(entry));
            let expected = "the name itself: only an entry with a pattern, such as hostname = \"master-*\", has `{hostname}`";
            return Err(
                ConfigError::value("node.initiator", &found, expected).at(|_| Some(entry.written_in.clone()))
            );
        }
        Some(name) => name.clone(),
        None if pattern_of(entry).is_some() => {
            return Err(missing("node.initiator", "\"iqn.2024-02.com.example:{hostname}\""));
        }
        None => return Err(missing("node.initiator", "\"iqn.1994-05.com.redhat:master0\"")),
    };
    Ok(IscsiNode {
        entry: named(entry),
        initiator,
        lun: match (entry.lun, &entry.wwid) {
            (None, None) if entry.wwids.is_none() => return Err(missing("node.lun", "1")),
            (number, _) => number,
        },
    })
}

fn with_device(path: Option<&DiskLink>, entry: &NodeTable) -> Result<DeviceNode, ConfigError> {
    absent("node.initiator", entry.initiator.is_some(), entry, "none with [device]: there is no target")?;
    absent("node.lun", entry.lun.is_some(), entry, "none with [device]: the disk is found by `path`")?;
    absent("node.wwids", entry.wwids.is_some(), entry, "none with [device]: the disk is found by `path`")?;
    // A virtio disk has the name that its machine's host gives it, and every machine's may be the same.
    if let (Some(pattern), Some(wwid)) = (pattern_of(entry), &entry.wwid)
        && !wwid.as_str().starts_with("virtio.")
    {
        let found = format!("{wwid} for all nodes that {pattern} matches");
        return Err(
            ConfigError::value("node.wwid", &found, NO_WWID_OF_DISK).at(|_| Some(entry.written_in.clone()))
        );
    }
    let path = entry.path.as_ref().or(path);
    Ok(DeviceNode { path: shared(path)?, wwid: entry.wwid.clone() })
}

fn shared(path: Option<&DiskLink>) -> Result<DiskLink, ConfigError> {
    path.cloned().ok_or_else(|| ConfigError::missing("device.path", "\"/dev/disk/by-id/virtio-etcd0\""))
}

fn matches(entry: &NodeTable, machine_id: &str, hostname: &str) -> bool {
    match (&entry.machine_id, &entry.hostname) {
        (Some(wanted), _) => wanted.eq_ignore_ascii_case(machine_id),
        (None, Some(wanted)) => pattern::matches(wanted, hostname),
        (None, None) => false,
    }
}

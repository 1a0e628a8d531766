//! Which `[[node]]` entry this host uses.

use super::{
    backing::{Backing, Device, DeviceNode, Iscsi, IscsiNode, Nodes, Storage},
    error::ConfigError,
    node_config::NodeRow,
    parts::{NodeEntry, Target},
    tables::NodeTable,
};
use crate::terms::{DiskLink, Wwid};
use std::collections::BTreeSet;

/// Finds the one entry that matches this node: by machine id, or by host name, short or fully qualified. A short name in the
/// config matches a node whose host name is an FQDN, and the other way round. Two different FQDNs never match.
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
        let entry = NodeEntry { name: hostname.to_owned(), chosen_by, wwid: None };
        return Ok((Backing::Device(Device { path: shared(path.as_ref())? }), entry));
    }
    let matching: Vec<_> = entries.iter().filter(|entry| matches(entry, machine_id, hostname)).collect();
    let names = |entries: &[&NodeTable]| entries.iter().map(|entry| title(entry)).collect::<Vec<_>>();
    match matching.as_slice() {
        [entry] => backing(storage, entry),
        [] => Err(ConfigError::NoEntry {
            hostname: hostname.to_owned(),
            machine_id: machine_id.to_owned(),
            tried: names(&entries.iter().collect::<Vec<_>>()),
            wanted: match storage {
                Storage::Iscsi(_) => "its initiator and lun",
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

fn backing(storage: Storage, entry: &NodeTable) -> Result<(Backing, NodeEntry), ConfigError> {
    Ok(match storage {
        Storage::Iscsi(target) => {
            let IscsiNode { entry, initiator, lun } = at_target(&target, entry)?;
            (Backing::Iscsi(Box::new(Iscsi { target: *target, initiator, lun })), entry)
        }
        Storage::Device(path) => {
            let DeviceNode { path, wwid: _ } = with_device(path.as_ref(), entry)?;
            (Backing::Device(Device { path }), named(entry))
        }
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
            let mut initiators = BTreeSet::new();
            for (node, entry) in nodes.iter().zip(entries) {
                let wrong = |found: &str, expected| {
                    let found = format!("{}{found}", node.initiator);
                    Err(ConfigError::value("node.initiator", &found, expected)
                        .at(|_| Some(entry.written_in.clone())))
                };
                if !initiators.insert(&node.initiator) {
                    return wrong(" in two entries", "a name of its own for each node");
                }
                if node.initiator == target.iqn {
                    let own = "the node's own name, as the target's access list has it, such as \"iqn.1994-05.com.redhat:master0\"";
                    return wrong(" is the target's name", own);
                }
            }
            Ok(Nodes::Iscsi { target, nodes })
        }
    }
}

/// All entries as a table; none for a config with `[device]` that serves every node.
pub(super) fn rows(storage: &Storage, entries: &[NodeTable]) -> Result<Vec<NodeRow>, ConfigError> {
    let row = |entry: &NodeTable| {
        let (backing, NodeEntry { name, chosen_by, wwid }) = backing(storage.clone(), entry)?;
        let initiator = backing.iscsi().map(|iscsi| iscsi.initiator.clone());
        Ok(NodeRow { name, chosen_by, initiator, place: backing.place(), wwid })
    };
    entries.iter().map(row).collect()
}

/// Two nodes would share one LUN. A virtio disk has only the serial number that its machine's host gives it, so it is left out.
fn each_with_its_own_wwid(entries: &[NodeTable]) -> Result<(), ConfigError> {
    let mut wwids = BTreeSet::new();
    for entry in entries {
        let Some(wwid) = entry.wwid.as_ref().filter(|wwid| !wwid.as_str().starts_with("virtio.")) else {
            continue;
        };
        if !wwids.insert(wwid) {
            let error = ConfigError::value(
                "node.wwid",
                &format!("{wwid} in two entries"),
                "a LUN of its own for each node",
            );
            return Err(error.at(|_| Some(entry.written_in.clone())));
        }
    }
    Ok(())
}

fn at_target(target: &Target, entry: &NodeTable) -> Result<IscsiNode, ConfigError> {
    let missing =
        |key, example| ConfigError::missing(key, example).at(|_| Some(format!("the entry {}", title(entry))));
    absent("node.path", entry.path.is_some(), entry, "none with [target]: the LUN is found by `lun`")?;
    if target.multipath && entry.wwid.as_ref().and_then(Wwid::multipath).is_none() {
        // multipath-tools names a LUN by its WWID alone.
        let found = match &entry.wwid {
            None => format!("there is none for {}", named(entry).name),
            Some(wwid) => format!("{wwid} for {}", named(entry).name),
        };
        let expected =
            "the WWID of the node's LUN, because of `target.multipath = true`: `naa.` or `eui.` and digits";
        return Err(ConfigError::value("node.wwid", &found, expected).at(|_| Some(entry.written_in.clone())));
    }
    Ok(IscsiNode {
        entry: named(entry),
        initiator: entry
            .initiator
            .clone()
            .ok_or_else(|| missing("node.initiator", "\"iqn.1994-05.com.redhat:master0\""))?,
        lun: entry.lun.ok_or_else(|| missing("node.lun", "1"))?,
    })
}

fn with_device(path: Option<&DiskLink>, entry: &NodeTable) -> Result<DeviceNode, ConfigError> {
    absent("node.initiator", entry.initiator.is_some(), entry, "none with [device]: there is no target")?;
    absent("node.lun", entry.lun.is_some(), entry, "none with [device]: the disk is found by `path`")?;
    let path = entry.path.as_ref().or(path);
    Ok(DeviceNode { path: shared(path)?, wwid: entry.wwid.clone() })
}

fn shared(path: Option<&DiskLink>) -> Result<DiskLink, ConfigError> {
    path.cloned().ok_or_else(|| ConfigError::missing("device.path", "\"/dev/disk/by-id/virtio-etcd0\""))
}

fn absent(
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

fn named(entry: &NodeTable) -> NodeEntry {
    NodeEntry {
        name: entry.hostname.clone().or_else(|| entry.machine_id.clone()).unwrap_or_default(),
        chosen_by: title(entry),
        wwid: entry.wwid.clone(),
    }
}

fn named_once(entries: &[NodeTable]) -> Result<(), ConfigError> {
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

fn matches(entry: &NodeTable, machine_id: &str, hostname: &str) -> bool {
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

/// The name of an entry in messages.
fn title(entry: &NodeTable) -> String {
    let file = &entry.written_in;
    match (&entry.hostname, &entry.machine_id) {
        (Some(name), _) => format!("hostname = \"{name}\" in {file}"),
        (None, Some(id)) => format!("machine_id = \"{id}\" in {file}"),
        (None, None) => format!("an unnamed entry in {file}"),
    }
}

//! What must hold for a `[[node]]` entry by itself.

use super::{
    backing::{DeviceNode, IscsiNode, Storage},
    error::ConfigError,
    errors::Errors,
    parts::{NodeEntry, Target},
    pattern::{self, InitiatorName},
    source::Spot,
    tables::{NodeTable, Tables, TargetTable},
};
use terms::{DiskLink, Iqn};

/// The storage of the entries. It decides which keys an entry needs.
#[derive(Debug)]
pub(super) enum Kind<'a> {
    /// LUNs of these targets.
    Targets(Vec<AtTarget<'a>>),
    /// Disks, and the path of those that have none of their own.
    Device(Option<&'a DiskLink>),
    /// The config has both or neither.
    Unknown,
}

/// The properties of a target that an entry must fit.
#[derive(Debug)]
pub(super) struct AtTarget<'a> {
    name: Option<&'a str>,
    /// The target's iSCSI name, if the config has one.
    pub iqn: Option<&'a Iqn>,
    multipath: bool,
    lun_masking: bool,
    /// The target itself, in a config that is right.
    target: Option<&'a Target>,
}

impl<'a> AtTarget<'a> {
    /// By a config that is right.
    pub fn each(targets: &'a [Target]) -> Vec<Self> {
        let of = |target: &'a Target| Self {
            name: target.name.as_deref(),
            iqn: Some(target.iqn.first()),
            multipath: target.multipath,
            lun_masking: target.lun_masking,
            target: Some(target),
        };
        targets.iter().map(of).collect()
    }
}

impl<'a> Kind<'a> {
    /// By a config that is right.
    pub fn of_storage(storage: &'a Storage) -> Self {
        match storage {
            Storage::Iscsi(targets) => Self::Targets(AtTarget::each(targets)),
            Storage::Device(path) => Self::Device(path.as_ref()),
        }
    }

    /// By a config with errors.
    pub fn of_tables(tables: &'a Tables) -> Self {
        let of = |target: &'a TargetTable| AtTarget {
            name: target.name.as_deref(),
            iqn: target.iqn.as_ref(),
            multipath: target.multipath,
            lun_masking: target.lun_masking,
            target: None,
        };
        match (tables.target.as_slice(), &tables.device) {
            ([], Some(device)) => Self::Device(device.path.as_ref()),
            ([], None) | (_, Some(_)) => Self::Unknown,
            (targets, None) => Self::Targets(targets.iter().map(of).collect()),
        }
    }
}

/// An error of an entry.
pub(super) fn wrong(
    entry: &NodeTable,
    key: &'static str,
    found: impl Into<String>,
    expected: &'static str,
) -> ConfigError {
    let place = Spot::Line(entry.written_in.clone().into());
    ConfigError::Value { key, place, found: found.into(), expected }
}

fn missing(entry: &NodeTable, key: &'static str, example: &'static str) -> ConfigError {
    let place = Spot::Entry { title: title(entry), line: entry.written_in.clone().into() };
    ConfigError::Missing { key, place, example }
}

/// The target of an entry. None without an error if the names of the targets have errors themselves.
fn target_of<'t, 'a>(
    targets: &'t [AtTarget<'a>],
    entry: &NodeTable,
    errors: &mut Errors,
) -> Option<&'t AtTarget<'a>> {
    const KEY: &str = "node.target";
    let Some(name) = &entry.target else {
        if let [only] = targets {
            return Some(only);
        }
        let place = Spot::Entry { title: title(entry), line: entry.target_in.clone().into() };
        errors.add(ConfigError::Missing { key: KEY, place, example: "\"array-a\"" });
        return None;
    };
    let found = targets.iter().find(|target| target.name == Some(name.get_ref()));
    let names: Vec<_> = targets.iter().filter_map(|target| target.name).collect();
    if found.is_none() && (targets.len() == 1 || names.len() == targets.len()) {
        let only = if names.is_empty() { String::new() } else { format!(", only {}", names.join(", ")) };
        errors.add(ConfigError::Value {
            key: KEY,
            place: Spot::Line(entry.target_in.clone().into()),
            found: format!("no target is called {}{only}", name.get_ref()),
            expected: "the `name` of a [[target]]; no such key is needed for one [target]",
        });
    }
    found
}

/// The node of an entry with a target. Nothing is made of it in a config with errors.
pub(super) fn at_target(
    targets: &[AtTarget<'_>],
    entry: &NodeTable,
    errors: &mut Errors,
) -> Option<IscsiNode> {
    let found_by = "none with [target]: the LUN is found by `wwid` or `lun`";
    errors.take(absent("node.path", entry.path.is_some(), entry, found_by));
    let Some(of) = target_of(targets, entry, errors) else {
        errors.take(initiator(entry));
        return None;
    };
    let is_right = is_named(entry) && (pattern_of(entry).is_none() || check_pattern(of, entry, errors));
    let initiator = errors.take(initiator(entry));
    if of.multipath {
        // An entry whose WWID is wrong already has been told so.
        if is_right {
            errors.take(check_multipath(entry));
        }
    } else if entry.lun.is_none() && entry.wwid.is_none() {
        errors.add(missing(entry, "node.lun", "1"));
    }
    let target = of.target?.clone();
    Some(IscsiNode { target, entry: named(entry), initiator: initiator?, lun: entry.lun })
}

/// multipath-tools names a LUN by its WWID alone.
fn check_multipath(entry: &NodeTable) -> Result<(), ConfigError> {
    let NodeEntry { name, .. } = named(entry);
    let found = match &entry.wwid {
        Some(wwid) if wwid.multipath().is_some() => return Ok(()),
        Some(wwid) => format!("{wwid} for {name}"),
        None => format!("there is none for {name}"),
    };
    let expected = match pattern_of(entry) {
        Some(_) => "an entry for each node with its `wwid`, because of `target.multipath = true`",
        None => {
            "the WWID of the node's LUN, because of `target.multipath = true`: `naa.` or `eui.` and digits"
        }
    };
    Err(wrong(entry, "node.wwid", found, expected))
}

fn initiator(entry: &NodeTable) -> Result<InitiatorName, ConfigError> {
    let is_pattern = pattern_of(entry).is_some();
    match &entry.initiator {
        Some(InitiatorName::OfHost { .. }) if !is_pattern && is_named(entry) => {
            let found = format!("`{{hostname}}` in the entry {}", title(entry));
            let expected = "the name itself: only an entry with a pattern, such as hostname = \"master-*\", has `{hostname}`";
            Err(wrong(entry, "node.initiator", found, expected))
        }
        Some(name) => Ok(name.clone()),
        None if is_pattern => Err(missing(entry, "node.initiator", "\"iqn.2024-02.com.example:{hostname}\"")),
        None => Err(missing(entry, "node.initiator", "\"iqn.1994-05.com.redhat:master0\"")),
    }
}

/// The node of an entry with a device.
pub(super) fn with_device(
    path: Option<&DiskLink>,
    entry: &NodeTable,
    errors: &mut Errors,
) -> Option<DeviceNode> {
    const BY_PATH: &str = "none with [device]: the disk is found by `path`";
    let no_target = "none with [device]: there is no target";
    errors.take(absent("node.initiator", entry.initiator.is_some(), entry, no_target));
    errors.take(absent("node.target", entry.target.is_some(), entry, no_target));
    errors.take(absent("node.lun", entry.lun.is_some(), entry, BY_PATH));
    // A virtio disk has the name that its machine's host gives it, and every machine's may be the same.
    if let (Some(pattern), Some(wwid)) = (pattern_of(entry), &entry.wwid)
        && !wwid.as_str().starts_with("virtio.")
    {
        let found = format!("{wwid} for all nodes that {pattern} matches");
        errors.add(wrong(entry, "node.wwid", found, NO_WWID));
    }
    let path = errors.take(shared_path(entry.path.as_ref().or(path)))?;
    Some(DeviceNode { path, wwid: entry.wwid.clone() })
}

/// The path of an entry, or of every node.
pub(super) fn shared_path(path: Option<&DiskLink>) -> Result<DiskLink, ConfigError> {
    path.cloned().ok_or_else(|| ConfigError::missing("device.path", "\"/dev/disk/by-id/virtio-etcd0\""))
}

/// Refuses a pattern that could give two nodes one initiator name or one LUN. False if it does.
fn check_pattern(of: &AtTarget<'_>, entry: &NodeTable, errors: &mut Errors) -> bool {
    let NodeEntry { name, .. } = named(entry);
    if !of.lun_masking {
        let expected = "an entry for each node; or `lun_masking = true` below [target], if the array shows each LUN to one initiator only: without masking two \
            nodes could use one LUN";
        errors.add(wrong(entry, "node.hostname", format!("the pattern {name}"), expected));
        return false;
    }
    if let Some(InitiatorName::Whole(initiator)) = &entry.initiator {
        let found = format!("{initiator} for all nodes that {name} matches");
        let expected = "`{hostname}` in it, such as \"iqn.2024-02.com.example:{hostname}\": no two nodes have the same name";
        errors.add(wrong(entry, "node.initiator", found, expected));
    }
    if let Some(wwid) = &entry.wwid {
        let found = format!("{wwid} for all nodes that {name} matches");
        errors.add(wrong(entry, "node.wwid", found, NO_WWID));
    }
    entry.wwid.is_none()
}

const NO_WWID: &str = "none with a pattern: a WWID is that of one LUN, and each node has its own";

fn absent(
    key: &'static str,
    given: bool,
    entry: &NodeTable,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if given {
        let found = format!("it is set in the entry {}", title(entry));
        Err(wrong(entry, key, found, expected))
    } else {
        Ok(())
    }
}

/// Returns true if an entry has exactly one name.
pub(super) fn is_named(entry: &NodeTable) -> bool {
    entry.hostname.is_some() != entry.machine_id.is_some()
}

/// An entry needs exactly one name.
pub(super) fn named_once(entry: &NodeTable, errors: &mut Errors) {
    let found = match (&entry.hostname, &entry.machine_id) {
        (Some(_), Some(_)) => "an entry with both hostname and machine_id",
        (None, None) => "an entry with neither hostname nor machine_id",
        (Some(_), None) | (None, Some(_)) => return,
    };
    errors.add(wrong(entry, "node", found, "exactly one of the two"));
}

pub(super) fn named(entry: &NodeTable) -> NodeEntry {
    NodeEntry {
        name: entry.hostname.clone().or_else(|| entry.machine_id.clone()).unwrap_or_default(),
        chosen_by: title(entry),
        wwid: entry.wwid.clone(),
        migrate: entry.migrate,
    }
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

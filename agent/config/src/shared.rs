//! What must hold for the tables that all nodes share. Each check goes on after an error, so that one run finds them all.

use super::{
    backing::Storage,
    chap, cluster, defaults,
    error::ConfigError,
    errors::Errors,
    mount_options, parse,
    parts::{ClusterConfig, EtcdConfig, Runtime, Target},
    plain_tables::{HealthConfig, LunConfig},
    source::Source,
    tables::{EtcdTable, NamedPortal, PortalRow, RuntimeName, Tables, TargetTable},
    timeouts,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use terms::{AbsPath, Bytes, Iqn, Portal, Span, TargetName};

/// Validates the tables. Nothing is made of a table that has an error.
pub(super) fn validate(
    written: &Tables,
    sources: &[Source],
    errors: &mut Errors,
) -> Option<(Storage, EtcdConfig, ClusterConfig)> {
    let storage = storage(written, sources, errors);
    let (etcd, runtime) = etcd(&written.etcd, errors);
    let cluster = cluster::validate(&written.cluster, runtime.as_ref(), errors);
    check_lun(&written.lun, errors);
    if written.boot.attach_timeout.0.is_zero() {
        errors.add(ConfigError::value("boot.attach_timeout", "0s", A_TIME));
    }
    check_health(&written.health, errors);
    Some((storage?, etcd?, cluster?))
}

const A_TIME: &str = "a time, such as \"5min\"";

fn storage(written: &Tables, sources: &[Source], errors: &mut Errors) -> Option<Storage> {
    let wrong = |found| ConfigError::value("target", found, EITHER);
    match (written.target.as_slice(), &written.device) {
        ([], Some(device)) => Some(Storage::Device(device.path.clone())),
        ([], None) => {
            errors.add(wrong("neither [target] nor [device]"));
            None
        }
        (_, Some(_)) => {
            errors.add(wrong("both [target] and [device]"));
            None
        }
        (all, None) => {
            let each = all.iter().enumerate().map(|(at, one)| {
                let mut own = Errors::default();
                own.take(named(one, all.get(..at).unwrap_or_default(), all.len() > 1));
                let made = target(one, &mut own);
                errors.extend(own.placed(|error| error.at(|key| parse::whereabouts(sources, key, one.nth))));
                made
            });
            // All are looked at, also after one with errors.
            let made: Vec<_> = each.collect();
            Some(Storage::Iscsi(made.into_iter().collect::<Option<_>>()?))
        }
    }
}

/// Refuses one of several targets that no entry could name.
fn named(one: &TargetTable, earlier: &[TargetTable], is_needed: bool) -> Result<(), ConfigError> {
    match &one.name {
        None if is_needed => Err(ConfigError::missing("target.name", "\"array-a\"")),
        Some(name) if earlier.iter().any(|other| other.name == one.name) => {
            let found = format!("{name} in two tables");
            Err(ConfigError::value("target.name", &found, "a name of its own for each target"))
        }
        _ => Ok(()),
    }
}

const EITHER: &str = "one of the two: an iSCSI target, or a local or cloud disk; `etcd-lun config example` prints a config to begin with";

fn target(written: &TargetTable, errors: &mut Errors) -> Option<Target> {
    let timeouts = timeouts::validate(written, errors);
    let rows = written.portals.as_deref();
    let iqn = errors.take(name(written.iqn.as_ref(), rows.unwrap_or_default()));
    let portals = errors.take(portals(rows));
    let mut chap = |table, written: &Option<_>| match written {
        Some(written) => chap::validate(table, written, errors).map(Some),
        None => Some(None),
    };
    let of_session = chap("target.chap", &written.chap);
    let of_discovery = chap("target.discovery_chap", &written.discovery_chap);
    Some(Target {
        name: written.name.clone(),
        timeouts: timeouts?,
        digests: written.digests,
        multipath: written.multipath,
        safe_logout: written.safe_logout,
        lun_masking: written.lun_masking,
        iqn: iqn?,
        portals: portals?,
        discovery: written.discovery,
        chap: of_session?,
        discovery_chap: of_discovery?,
    })
}

/// The name of the target, or one for each portal.
fn name(of_all: Option<&Iqn>, rows: &[PortalRow]) -> Result<TargetName, ConfigError> {
    let own = rows.iter().filter_map(|row| match row {
        PortalRow::Named(NamedPortal { address, iqn }) => Some((address.clone(), iqn.clone())),
        PortalRow::Address(_) => None,
    });
    let own: BTreeMap<_, _> = own.collect();
    let first = match (of_all, rows.first()) {
        (Some(name), _) if own.is_empty() || own.len() < rows.len() => name,
        (Some(name), _) => {
            let expected = "no name for all: each portal has one of its own";
            return Err(ConfigError::value("target.iqn", name.as_str(), expected));
        }
        (None, Some(PortalRow::Named(NamedPortal { iqn, .. }))) if own.len() == rows.len() => iqn,
        (None, _) => return Err(ConfigError::missing("target.iqn", "\"iqn.2024-02.com.example:etcd\"")),
    };
    Ok(TargetName::new(first.clone(), own))
}

fn portals(written: Option<&[PortalRow]>) -> Result<Vec<Portal>, ConfigError> {
    let rows = written.ok_or_else(|| ConfigError::missing("target.portals", "[\"192.168.10.5:3260\"]"))?;
    let address = |row: &PortalRow| match row {
        PortalRow::Address(portal) => portal.clone(),
        PortalRow::Named(NamedPortal { address, .. }) => address.clone(),
    };
    let portals: Vec<_> = rows.iter().map(address).collect();
    if portals.is_empty() {
        return Err(ConfigError::value("target.portals", "the list is empty", "at least one portal"));
    }
    let unique: BTreeSet<_> = portals.iter().collect();
    if unique.len() != portals.len() {
        return Err(ConfigError::value("target.portals", "a portal is listed twice", "each portal once"));
    }
    Ok(portals)
}

/// Returns the fault of a directory that cannot hold etcd's data; none for one that can.
fn unusable(dir: &str) -> Option<&'static str> {
    if dir.ends_with("/member") {
        return Some("the directory above it, which etcd has as --data-dir");
    }
    let of_kernel = ["/proc/", "/sys/", "/dev/"].iter().any(|root| dir.starts_with(root));
    of_kernel.then_some("a directory on a disk, such as \"/var/lib/etcd\"")
}

/// etcd, and what runs it. The second is known also where the first has an error.
fn etcd(written: &EtcdTable, errors: &mut Errors) -> (Option<EtcdConfig>, Option<Runtime>) {
    let data_dir = errors.take(data_dir(&written.data_dir));
    let runtime = runtime(written, errors);
    let all = data_dir.zip(runtime.clone());
    (all.map(|(data_dir, runtime)| EtcdConfig { data_dir, runtime }), runtime)
}

fn data_dir(written: &AbsPath) -> Result<AbsPath, ConfigError> {
    let wrong = |expected| Err(ConfigError::value("etcd.data_dir", written.as_str(), expected));
    if written.as_str() == "/" || written.parent().as_str() == "/" {
        return wrong("a directory below a directory, such as \"/var/lib/etcd\"");
    }
    match unusable(written.as_str()) {
        Some(why) => wrong(why),
        None => Ok(written.clone()),
    }
}

fn runtime(written: &EtcdTable, errors: &mut Errors) -> Option<Runtime> {
    let unit = errors.take(unit(written));
    let manifest = match written.runtime {
        Some(RuntimeName::Systemd) if written.manifest.is_some() => {
            let wanted = "no manifest with runtime = \"systemd\": remove the key";
            errors.add(ConfigError::value("etcd.manifest", "it is set", wanted));
            None
        }
        _ => errors.take(manifest(written.manifest.clone())),
    };
    match written.runtime {
        Some(RuntimeName::Systemd) => Some(Runtime::Systemd { unit: unit? }),
        Some(RuntimeName::StaticPod) => Some(Runtime::StaticPod { manifest: manifest? }),
        None => {
            errors.add(ConfigError::missing("etcd.runtime", "\"static-pod\""));
            None
        }
    }
}

fn unit(written: &EtcdTable) -> Result<String, ConfigError> {
    let unit = written.unit.as_deref().unwrap_or(defaults::UNIT);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@\\".contains(c);
    if !unit.ends_with(".service") || !unit.chars().all(plain) {
        let wanted = "the name of a service unit, such as \"etcd.service\"";
        return Err(ConfigError::value("etcd.unit", unit, wanted));
    }
    if written.unit.is_some() && written.runtime == Some(RuntimeName::StaticPod) {
        let wanted = "no unit with runtime = \"static-pod\": remove the key";
        return Err(ConfigError::value("etcd.unit", "it is set", wanted));
    }
    Ok(unit.into())
}

/// The manifest of the static pod. `apply` moves it to a directory beside its own and back, so its directory needs a parent
/// other than the root. The kubelet ignores a file whose name begins with a dot (kubernetes `pkg/kubelet/config/file.go`).
fn manifest(written: Option<AbsPath>) -> Result<AbsPath, ConfigError> {
    let path = written.unwrap_or_else(|| AbsPath::of_source(defaults::MANIFEST));
    let dir = path.parent();
    let hidden = path.as_str().rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    if hidden || dir.as_str() == "/" || dir.parent().as_str() == "/" {
        let wanted = "a file that the kubelet reads, such as \"/etc/kubernetes/manifests/etcd-pod.yaml\"";
        return Err(ConfigError::value("etcd.manifest", path.as_str(), wanted));
    }
    Ok(path)
}

/// A check takes a few seconds, so a shorter interval would keep it running all the time.
const SHORTEST_INTERVAL: Span = Span(Duration::from_secs(15));

fn check_health(HealthConfig { interval, textfile }: &HealthConfig, errors: &mut Errors) {
    if *interval < SHORTEST_INTERVAL {
        errors.add(ConfigError::value("health.interval", &interval.to_string(), "at least 15s"));
    }
    // node-exporter reads only files with this suffix. The directory gets an SELinux label of ours, so it must not be a
    // directory that others share, such as /var.
    let parent = textfile.parent();
    if !textfile.name().ends_with(".prom") || parent.as_str() == "/" || parent.parent().as_str() == "/" {
        let wanted = "a file whose name ends with .prom, two directories deep or deeper, such as \"/var/node_exporter/textfile/etcd-lun.prom\"";
        errors.add(ConfigError::value("health.textfile", textfile.as_str(), wanted));
    }
}

/// mkfs.xfs refuses less (xfsprogs 5.19 and later: "Filesystem must be larger than 300MB").
const SMALLEST_XFS: Bytes = Bytes(300 << 20);

fn check_lun(lun: &LunConfig, errors: &mut Errors) {
    if lun.min_size < SMALLEST_XFS {
        let wanted = "at least 300MiB, the smallest XFS that mkfs.xfs makes";
        errors.add(ConfigError::value("lun.min_size", &lun.min_size.to_string(), wanted));
    }
    let refused = |option: &String| Some((option.clone(), mount_options::expected_instead(option)?));
    if let Some((option, expected)) = lun.mount_options.iter().find_map(refused) {
        errors.add(ConfigError::value("lun.mount_options", &option, expected));
    }
    if lun.require_fsync_p99.is_some_and(|limit| limit.0.is_zero()) {
        errors.add(ConfigError::value("lun.require_fsync_p99", "0ms", "a time, such as \"10ms\""));
    }
    if lun.max_switch.0.is_zero() {
        errors.add(ConfigError::value("lun.max_switch", "0s", A_TIME));
    }
}

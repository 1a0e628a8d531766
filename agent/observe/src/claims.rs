//! Observes what else names the data directory for a filesystem: units, a line of fstab, a disk's label.

use config::Config;
use host::{Host, udev};
use node::Fact;
use std::io;
use terms::AbsPath;

/// Where systemd reads units (systemd.unit(5)), without what it makes of the mounts that it finds.
const UNIT_DIRS: [&str; 12] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// The units and labels of OpenShift's procedures that put etcd on a second disk.
const UNITS: [&str; 5] = [
    "create-local-etcd.service",
    "migrate-to-local-etcd.service",
    "sync-var-lib-etcd-to-etcd.service",
    "relabel-var-lib-etcd.service",
    "restorecon-var-lib-etcd.service",
];
const LABELS: [&str; 2] = ["local-etcd", "var-lib-etcd"];

/// What else names the data directory on this machine.
pub(super) fn claims(host: &Host, config: &Config) -> Fact<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        let mut found = on_system(host, "", &config.etcd.data_dir)?;
        found.extend(labelled(host, config)?);
        Ok(found)
    };
    read().into()
}

/// What names the data directory in the files of the system whose units are in `dir`.
pub fn claims_beside(host: &Host, dir: &str, data_dir: &AbsPath) -> io::Result<Vec<String>> {
    match UNIT_DIRS.iter().find_map(|units| dir.strip_suffix(units)) {
        Some(root) => on_system(host, root, data_dir),
        None => in_unit_dir(host, dir, data_dir),
    }
}

fn on_system(host: &Host, root: &str, data_dir: &AbsPath) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for dir in UNIT_DIRS {
        found.extend(in_unit_dir(host, &format!("{root}{dir}"), data_dir)?);
    }
    let fstab = format!("{root}/etc/fstab");
    let text = host.root.read_opt(&fstab)?.unwrap_or_default();
    let target = |line: &str| line.split_whitespace().nth(1).map(|place| place.replace(r"\040", " "));
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let here = lines
        .filter(|line| target(line).is_some_and(|place| place.trim_end_matches('/') == data_dir.as_str()));
    found.extend(here.map(|line| format!("the line `{line}` of {fstab}")));
    Ok(found)
}

fn in_unit_dir(host: &Host, dir: &str, data_dir: &AbsPath) -> io::Result<Vec<String>> {
    let mount = unit::mount_unit_name(data_dir);
    let mut found = Vec::new();
    for name in host.root.list_opt(dir)?.unwrap_or_default() {
        let path = format!("{dir}/{name}");
        let of_other = name.rsplit_once('.').filter(|(_, kind)| ["wants", "requires"].contains(kind));
        if name == mount {
            // It may be a link that leads nowhere.
            let text = host.root.read_opt(&path)?;
            if !text.is_some_and(|text| unit::is_earlier_mount(&text)) {
                found.push(format!("the unit {path}"));
            }
        } else if UNITS.contains(&name.as_str()) {
            found.push(format!("the unit {path}"));
        } else if let Some((of, _)) = of_other {
            let links = host.root.list_opt(&path)?.unwrap_or_default().into_iter();
            found.extend(
                links
                    .filter(|link| of == mount || *link == mount)
                    .map(|link| format!("the link {path}/{link}")),
            );
        }
    }
    Ok(found)
}

/// Disks with a label of those procedures. A LUN of ours may have such a label, if the config gives it.
fn labelled(host: &Host, config: &Config) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for name in host.root.list_opt("/run/udev/data")?.unwrap_or_default() {
        let number = name.strip_prefix('b').and_then(|number| number.split_once(':'));
        let Some((Ok(major), Ok(minor))) = number.map(|(major, minor)| (major.parse(), minor.parse())) else {
            continue;
        };
        let record = udev::record(host, major, minor)?;
        let label = record.as_ref().and_then(|record| record.properties.get("ID_FS_LABEL"));
        let label = label.filter(|label| LABELS.contains(&label.as_str()));
        found.extend(
            label
                .filter(|label| *label != config.lun.label.as_str())
                .map(|label| format!("the filesystem labelled {label} (/dev/block/{major}:{minor})")),
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

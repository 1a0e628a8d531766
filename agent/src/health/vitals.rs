//! Checks of disks, sessions, units and the kernel's word.

use super::{
    Outcome::{self, CannotTell},
    Seen,
    checks::{end, found, iscsi, known, lun, ok},
};
use crate::{
    node::{Multipath, Session, UnitState, WriteCache, layout::RETIRED},
    terms::Span,
};
use std::time::Duration;

pub(super) fn paths(seen: Seen<'_>) -> Outcome {
    end(known(&seen.vitals.paths).and_then(|paths| {
        let of_target = seen.config.backing.iscsi().is_some();
        if paths.is_empty() && of_target {
            return found("no session shows the LUN; run `etcd-lun apply`");
        }
        if let Some(path) = paths.iter().find(|path| path.state != "running") {
            let why = if of_target {
                "its portal doesn't answer, or the kernel has given it up; see `iscsiadm -m session -P 3`"
            } else {
                "the kernel has given it up; see `journalctl -k`"
            };
            return found(format!("{} is {}: {why}", path.name, path.state));
        }
        let lun = lun(seen.config, seen.node)?;
        let names: Vec<_> = paths.iter().map(|path| path.name.as_str()).collect();
        match lun.multipath {
            Multipath::Mapped => ok(format!("{} over {}", lun.device, names.join(", "))),
            Multipath::Claimed => found(format!(
                "multipathd claims {} and has made no map of it; see `multipath -ll`",
                names.join(", ")
            )),
            Multipath::Unclaimed => ok(names.join(", ")),
        }
    }))
}

pub(super) fn session_timeout(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.sessions).and_then(|sessions| {
        let target = &iscsi(seen.config)?.target;
        let ours: Vec<_> = sessions.iter().filter(|session| session.target == target.iqn.as_str()).collect();
        if ours.is_empty() {
            return Err(CannotTell("there is no session to the target".into()));
        }
        let lun = lun(seen.config, seen.node)?;
        let text =
            |seconds: Option<u32>| seconds.map_or("for ever".to_owned(), |seconds| format!("{seconds} s"));
        let all: Vec<_> = ours.iter().map(|session| text(session.recovery_timeout)).collect();
        if lun.multipath == Multipath::Mapped {
            // multipathd sets it by its own config, at each reload (multipath.conf(5), fast_io_fail_tmo).
            return ok(format!("{}, as multipathd sets it", all.join(", ")));
        }
        let wanted = target.timeouts.in_use(false).0.as_secs();
        let is_other = |session: &&&Session| session.recovery_timeout.map(u64::from) != Some(wanted);
        match ours.iter().find(is_other) {
            Some(session) => found(format!(
                "session {} waits {} before I/O fails, the config wants {wanted} s: run `etcd-lun apply`",
                session.sid,
                text(session.recovery_timeout)
            )),
            None => ok(all.join(", ")),
        }
    }))
}

/// What OVN-Kubernetes makes of a node's main interface (openshift/machine-config-operator
/// `templates/common/_base/files/configure-ovs-network.yaml`).
const BRIDGE: &str = "br-ex";

pub(super) fn route(seen: Seen<'_>) -> Outcome {
    end(known(&seen.vitals.routes).and_then(|routes| {
        let mut ways = Vec::new();
        for route in routes {
            match route.interface.as_deref() {
                None => {
                    return Err(CannotTell(format!("no route of the main table leads to {}", route.to)));
                }
                Some(BRIDGE) => {
                    return found(format!(
                        "{} is reached over {BRIDGE}, which is rebuilt at every boot: give the storage an interface of its own",
                        route.to
                    ));
                }
                Some(interface) => ways.push(format!("{} over {interface}", route.to)),
            }
        }
        if ways.is_empty() {
            return Err(CannotTell("no session is connected".into()));
        }
        ok(ways.join(", "))
    }))
}

pub(super) fn device_writable(seen: Seen<'_>) -> Outcome {
    end(lun(seen.config, seen.node).and_then(|lun| {
        if lun.read_only {
            return found(format!(
                "{} or a path of it is read-only; see that {} and the kernel's messages",
                lun.device,
                seen.config.backing.whence()
            ));
        }
        ok(format!("{} can be written to", lun.device))
    }))
}

pub(super) fn write_cache(seen: Seen<'_>) -> Outcome {
    end(known(&seen.vitals.paths).and_then(|paths| {
        let map = known(&seen.vitals.map_cache)?.as_ref();
        let Some(first) = paths.first() else { return Err(CannotTell("the LUN isn't there".into())) };
        let caches = |cache: &WriteCache| cache.target.as_deref().is_some_and(|said| said.starts_with("write back"));
        for path in paths {
            if path.cache.kernel.is_none() {
                return Err(CannotTell(format!("the kernel doesn't say whether {} caches", path.name)));
            }
            if caches(&path.cache) && !path.cache.is_flushed() {
                return found(format!(
                    "{0} caches writes, and the kernel was told not to have them flushed: `echo write back >/sys/block/{0}/queue/write_cache`",
                    path.name
                ));
            }
            if map.is_some_and(|map| path.cache.is_flushed() && !map.is_flushed()) {
                return found(format!(
                    "{} caches writes, and its multipath map passes no flushes on: see /sys/block/dm-*/queue/write_cache",
                    path.name
                ));
            }
        }
        let fua = if first.cache.fua == Some(true) { ", with forced writes" } else { "" };
        ok(if first.cache.is_flushed() {
            format!("it caches writes, and flushes when asked to{fua}")
        } else {
            "it says that it keeps nothing in a cache: it is believed".to_owned()
        })
    }))
}

const FEW_INODES: u64 = 1000;

pub(super) fn free_inodes(seen: Seen<'_>) -> Outcome {
    end(known(&seen.vitals.free_inodes).and_then(|free| match free {
        None => found("nothing is mounted"),
        Some(free) if *free < FEW_INODES => {
            found(format!("{free} left, less than {FEW_INODES}: see what else is in etcd's directory"))
        }
        Some(free) => ok(format!("{free} left")),
    }))
}

pub(super) fn kernel_log(seen: Seen<'_>) -> Outcome {
    end(known(&seen.vitals.kernel_errors).and_then(|errors| match errors.as_slice() {
        [] => ok("nothing about the LUN"),
        [.., last] => found(format!(
            "{} since it was mounted, the last: `{last}`; see `journalctl -k`, and `dmesg --clear` when it is dealt with",
            errors.len()
        )),
    }))
}

pub(super) fn units(seen: Seen<'_>) -> Outcome {
    end(known(&seen.vitals.units).and_then(|units| {
        if let Some(said) = units.iter().find_map(wrong_with) {
            return found(said);
        }
        ok(units.iter().map(|unit| unit.name.as_str()).collect::<Vec<_>>().join(", "))
    }))
}

/// What is wrong with a unit. Whether the mount unit is the right one has a check of its own.
fn wrong_with(unit: &UnitState) -> Option<String> {
    let name = &unit.name;
    match unit.load.as_str() {
        "loaded" => {}
        "masked" => return Some(format!("{name} is masked: `systemctl unmask {name}`")),
        "not-found" => {
            return Some(format!(
                "{name} is not installed; `etcd-lun render units --into /etc/systemd/system`"
            ));
        }
        other => return Some(format!("{name} can't be loaded ({other}); see `systemctl status {name}`")),
    }
    // Of this very run, too: the service of the check is `activating` while it looks.
    let failed = unit.active == "failed" || unit.result.as_deref().is_some_and(|result| result != "success");
    if failed {
        let result = unit.result.as_deref().unwrap_or("failed");
        return Some(format!("the last run of {name} ended as `{result}`; see `journalctl -u {name}`"));
    }
    let enabled = unit.file.starts_with("enabled");
    let is_timer = name.ends_with(".timer");
    if (name == crate::unit::SERVICE || is_timer) && !enabled {
        return Some(format!("{name} is {}: `systemctl enable {name}`", unit.file));
    }
    if is_timer && unit.active != "active" {
        return Some(format!("{name} is {}: `systemctl start {name}`", unit.active));
    }
    None
}

/// No limit of somebody else's: so long after a migration nobody goes back to what etcd was then.
const LONG: Duration = Duration::from_secs(30 * 24 * 3600);

pub(super) fn retired(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.retired).and_then(|all| match all.iter().max_by_key(|one| one.age) {
        None => ok("none"),
        Some(oldest) if oldest.age.0 > LONG => found(format!(
            "{RETIRED}/{} has been there for {}: when etcd's members are well, `etcd-lun retired delete {}`",
            oldest.name,
            days(oldest.age.0),
            oldest.name
        )),
        Some(oldest) => ok(format!("generation {}, {} old", oldest.name, days(oldest.age.0))),
    }))
}

fn days(age: Duration) -> String {
    match age.as_secs() / (24 * 3600) {
        0 => Span(Duration::from_secs(age.as_secs())).to_string(),
        1 => "1 day".into(),
        days => format!("{days} days"),
    }
}

/// In percent.
const IOWAIT: f64 = 4.0;

pub(super) fn iowait(seen: Seen<'_>) -> Outcome {
    end(known(&seen.vitals.pressure).and_then(|pressure| {
        let share = match pressure.some.zip(pressure.full) {
            Some((some, full)) => {
                format!("; in the last minute some task waited {some:.1} % of the time, all {full:.1} %")
            }
            None => "; the kernel counts no pressure (psi=1)".into(),
        };
        let text = format!("{:.1} % of processor time{share}", pressure.iowait);
        if pressure.iowait > IOWAIT {
            return found(format!("{text}: see `iotop` or `pidstat -d` for who writes"));
        }
        ok(text)
    }))
}

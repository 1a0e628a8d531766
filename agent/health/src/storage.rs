//! Checks of disks, sessions, units and the kernel's log.

use super::{
    checks::{check_is_lun, iscsi, lun},
    report::{
        CheckInput,
        Outcome::{self, CannotTell},
        found, known, ok, outcome,
    },
};
use config::{Iscsi, PATH_FAILS_AFTER};
use node::{Multipath, OtherUse, SeenSession, WriteCache, layout::RETIRED};
use std::time::Duration;
use terms::{Span, TargetName};

pub(super) fn paths(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.health.paths).and_then(|paths| {
        let of_target = input.config.backing.iscsi().is_some();
        if paths.is_empty() && of_target {
            return found("no session shows the LUN; run `etcd-lun apply`");
        }
        if let Some(path) = paths.iter().find(|path| path.state != "running") {
            let why = if of_target {
                "its portal does not answer, or the kernel has taken it offline; see `iscsiadm -m session -P 3`"
            } else {
                "the kernel has taken it offline; see `journalctl -k`"
            };
            return found(format!("{} is {}: {why}", path.name, path.state));
        }
        let lun = lun(input.config, input.node)?;
        let names = paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>().join(", ");
        let wanted = input.config.backing.iscsi().filter(|iscsi| iscsi.target.multipath);
        let stands_still = input.node.initiator.multipathd_active.known() == Some(&false);
        let sessions = input.node.sessions.known().map(Vec::as_slice).unwrap_or_default();
        let outside = input.config.backing.iscsi().map(|_| lun.outside_map(sessions)).unwrap_or_default();
        match (lun.multipath, wanted) {
            (Multipath::Mapped, _) if stands_still => found(format!(
                "multipathd does not run, so that no failed path of {} is used again: run `systemctl start multipathd`",
                lun.device
            )),
            (Multipath::Mapped, _) if !outside.is_empty() => found(format!(
                "{} lacks {}, a path of the LUN: run `etcd-lun apply`",
                lun.device, outside[0]
            )),
            (Multipath::Mapped, Some(Iscsi { target, .. })) if paths.len() < target.portals.len() => {
                found(format!(
                    "{} has fewer paths ({names}) than the config has portals ({}): see `multipath -ll`, then run `etcd-lun apply`",
                    lun.device,
                    target.portals.len()
                ))
            }
            (Multipath::Mapped, _) => ok(format!("{} over {names}", lun.device)),
            (Multipath::Claimed, _) => {
                found(format!("multipathd claims {names} and has made no map; see `multipath -ll`"))
            }
            (Multipath::Unclaimed, Some(_)) => found(if stands_still {
                format!("{names} without a map: run `systemctl enable --now multipathd`, then reboot this node")
            } else {
                format!("multipathd has made no map of {names}: see in `multipath -d -v3` why, then reboot this node")
            }),
            (Multipath::Unclaimed, None) if paths.len() > 1 => found(format!(
                "{names} are one LUN, and no map combines them: log out the session that etcd does not use (`iscsiadm -m session -P 3`)"
            )),
            (Multipath::Unclaimed, None) => ok(names),
        }
    }))
}

pub(super) fn shared_target(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.health.others).and_then(|others| {
        let anew = known(&input.health.mounted_anew)?;
        let safe = others.is_empty() || *known(&input.health.safe_logout)?;
        let can_end = if safe { None } else { Some(shared(&iscsi(input.config)?.target.iqn, others)) };
        let has_ended = anew.last().map(|ago| {
            format!(
                "etcd-lun has mounted etcd's LUN anew, the last time {ago} ago ({} within a day): another program has logged the session out, or the target had taken the LUN away; `journalctl -u iscsid -u etcd-lun-lost` says when",
                anew.len()
            )
        });
        match (has_ended, can_end) {
            (None, None) if others.is_empty() => ok("no other program of this node uses it"),
            (None, None) => ok(format!("{} too, and iscsid is set to end no session in use", listed(others))),
            (has_ended, can_end) => found(has_ended.into_iter().chain(can_end).collect::<Vec<_>>().join(". ")),
        }
    }))
}

/// Checks what others can do to etcd's session. A log-out by target and portal names no interface, so open-iscsi ends
/// every session there, mounted or not (`iface_match`, usr/iface.c).
pub fn shared(target: &TargetName, others: &[OtherUse]) -> String {
    format!(
        "{} of another program is to etcd's target: a log-out as `iscsiadm -m node -T {} -p PORTAL -u` ends etcd's session too. Give etcd a target of its own, or set `target.safe_logout = true`, bring the units to the node again (`etcd-lun render`), and run `systemctl daemon-reload && systemctl restart iscsid`",
        listed(others),
        target.first()
    )
}

fn listed(others: &[OtherUse]) -> String {
    others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn session_timeout(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.sessions).and_then(|sessions| {
        let Iscsi { target, .. } = iscsi(input.config)?;
        let ours: Vec<_> = sessions.iter().filter(|session| session.is_of(&target.iqn)).collect();
        if ours.is_empty() {
            return Err(CannotTell("there is no session to the target".into()));
        }
        let wanted = target.timeouts.replacement.0.as_secs();
        if let Some(limit) = known(&input.health.hung_task_panic)?.filter(|limit| *limit < wanted) {
            return found(format!(
                "the kernel panics when a task waits for {limit} s (kernel.hung_task_panic), so an outage of the target ends every node within the {wanted} s that etcd would wait: run `sysctl kernel.hung_task_panic=0`, and correct what sets it"
            ));
        }
        let lun = lun(input.config, input.node)?;
        let text =
            |seconds: Option<u32>| seconds.map_or("for ever".to_owned(), |seconds| format!("{seconds} s"));
        let all: Vec<_> = ours.iter().map(|session| text(session.recovery_timeout)).collect();
        if lun.multipath == Multipath::Mapped {
            // multipathd sets it from its own config at each reload (multipath.conf(5), fast_io_fail_tmo).
            let most = PATH_FAILS_AFTER.0.as_secs();
            let is_late = |s: &&&SeenSession| s.recovery_timeout.is_none_or(|seconds| u64::from(seconds) > most);
            return match ours.iter().find(is_late).filter(|_| target.multipath) {
                Some(session) => found(format!(
                    "session {} waits {} before multipathd uses another path: set `fast_io_fail_tmo {most}` in /etc/multipath.conf (`overrides`), then run `systemctl reload multipathd`",
                    session.sid,
                    text(session.recovery_timeout)
                )),
                None => ok(format!("{}, as multipathd sets it", all.join(", "))),
            };
        }
        let differs = |session: &&&SeenSession| session.recovery_timeout.map(u64::from) != Some(wanted);
        match ours.iter().find(differs) {
            Some(session) => found(format!(
                "session {} waits {} before I/O fails, the config wants {wanted} s: run `etcd-lun apply`",
                session.sid,
                text(session.recovery_timeout)
            )),
            None => ok(all.join(", ")),
        }
    }))
}

/// The bridge that OVN-Kubernetes makes from a node's main interface (openshift/machine-config-operator
/// `templates/common/_base/files/configure-ovs-network.yaml`).
const BRIDGE: &str = "br-ex";

pub(super) fn route(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.health.routes).and_then(|routes| {
        let mut used = Vec::new();
        for route in routes {
            match route.interface.as_deref() {
                None => {
                    return Err(CannotTell(format!("no interface has the address that is connected to {}", route.to)));
                }
                Some(BRIDGE) => {
                    return found(format!(
                        "{} is reached over {BRIDGE}, which is rebuilt at every boot: give the storage an interface of its own",
                        route.to
                    ));
                }
                Some(interface) => {
                    let mtu = route.mtu.map(|bytes| format!(", MTU {bytes}")).unwrap_or_default();
                    used.push(format!("{} over {interface}{mtu}", route.to));
                }
            }
        }
        if used.is_empty() {
            return Err(CannotTell("no session is connected".into()));
        }
        ok(used.join(", "))
    }))
}

pub(super) fn device_writable(input: CheckInput<'_>) -> Outcome {
    outcome(lun(input.config, input.node).and_then(|lun| {
        if lun.read_only {
            return found(format!(
                "{} or a path of it is read-only; check that {}, and the kernel's messages: `journalctl -k`",
                lun.device,
                input.config.backing.where_to_fix()
            ));
        }
        ok(format!("{} can be written to", lun.device))
    }))
}

pub(super) fn write_cache(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.health.paths).and_then(|paths| {
        let map = known(&input.health.map_cache)?.as_ref();
        let Some(first) = paths.first() else { return Err(CannotTell("the LUN is not attached".into())) };
        let caches = |cache: &WriteCache| cache.target.as_deref().is_some_and(|said| said.starts_with("write back"));
        for path in paths {
            if path.cache.kernel.is_none() {
                return Err(CannotTell(format!("the kernel does not report whether {} caches writes", path.name)));
            }
            if caches(&path.cache) && !path.cache.is_flushed() {
                return found(format!(
                    "{0} caches writes, and the kernel is set not to flush them: `echo write back >/sys/block/{0}/queue/write_cache`",
                    path.name
                ));
            }
            if map.is_some_and(|map| path.cache.is_flushed() && !map.is_flushed()) {
                return found(format!(
                    "{} caches writes, and its multipath map does not pass flushes on: see /sys/block/dm-*/queue/write_cache",
                    path.name
                ));
            }
        }
        let fua = if first.cache.fua == Some(true) { ", with forced writes" } else { "" };
        ok(if first.cache.is_flushed() {
            format!("it caches writes, and the kernel flushes them{fua}")
        } else {
            "it reports that it does not cache writes, which cannot be verified".to_owned()
        })
    }))
}

pub(super) fn lun_size(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.mount).and_then(|mount| {
        let lun = lun(input.config, input.node)?;
        if let Some(mount) = mount {
            check_is_lun(input, mount)?;
        }
        let Some((_, filesystem)) = mount.as_ref().and_then(|mount| mount.free) else {
            return Err(CannotTell("nothing is mounted, or the filesystem reports no size".into()));
        };
        let at = &input.config.etcd.data_dir;
        if lun.least_size() < filesystem {
            return found(format!(
                "the LUN has {}, and the filesystem on {at} has {filesystem}: it was made smaller; stop etcd, and grow the LUN again {}",
                lun.least_size(),
                input.config.backing.where_to_fix()
            ));
        }
        if lun.exceeds(filesystem) {
            return found(format!(
                "the LUN has {}, the filesystem on {at} {filesystem}: run `etcd-lun apply`, which grows it while etcd runs",
                lun.size.max(lun.path_size)
            ));
        }
        if *known(&input.health.size_announced)? {
            return found(
                "the target has announced another size of the LUN: run `etcd-lun apply`, which reads it again",
            );
        }
        ok(format!("{filesystem} on a LUN of {}", lun.size))
    }))
}

/// The part of the local filesystem, one of so many, below which it is full soon.
const LITTLE: u64 = 20;

pub(super) fn local_space(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.health.local_space).and_then(|(free, size)| match free.0 < size.0 / LITTLE {
        true => found(format!(
            "{free} of {size} left for logs, images and the record: `du -xh --max-depth=2 /var | sort -h | tail` shows what is large"
        )),
        false => ok(format!("{free} of {size} left")),
    }))
}

pub(super) fn kernel_log(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.health.kernel_errors).and_then(|errors| match errors.as_slice() {
        [] => ok("nothing about the LUN"),
        [.., last] => found(match announced(errors) {
            Some((said, cure)) => format!("`{said}`: {cure}; run `dmesg --clear` once it is dealt with"),
            None => format!(
            "{} since it was mounted, the last: `{last}`; see `journalctl -k`{}, and run `dmesg --clear` once it is dealt with",
            errors.len(),
            if errors.iter().filter(|line| line.contains("detected conn error")).count() > OFTEN { TWO } else { "" }
        )}),
    }))
}

/// A session that is lost more often than this has a cause that lasts.
const OFTEN: usize = 3;
const TWO: &str =
    ", and at the target whether another machine has this initiator name: each then ends the other's session";

/// What the kernel writes of a target's announcement, and its cure; the gravest first.
const ANNOUNCED: [(&str, &str); 4] = [
    (
        "LUN assignments on this target have changed",
        "see at the target that this node still has its own LUN at its number; if the check `stamp` is not ok, another volume may lie beneath the mount",
    ),
    (
        "Inquiry data has changed",
        "see at the target that the LUN is still this node's, and what was changed there",
    ),
    (
        "thin provisioning soft threshold",
        "the array's pool is nearly full, and a full pool stops etcd: enlarge the pool, or free space in it",
    ),
    (
        "Asymmetric access state changed",
        "the array has moved the LUN to another controller: see `multipath -ll`, and the array's log for the cause",
    ),
];

fn announced(errors: &[String]) -> Option<(&String, &'static str)> {
    ANNOUNCED.iter().find_map(|(part, cure)| Some((errors.iter().rfind(|line| line.contains(part))?, *cure)))
}

/// Our own limit: this long after a migration nobody returns to the old data.
const MAX_RETIRED_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

pub(super) fn retired(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.retired).and_then(|all| match all.iter().max_by_key(|one| one.age) {
        None => ok("none"),
        Some(oldest) if oldest.age.0 > MAX_RETIRED_AGE => found(format!(
            "{RETIRED}/{} was retired {} ago: if etcd's members are healthy, run `etcd-lun retired delete {}`",
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

/// The limit, in percent of processor time.
const MAX_IOWAIT: f64 = 4.0;

pub(super) fn iowait(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.health.pressure).and_then(|pressure| {
        let share = match pressure.some.zip(pressure.full) {
            Some((some, full)) => {
                format!("; in the last minute at least one task waited {some:.1} % of the time, all tasks {full:.1} %")
            }
            None => "; the kernel does not count pressure (boot it with psi=1)".into(),
        };
        let text = format!("{:.1} % of processor time{share}", pressure.iowait);
        if pressure.iowait > MAX_IOWAIT {
            return found(format!("{text}: find out who writes with `iotop` or `pidstat -d`"));
        }
        ok(text)
    }))
}

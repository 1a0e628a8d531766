//! Waiting for the LUN: at a target, or a local or cloud disk.

use crate::{
    context::Run,
    cures,
    steps::{
        login,
        look::{Found, Look, look},
    },
    watcher::Waiting,
};
use anyhow::Context as _;
use config::Device;
use hands::name_of;
use host::{Host, block, iscsi, route::Outgoing, udev::Monitor};
use plan::step::AttachLun;
use std::{
    io,
    net::IpAddr,
    time::{Duration, Instant},
};
use terms::{DiskLink, ErrorName, Portal, Session, Span, fail, named};

/// The time for udev to process the new disk after a scan. udev's own limit for an event is 180 s
/// (systemd-udevd.service(8)).
const UDEV_LIMIT: Duration = Duration::from_secs(180);
/// The time for multipathd to make a map of several paths. It has the paths by udev's events, like us, so its map may come
/// after the paths are settled. Without the wait we would look at the LUN while the map appears.
const MAP_LIMIT: Duration = Duration::from_secs(15);

/// Looks for the LUN on the sessions to the target, reads it, and goes on to the next portal where it is not: round and round
/// until a portal leads to it. A session at a portal that shows nothing is logged out, unless somebody uses one of ours.
pub fn attach(run: &mut Run<'_>, step: &AttachLun) -> anyhow::Result<String> {
    let deadline = run.attaching_since.take().unwrap_or_else(Instant::now) + step.limit.0;
    let monitor = Monitor::open(run.host).context("listening to udev")?;
    let mut waiting = Waiting::default();
    let mut pause = NEXT_SCAN;
    loop {
        let why = match round(run, step, &monitor)? {
            Round::Attached(disks) => return Ok(format!("{} is {}", step.lun, disks.join(", "))),
            Round::Nowhere(findings) => findings,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let is_hopeless = why.iter().all(|finding| finding.is_final);
        let said = told(step, &why);
        if left.is_zero() || is_hopeless {
            let patience = if is_hopeless {
                String::new()
            } else {
                format!("; tried for {} (`boot.attach_timeout`)", step.limit)
            };
            return Err(name(&why).says(format_args!("{said}{patience}{}", cure(step, &why))).into());
        }
        waiting.note(run.watcher, &said, left);
        let is_lost = why.iter().any(|finding| matches!(finding.what, What::Lost));
        run.host.pause(if is_lost { RECONNECT } else { pause }.min(left)).context("waiting for the LUN")?;
        if !is_lost {
            pause = (pause * 2).min(LAST_SCAN);
        }
    }
}

/// The pause before a target is asked again for a LUN that it has not shown. It grows, because each time the kernel may make
/// disks of all other LUNs, and forgets them.
const NEXT_SCAN: Duration = Duration::from_secs(2);
const LAST_SCAN: Duration = Duration::from_secs(8);
/// The pause before a session is looked at again that has lost its connection. The kernel announces no change of its
/// state.
const RECONNECT: Duration = Duration::from_millis(200);

/// How one round over the portals ended.
enum Round {
    /// The LUN's disks, one for each path that works.
    Attached(Vec<String>),
    /// The findings at each portal. Never empty.
    Nowhere(Vec<Finding>),
}

/// Why a portal does not lead to the LUN.
#[derive(Debug)]
struct Finding {
    portal: String,
    what: What,
    /// True if it stays so until a person changes something.
    is_final: bool,
}

#[derive(Debug)]
enum What {
    /// The connection was lost before the target was asked.
    Lost,
    /// It shows others, which are listed.
    Absent(String),
    /// It shows the LUN, and the LUN cannot be used there.
    Unusable(ErrorName, String),
    /// No session.
    NoSession(anyhow::Error),
}

fn round(run: &Run<'_>, step: &AttachLun, monitor: &Monitor) -> anyhow::Result<Round> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut tried: Vec<Portal> = Vec::new();
    loop {
        let looks = look(run.door, step)?;
        let known: Vec<_> = looks.iter().filter(|look| look.found == Found::Known).collect();
        let lacks = looks.iter().any(|look| matches!(look.found, Found::Absent(_)));
        let is_enough = !(known.is_empty() || step.everywhere && lacks);
        let mut unusable = Vec::new();
        if is_enough {
            let disks = settled(run.host, step, monitor, &known)?;
            let mut working = Vec::new();
            for (look, disk) in disks {
                match disk.and_then(|disk| answers(run.host, look, disk)) {
                    Ok(disk) => working.push(disk),
                    Err(why) => unusable.push((look.session.sid, why)),
                }
            }
            if !working.is_empty() && (unusable.is_empty() || !step.everywhere) {
                leave_idle(run, step, &looks)?;
                return Ok(Round::Attached(working));
            }
        }
        for look in &looks {
            let broken = unusable.iter().find(|(sid, _)| *sid == look.session.sid);
            let what = match (&look.found, broken) {
                (_, Some((_, why))) => What::Unusable(name_of(why), format!("{why:#}")),
                (Found::NotAsked, None) => What::Lost,
                (Found::Absent(others), None) => What::Absent(others.clone()),
                (Found::Known, None) => continue,
            };
            let portal = at(&look.session);
            findings.retain(|finding| finding.portal != portal);
            findings.push(Finding { portal, what, is_final: false });
        }
        if !try_next(run, step, &looks, &mut tried, &mut findings)? {
            if findings.is_empty() {
                let what =
                    What::NoSession(named!(NoSession, "there is no session to {}", step.target).into());
                findings.push(Finding { portal: "any portal".into(), what, is_final: false });
            }
            return Ok(Round::Nowhere(findings));
        }
    }
}

/// Logs in at portals that this round has not tried. False if there is none, or if sessions of ours have to stay.
fn try_next(
    run: &Run<'_>,
    step: &AttachLun,
    looks: &[Look],
    tried: &mut Vec<Portal>,
    findings: &mut Vec<Finding>,
) -> anyhow::Result<bool> {
    let Some(log_in) = &step.elsewhere else { return Ok(false) };
    tried.extend(looks.iter().flat_map(|look| {
        let is_there = |at: &&Portal| look.session.is_at_portal_of(&log_in.target, at);
        log_in.portals.iter().filter(is_there).cloned()
    }));
    let mut next: Vec<_> = log_in.portals.iter().filter(|portal| !tried.contains(portal)).cloned().collect();
    if !log_in.all {
        next.truncate(1);
        if next.is_empty() || !log_out_all(run, looks)? {
            return Ok(false);
        }
    }
    if next.is_empty() {
        return Ok(false);
    }
    tried.extend(next.iter().cloned());
    for (portal, result) in next.iter().zip(login::attempt(run, log_in, &next)?) {
        if let Err(error) = result {
            let is_final = !error.is_transient();
            let what = What::NoSession(cures::iscsi(error));
            findings.push(Finding { portal: portal.to_string(), what, is_final });
        }
    }
    Ok(true)
}

/// Without multipath a second session would show the LUN as a second disk, so the others end first. False if somebody uses one:
/// then it is waited for.
fn log_out_all(run: &Run<'_>, looks: &[Look]) -> anyhow::Result<bool> {
    for look in looks {
        if !locate::session_users(run.host, &look.session)?.is_empty() {
            return Ok(false);
        }
    }
    for look in looks {
        login::log_out(run, look.session.sid)?;
    }
    Ok(true)
}

/// Logs out sessions that show other LUNs only and that nobody uses.
fn leave_idle(run: &Run<'_>, step: &AttachLun, looks: &[Look]) -> anyhow::Result<()> {
    let idle = looks.iter().filter(|look| matches!(look.found, Found::Absent(_)));
    for look in idle.filter(|_| step.elsewhere.is_some()) {
        if locate::session_users(run.host, &look.session)?.is_empty() {
            login::log_out(run, look.session.sid)?;
        }
    }
    Ok(())
}

/// The disk of the LUN on each session, as soon as udev has processed all of them, or the time is up; or why there is none.
fn settled<'a>(
    host: &Host,
    step: &AttachLun,
    monitor: &Monitor,
    known: &[&'a Look],
) -> anyhow::Result<Vec<(&'a Look, anyhow::Result<String>)>> {
    let limit = UDEV_LIMIT.min(step.limit.0.max(Duration::from_secs(10)));
    let late = |look: &Look| {
        named!(
            DiskNotProcessed,
            "udev has not processed its disk within {} s{}; see `lsscsi` and `journalctl -u systemd-udevd`",
            limit.as_secs(),
            large_packets(host, &look.session)
        )
    };
    let settled = |look: &Look| {
        let Some(disk) = locate::disk_of(host, &look.session, &step.lun)? else { return Ok(None) };
        Ok(locate::is_settled(host, &disk)?.then_some(disk))
    };
    let all = || known.iter().map(|look| settled(look)).collect::<io::Result<Option<Vec<_>>>>();
    if known.len() > 1 {
        // Without a map the plan refuses several paths, and says so better.
        let mapped = || match all()?.unwrap_or_default().first() {
            Some(disk) => Ok(locate::has_map(host, disk)?.then_some(())),
            None => Ok(None),
        };
        monitor.wait_until(host, Instant::now() + limit.min(MAP_LIMIT), mapped)?;
    }
    if let Some(disks) = monitor.wait_until(host, Instant::now() + limit, all)? {
        return Ok(known.iter().copied().zip(disks.into_iter().map(Ok)).collect());
    }
    // A path that is late keeps no map from being used. Without a map nobody knows yet whose disk it will be.
    let each = known.iter().map(|look| {
        let disk = settled(look)?.map(|disk| locate::has_map(host, &disk).map(|has| has.then_some(disk)));
        Ok((*look, disk.transpose()?.flatten().ok_or_else(|| late(look).into())))
    });
    each.collect()
}

/// Reads the LUN over this path, unless somebody uses it: a LUN in use is not read.
fn answers(host: &Host, look: &Look, disk: String) -> anyhow::Result<String> {
    let used = locate::session_users(host, &look.session)?;
    if used.contains(&disk) {
        return Ok(disk);
    }
    match block::try_read(host, &disk) {
        Ok(()) => Ok(disk),
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => fail!(
            LunReservedForReads,
            "it cannot be read ({error}): another computer holds a SCSI reservation on it; find out whose it is (`sg_persist --in --read-reservation /dev/{disk}`), and release it at the target"
        ),
        Err(error) => fail!(
            LunUnreadable,
            "it cannot be read ({error}): the array may serve it over another portal only{}",
            large_packets(host, &look.session)
        ),
    }
}

/// The payload that Ethernet passes everywhere.
const ETHERNET: u32 = 1500;
/// The headers before the data of a `ping`: of IPv4 and ICMP (RFC 791, RFC 792).
const HEADERS_4: u32 = 20 + 8;
/// Of IPv6 and ICMPv6 (RFC 8200, RFC 4443).
const HEADERS_6: u32 = 40 + 8;

/// [`may_be_lost`], of the way to the portal of a session.
fn large_packets(host: &Host, session: &Session) -> String {
    let to = session.address.as_ref().and_then(|end| end.host.parse::<IpAddr>().ok());
    let out = to.and_then(|to| Some((to, iscsi::outgoing(host, session).ok()??)));
    out.map(|(to, out)| may_be_lost(to, &out)).unwrap_or_default()
}

/// A cause, where packets to the portal may be larger than Ethernet's: a switch on the way that does not pass them drops them
/// without a word. The log-in works, because its packets are small, and no read does.
fn may_be_lost(to: IpAddr, out: &Outgoing) -> String {
    let Outgoing { interface, mtu } = out;
    let Some(mtu) = mtu.filter(|mtu| *mtu > ETHERNET) else { return String::new() };
    let data = mtu - if to.is_ipv4() { HEADERS_4 } else { HEADERS_6 };
    format!(
        "; packets over {interface} may have {mtu} bytes, and the network may lose large ones: `ping -M do -s {data} {to}` must be answered"
    )
}

/// The portal of a session, as the config would name it.
fn at(session: &Session) -> String {
    session.portal.as_ref().map_or_else(|| format!("session {}", session.sid), ToString::to_string)
}

fn told(step: &AttachLun, findings: &[Finding]) -> String {
    let AttachLun { target, lun, .. } = step;
    let each = findings.iter().map(|Finding { portal, what, .. }| match what {
        What::Lost => format!("the connection to {portal} was lost before {target} was asked for {lun}"),
        What::Absent(others) => {
            format!("{target} shows this initiator no {lun} at {portal}, and shows {others}")
        }
        What::Unusable(_, why) => format!("{target} shows {lun} at {portal}, but it cannot be used: {why}"),
        What::NoSession(why) => format!("{why:#}"),
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The name of the error: a portal that does not show the LUN says more than one that does not answer.
fn name(findings: &[Finding]) -> ErrorName {
    let of = |finding: &Finding| match &finding.what {
        What::Absent(_) => ErrorName::LunNotShown,
        What::Unusable(name, _) => *name,
        What::NoSession(why) => name_of(why),
        What::Lost => ErrorName::NoSession,
    };
    let shown = findings.iter().find(|finding| matches!(finding.what, What::Absent(_) | What::Unusable(..)));
    shown.or(findings.first()).map_or(ErrorName::NoSession, of)
}

fn cure(step: &AttachLun, findings: &[Finding]) -> String {
    match findings.iter().any(|finding| matches!(finding.what, What::Absent(_))) {
        true => format!(
            ": map it to {} there, or correct `node.wwid`, `node.lun` or `target.portals`",
            step.initiator
        ),
        false => String::new(),
    }
}

/// Waits until the link of the config leads to a disk that udev has processed.
pub fn await_disk(run: &Run<'_>, path: &DiskLink, limit: Span) -> anyhow::Result<String> {
    let monitor = Monitor::open(run.host).context("listening to udev")?;
    let device = Device { path: path.clone() };
    let settled = monitor.wait_until(run.host, Instant::now() + limit.0, || {
        let disks = locate::disks_of_device(run.host, &device)?;
        for disk in &disks {
            if !locate::is_settled(run.host, disk)? {
                return Ok(None);
            }
        }
        Ok((!disks.is_empty()).then_some(disks))
    })?;
    match settled {
        Some(disks) => Ok(format!("{path} is {}", disks.join(", "))),
        None if locate::disks_of_device(run.host, &device)?.is_empty() => fail!(
            DeviceAbsent,
            "{path} is not there, and has not come within {limit} (`boot.attach_timeout`): attach the disk to this machine, or correct `device.path` \
             (see `ls -l {}`)",
            path.path().parent()
        ),
        None => fail!(
            DiskNotProcessed,
            "{path} is attached, but udev has not processed its disk within {limit}; see `multipath -ll` and `journalctl -u systemd-udevd`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_packets_are_named() {
        let says =
            |to: &str, mtu| may_be_lost(to.parse().unwrap(), &Outgoing { interface: "ens4".into(), mtu });
        assert_eq!((says("10.0.0.1", None), says("10.0.0.1", Some(1500))), (String::new(), String::new()));
        assert!(says("10.0.0.1", Some(9000)).contains("`ping -M do -s 8972 10.0.0.1`"));
        assert!(says("fd77::1", Some(9000)).contains("`ping -M do -s 8952 fd77::1`"));
    }
}

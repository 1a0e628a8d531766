//! Discovery, node records, login and logout.

use crate::{context::Run, cures, guard, watcher::Waiting};
use anyhow::Context as _;
use config::{Discovery, record_settings};
use hands::{Door, Request, Requester};
use host::{
    Host,
    iscsi::{self, Announced, IscsiError},
};
use node::{ISCSID, ISCSID_SOCKET, layout::RUNTIME_DIR};
use plan::step::LogIn;
use std::time::{Duration, Instant};
use terms::{AbsPath, ChapAlg, ErrorName, Iqn, Named, Portal, Session, Span, fail};
use unit::HANDS_DIR;

/// The settings of node records that neither the config nor the credentials determine.
///
/// Startup is manual, so that no other service logs in at boot. Scanning is manual, so that a login attaches no LUN.
/// One login attempt takes 10 s: this program repeats it, within a limit and visibly. The error timeouts, for a command
/// that the target doesn't answer though it answers pings, are open-iscsi's defaults, so that the node's `iscsid.conf`
/// doesn't change them. Nor may it make two sessions to one portal, which are two disks, or end a session after some tries to
/// connect again, when writes still wait (`session_conn_reopen`, usr/initiator.c).
const SETTINGS: &[(&str, &str)] = &[
    ("node.startup", "manual"),
    ("node.session.scan", "manual"),
    ("node.session.nr_sessions", "1"),
    ("node.leading_login", "No"),
    ("node.session.reopen_max", "0"),
    ("node.session.initial_login_retry_max", "1"),
    ("node.conn[0].timeo.login_timeout", "10"),
    ("node.session.err_timeo.abort_timeout", "15"),
    ("node.session.err_timeo.lu_reset_timeout", "30"),
    ("node.session.err_timeo.tgt_reset_timeout", "30"),
];

/// How long one login may take: two attempts of 10 s, and the time that iscsid needs itself.
const LOGIN_LIMIT: Duration = Duration::from_secs(45);
/// The pause between two rounds over all portals.
const PAUSE: Duration = Duration::from_secs(3);

pub fn set_initiator_name(host: &Host, name: &Iqn) -> anyhow::Result<String> {
    iscsi::set_initiator_name(host, name)?;
    Ok(format!("this node's initiator name is {name}"))
}

pub fn log_out(run: &Run<'_>, sid: u32) -> anyhow::Result<String> {
    guard::session_is_free(run.host, sid)?;
    if let Some(iscsi) = run.config.backing.iscsi() {
        // iscsiadm reads the interface of a session that it ends.
        use_own_database(run, &iscsi.initiator)?;
    }
    iscsi::log_out(run.host, sid).map_err(cures::iscsi)?;
    Ok(format!("session {sid} is gone"))
}

/// Sets a session's replacement timeout. The value stays when iscsid logs in again after a lost connection, because the
/// kernel prefers what was written to sysfs over what iscsid asks for (`recovery_tmo_sysfs_override`).
pub fn set_timeout(door: &Door<'_>, sid: u32, replacement: Span) -> anyhow::Result<String> {
    let seconds = u32::try_from(replacement.0.as_secs()).context("a time-out in seconds")?;
    door.perform(&Request::SetTimeout { session: sid, seconds })?;
    Ok(format!("session {sid} keeps writes waiting for {replacement}"))
}

/// Where the database of this run is. That of a run that is not confined is where the service can change nothing.
fn own_place(run: &Run<'_>) -> anyhow::Result<AbsPath> {
    let directory = match run.door.requester {
        Requester::Service => RUNTIME_DIR,
        Requester::Person => HANDS_DIR,
    };
    Ok(format!("{directory}/iscsi").parse()?)
}

fn use_own_database(run: &Run<'_>, initiator: &Iqn) -> anyhow::Result<()> {
    iscsi::use_own_database(run.host, &own_place(run)?, initiator, || run.door.records())
        .context("keeping open-iscsi's records to this run")
}

fn make_ready(run: &Run<'_>, step: &LogIn) -> anyhow::Result<()> {
    ready_iscsid(run.door)?;
    use_own_database(run, &step.initiator)
}

/// Tries all portals, in rounds, while the failures may pass and time is left. One portal that works is enough.
pub fn log_in(run: &mut Run<'_>, step: &LogIn) -> anyhow::Result<String> {
    make_ready(run, step)?;
    let begun = Instant::now();
    let deadline = begun + step.limit.0;
    let mut waiting = Waiting::default();
    if end_lost(run, step)? == Kept::InUse && !step.all {
        // Without multipath a second session would show the LUN as a second disk.
        wait_logged_in(run, step, deadline)?;
        run.attaching_since = Some(begun);
        return Ok("the session is connected again".into());
    }
    loop {
        let mut failures = Vec::new();
        let mut in_at = Vec::new();
        for chunk in rounds_of(step) {
            for (portal, result) in chunk.iter().zip(attempt(run, step, chunk)?) {
                match result {
                    Ok(_) => in_at.push(portal.to_string()),
                    Err(error) => failures.push((portal, error)),
                }
            }
            if !in_at.is_empty() {
                break;
            }
        }
        if !in_at.is_empty() {
            for (portal, error) in failures {
                run.watcher.noted(&format!(
                    "no session at portal {portal}, but the login works at another: {:#}",
                    cures::iscsi(error)
                ));
            }
            wait_logged_in(run, step, deadline)?;
            run.attaching_since = Some(begun);
            return Ok(format!("logged in at {}", in_at.join(", ")));
        }
        let transient = failures.iter().any(|(_, error)| error.is_transient());
        let left = deadline.saturating_duration_since(Instant::now());
        if !transient || left <= PAUSE {
            return Err(all_failed(step, failures, transient));
        }
        let why: Vec<_> =
            failures.into_iter().map(|(_, error)| format!("{:#}", cures::iscsi(error))).collect();
        waiting.note(run.watcher, &why.join("; "), left);
        run.host.pause(PAUSE).context("waiting for the target")?;
    }
}

/// Our sessions that are left before a log-in.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    /// Somebody uses the disk of a session that has lost its connection.
    InUse,
    /// No such session.
    Nothing,
}

/// Ends sessions of ours that have lost their connection and that nobody uses. iscsid may know nothing of them any more, or try
/// for ever to reach a portal that the array does not serve the LUN at.
fn end_lost(run: &mut Run<'_>, step: &LogIn) -> anyhow::Result<Kept> {
    let mut kept = Kept::Nothing;
    let sessions = iscsi::sessions_of(run.host, &step.target)?;
    for session in sessions.iter().filter(|session| !session.is_logged_in()) {
        if !locate::session_users(run.host, session)?.is_empty() {
            kept = Kept::InUse;
        } else if let Err(error) = log_out(run, session.sid) {
            run.watcher.noted(&format!(
                "session {} to {} is {} and cannot be ended ({error:#}): if it stays, run `systemctl restart {ISCSID}`",
                session.sid, session.target, session.state
            ));
        }
    }
    Ok(kept)
}

/// With multipath all portals at once, otherwise one portal after the other.
fn rounds_of(step: &LogIn) -> impl Iterator<Item = &[Portal]> {
    step.portals.chunks(if step.all { step.portals.len().max(1) } else { 1 })
}

fn all_failed(step: &LogIn, failures: Vec<(&Portal, IscsiError)>, transient: bool) -> anyhow::Error {
    // The first portal comes first in the config. A tool that was ended because it hung says nothing more.
    let name_of = |error: &IscsiError| error.name().filter(|name| *name != ErrorName::ToolFailed);
    let name = failures.iter().find_map(|(_, error)| name_of(error)).unwrap_or(ErrorName::NoSession);
    let said: Vec<_> = failures.into_iter().map(|(_, error)| format!("{:#}", cures::iscsi(error))).collect();
    let patience =
        if transient { format!(" within {} (`boot.attach_timeout`)", step.limit) } else { String::new() };
    name.says(format_args!("no session to {}{patience}: {}", step.target, said.join("; "))).into()
}

/// Session, or discovery, record and login, at some portals.
///
/// A portal that has a session is left alone, whatever the state of the session: iscsid logs in again by itself after a
/// lost connection. The session may be one that an earlier release made without our interface. open-iscsi would make a
/// second session beside that one.
pub(super) fn attempt(
    run: &Run<'_>,
    step: &LogIn,
    portals: &[Portal],
) -> anyhow::Result<Vec<Result<iscsi::LogIn, IscsiError>>> {
    let sessions = iscsi::sessions_of(run.host, &step.target)?;
    let has_session =
        |portal: &Portal| sessions.iter().any(|session| session.is_at_portal_of(&step.target, portal));
    let prepared: Vec<_> = portals
        .iter()
        .map(|portal| if has_session(portal) { None } else { Some(prepare(run, step, portal)) })
        .collect();
    let ready: Vec<_> = portals
        .iter()
        .zip(&prepared)
        .filter(|(_, result)| matches!(result, Some(Ok(()))))
        .map(|(portal, _)| portal.clone())
        .collect();
    let logins = iscsi::log_in(run.host, &step.target, &ready, LOGIN_LIMIT);
    // No session needs its record any more, and the records hold the secrets.
    iscsi::drop_own_records(run.host, &own_place(run)?)
        .context("removing the node records of this log-in")?;
    let mut logins = logins.into_iter();
    let results = prepared.into_iter().filter_map(|result| match result {
        None => Some(Ok(iscsi::LogIn::AlreadyIn)),
        Some(Ok(())) => logins.next(),
        Some(Err(error)) => Some(Err(error)),
    });
    Ok(results.collect())
}

/// Makes sure that iscsid runs, and logs in at one portal, once.
pub fn try_portal(run: &Run<'_>, step: &LogIn, portal: &Portal) -> anyhow::Result<Result<(), IscsiError>> {
    make_ready(run, step)?;
    let results = attempt(run, step, std::slice::from_ref(portal))?;
    Ok(results.into_iter().collect::<Result<Vec<_>, _>>().map(drop))
}

fn prepare(run: &Run<'_>, step: &LogIn, portal: &Portal) -> Result<(), IscsiError> {
    let tpgt = match step.discovery {
        Discovery::Static => None,
        Discovery::SendTargets => {
            let found = run.door.discover(portal, &step.initiator, run.secrets.discovery.as_ref())?;
            found.map(|found| tag_of(step, portal, &found)).transpose()?.flatten()
        }
    };
    let of_config = record_settings(step.noop_interval, step.noop_timeout, step.digests);
    let algs = run.secrets.session.as_ref().map(|chap| ChapAlg::list(chap.algs())).unwrap_or_default();
    let of_config: Vec<_> = of_config
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .chain((!algs.is_empty()).then_some((iscsi::CHAP_ALGS, algs.as_str())))
        .collect();
    let settings = iscsi::Settings { fixed: SETTINGS, of_config: &of_config };
    iscsi::write_record(
        run.host,
        step.target.at(portal),
        portal,
        tpgt,
        settings,
        run.secrets.session.as_ref(),
    )
}

/// The portal group tag of the target, if the portal has announced both.
///
/// A target may report portals that this node can't reach, and it reports addresses where the config has names. So only the portals
/// of the config are used, and the report only gives their portal group.
fn tag_of(step: &LogIn, portal: &Portal, found: &Announced) -> Result<Option<u16>, IscsiError> {
    let name = step.target.at(portal);
    let ours: Vec<_> = found.targets.iter().filter(|one| one.target == name.as_str()).collect();
    match ours.iter().find(|one| one.portal.as_ref() == Some(portal)).or(ours.first()) {
        Some(one) => Ok(one.tpgt),
        None => Err(IscsiError::not_announced(portal, name, found)),
    }
}

/// Makes sure that iscsid's socket listens. The socket stays failed if someone ran iscsiadm before there was an
/// initiator name.
fn ready_iscsid(door: &Door<'_>) -> anyhow::Result<()> {
    let units = door.units(&[ISCSID_SOCKET, ISCSID]);
    let (socket, daemon) = (units.of(ISCSID_SOCKET)?, units.of(ISCSID)?);
    if socket.is_active() || daemon.is_active() {
        return Ok(());
    }
    if !socket.exists() && !daemon.exists() {
        fail!(
            NoIscsid,
            "neither {ISCSID_SOCKET} nor {ISCSID} is known to systemd: install iscsi-initiator-utils (Debian: open-iscsi)"
        );
    }
    door.perform(&Request::StartIscsid)
}

/// Waits until a session is logged in. A session can exist without being so: iscsid logs in again after a lost
/// connection.
fn wait_logged_in(run: &Run<'_>, step: &LogIn, deadline: Instant) -> anyhow::Result<()> {
    loop {
        if iscsi::sessions_of(run.host, &step.target)?.iter().any(Session::is_logged_in) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            fail!(
                NoSession,
                "the session to {} does not come up within {} (`boot.attach_timeout`): see that the target answers this node, \
                 and `journalctl -u {ISCSID}`",
                step.target,
                step.limit
            );
        }
        // The kernel announces no change of a session's state, so it has to be polled.
        run.host.pause(Duration::from_millis(200)).context("waiting for the session")?;
    }
}

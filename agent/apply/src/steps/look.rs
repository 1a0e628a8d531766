//! What a session shows: the LUN, or which others.

use anyhow::Context as _;
use config::Iscsi;
use hands::{Door, Request};
use host::iscsi;
use locate::Shown;
use plan::{Refusal, step::AttachLun};
use terms::{LunAddress, Session};

/// The LUNs that one session to the target shows.
#[derive(Debug)]
pub struct Look {
    pub session: Session,
    pub found: Found,
}

/// The result of a look for the LUN.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The session has no connection, so the target was not asked, or not to the end.
    NotAsked,
    /// The target shows other LUNs, which are listed.
    Absent(String),
    /// The kernel knows the LUN there.
    Known,
}

/// Asks the target over each session for its LUNs. The kernel forgets the others that it has made known, unless somebody uses
/// one: udev, LVM and multipathd would begin to use disks that this node has nothing to do with, and the LUN of another node has
/// the label of ours.
///
/// A name that is free again is given to the next disk, and multipathd may hear of the end of one disk when the next has its name. So
/// a session where the LUN is known is not asked, and no disk is forgotten before all others are.
pub fn look(door: &Door<'_>, step: &AttachLun) -> anyhow::Result<Vec<Look>> {
    let sessions = iscsi::sessions_of(door.host, &step.target)?;
    for session in sessions.iter().filter(|session| session.is_logged_in()) {
        if !Shown::on(door.host, session)?.chosen(&step.lun).is_ok_and(|lun| lun.is_some()) {
            let scanned = door.perform(&Request::Scan { session: session.sid });
            scanned.with_context(|| format!("asking for the LUNs of session {}", session.sid))?;
        }
    }
    let found = |session: Session| {
        let found = if session.is_logged_in() { found_at(door, step, &session)? } else { Found::NotAsked };
        Ok(Look { session, found })
    };
    sessions.into_iter().map(found).collect()
}

fn found_at(door: &Door<'_>, step: &AttachLun, session: &Session) -> anyhow::Result<Found> {
    let shown = Shown::on(door.host, session)?;
    let wanted = shown
        .chosen(&step.lun)
        .map_err(|error| Refusal::Unknown { what: "the LUN", why: error.to_string() })?
        .map(|lun| lun.address);
    forget_others(door, session, &shown, wanted)?;
    if wanted.is_some() {
        return Ok(Found::Known);
    }
    // A scan ends also when the connection is lost, and the kernel doesn't say so.
    let is_still_up = |now: &Session| now.sid == session.sid && now.is_logged_in();
    let sessions = iscsi::sessions_of(door.host, &step.target)?;
    Ok(if sessions.iter().any(is_still_up) { Found::Absent(shown.list()) } else { Found::NotAsked })
}

/// Tells the kernel to forget what another program's rescan of all sessions has made known over ours.
pub fn forget_rescanned(door: &Door<'_>, iscsi: &Iscsi) -> anyhow::Result<()> {
    for session in iscsi::sessions_of(door.host, &iscsi.target.iqn)? {
        let shown = Shown::on(door.host, &session)?;
        if let Some(ours) = shown.chosen(&iscsi.lun)? {
            forget_others(door, &session, &shown, Some(ours.address))?;
        }
    }
    Ok(())
}

/// Tells the kernel to forget all LUNs of a session but this one, unless somebody uses one.
pub fn forget_others(
    door: &Door<'_>,
    session: &Session,
    shown: &Shown,
    ours: Option<LunAddress>,
) -> anyhow::Result<()> {
    let others: Vec<_> = shown.luns.iter().filter(|lun| Some(lun.address) != ours).collect();
    if others.is_empty() || session.target_id.is_none() {
        return Ok(());
    }
    let used =
        locate::session_users(door.host, session).context("looking for users of the session's disks")?;
    for lun in others {
        if lun.disk.as_ref().is_some_and(|disk| used.contains(disk)) {
            tracing::warn!("{lun} of {} is in use on this node, so it stays attached", session.target);
            continue;
        }
        tracing::debug!("forgetting {lun} of {}, which is not ours", session.target);
        door.perform(&Request::Forget { session: session.sid, lun: lun.address.0 })
            .with_context(|| format!("telling the kernel to forget {lun} of {}", session.target))?;
    }
    Ok(())
}

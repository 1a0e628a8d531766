//! From nothing to a LUN that can be looked at: initiator name, login, scan; or the arrival of a disk.

use super::{
    Horizon, Plan, Refusal, Sight, Step, require,
    step::{AttachLun, LogIn},
};
use crate::{
    config::{Backing, Iscsi},
    node::{LunView, Session},
};

/// The steps that make the LUN visible, or none when it is.
pub(super) fn plan(sight: &Sight<'_>) -> Result<Option<Plan>, Refusal> {
    let attached = match sight.view()? {
        LunView::Seen(_) => true,
        LunView::NoSession | LunView::NotAttached => false,
    };
    match &sight.config.backing {
        Backing::Iscsi(iscsi) => at_target(sight, iscsi, attached),
        Backing::Device(_) if attached => Ok(None),
        Backing::Device(device) => {
            let limit = sight.config.boot.attach_timeout;
            let step = Step::AwaitDisk { path: device.path.clone(), limit };
            Ok(Some(Plan::until(vec![step], Horizon::Lun)))
        }
    }
}

fn at_target(sight: &Sight<'_>, iscsi: &Iscsi, attached: bool) -> Result<Option<Plan>, Refusal> {
    let (Iscsi { target, lun, .. }, node) = (iscsi, sight.node);
    let sessions = require("iSCSI sessions", &node.sessions)?;
    let ours: Vec<_> = sessions.iter().filter(|session| session.target == target.iqn.as_str()).collect();
    let mut steps = rename(sight, iscsi, sessions, &ours)?;
    let renamed = !steps.is_empty();
    let logged_in = ours.iter().any(|session| session.is_logged_in());
    if attached && logged_in && !renamed {
        return Ok(None);
    }
    let limit = sight.config.boot.attach_timeout;
    if renamed || !logged_in {
        steps.push(Step::LogIn(LogIn {
            target: target.iqn.clone(),
            portals: target.portals.clone(),
            discovery: target.discovery,
            all: *require("whether multipathd runs", &node.initiator.multipathd_active)?,
            noop_interval: target.timeouts.noop_interval,
            noop_timeout: target.timeouts.noop_timeout,
            limit,
        }));
    }
    steps.push(Step::AttachLun(AttachLun { target: target.iqn.clone(), lun: *lun, limit }));
    Ok(Some(Plan::until(steps, Horizon::Lun)))
}

/// The steps that let etcd's writes wait for as long as the config says, of sessions that were made with a shorter time-out
/// or when the config said another. Only while a session is
/// connected: the kernel refuses it otherwise (`drivers/scsi/scsi_transport_iscsi.c`, `iscsi_priv_session_rw_attr`), and
/// has set its clock already. Under multipath it is multipathd's (`fast_io_fail_tmo`).
pub(super) fn timeouts(sight: &Sight<'_>) -> Result<Vec<Step>, Refusal> {
    let Some(Iscsi { target, .. }) = sight.config.backing.iscsi() else { return Ok(Vec::new()) };
    let multipath = *require("whether multipathd runs", &sight.node.initiator.multipathd_active)?;
    if multipath {
        return Ok(Vec::new());
    }
    let replacement = target.timeouts.in_use(multipath);
    let is_other = |session: &&Session| {
        session.target == target.iqn.as_str()
            && session.is_logged_in()
            && session.recovery_timeout.map(u64::from) != Some(replacement.0.as_secs())
    };
    let sessions = require("iSCSI sessions", &sight.node.sessions)?.iter().filter(is_other);
    Ok(sessions.map(|session| Step::SetTimeout { sid: session.sid, replacement }).collect())
}

/// The steps that give this node its initiator name. A session keeps the name that it was made
/// with, and iscsid the one that it read when it started.
fn rename(
    sight: &Sight<'_>,
    iscsi: &Iscsi,
    sessions: &[Session],
    ours: &[&Session],
) -> Result<Vec<Step>, Refusal> {
    let wanted = &iscsi.initiator;
    let name = require("the initiator name", &sight.node.initiator.name)?;
    let in_file = name.as_deref() == Some(wanted.as_str());
    let other =
        |session: &&&Session| session.initiator.as_deref().is_some_and(|name| name != wanted.as_str());
    let stale: Vec<_> = ours.iter().filter(other).collect();
    if in_file && stale.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(session) = sessions.iter().find(|session| !session.in_use.is_empty()) {
        return Err(Refusal::InitiatorInUse {
            found: session.initiator.clone().or_else(|| name.clone()).unwrap_or_else(|| "not set".into()),
            wanted: wanted.to_string(),
            sid: session.sid,
            target: session.target.clone(),
        });
    }
    let mut steps: Vec<_> = stale.iter().map(|session| Step::LogOut { sid: session.sid }).collect();
    if !in_file {
        steps.push(Step::SetInitiatorName { name: wanted.clone() });
    }
    if *require("whether iscsid runs", &sight.node.initiator.iscsid_active)? {
        steps.push(Step::RestartIscsid);
    }
    Ok(steps)
}

//! Makes the LUN visible to this node: initiator name, login, scan; or waits for a local disk.

use super::{
    input::{Occasion, PlanInput, require},
    outcome::{Horizon, Plan},
    refusal::Refusal,
    step::{AttachLun, LogIn, Step},
};
use crate::{
    config::{Backing, Gate, Iscsi},
    node::{LunView, Session, authority::Authority},
    terms::Span,
};
use std::time::Duration;

/// How long a boot waits for the target or the disk if nothing but etcd needs it: the record says LUN, so the fence keeps etcd
/// down, and the gate is `etcd`. The kubelet is ordered after this run, and a node without a kubelet can be repaired by nobody.
/// 30 s is time for two log-ins (`node.conn[0].timeo.login_timeout`, 15 s). The service tries again every 20 s (`RestartSec=`
/// in `units/etcd-lun.service.in`), and starts etcd when the LUN is there.
const WAIT_BEFORE_KUBELET: Span = Span(Duration::from_secs(30));

fn time_limit(input: &PlanInput<'_>) -> Span {
    let limit = input.config.boot.attach_timeout;
    let fenced =
        input.record.is_some_and(|record| record.authority == Authority::Lun) && input.local.is_fenced();
    match (input.occasion, input.config.boot.gate) {
        (Occasion::Boot, Gate::Etcd) if fenced => limit.min(WAIT_BEFORE_KUBELET),
        (Occasion::Boot, Gate::Etcd | Gate::Kubelet) | (Occasion::ByHand, _) => limit,
    }
}

/// The steps that make the LUN visible; none if it is visible.
pub(super) fn plan(input: &PlanInput<'_>) -> Result<Option<Plan>, Refusal> {
    let attached = match input.lun_view()? {
        LunView::Seen(_) => true,
        LunView::NoSession | LunView::NotAttached => false,
    };
    match &input.config.backing {
        Backing::Iscsi(iscsi) => log_in(input, iscsi, attached),
        Backing::Device(_) if attached => Ok(None),
        Backing::Device(device) => {
            let limit = time_limit(input);
            let step = Step::AwaitDisk { path: device.path.clone(), limit };
            Ok(Some(Plan::until(vec![step], Horizon::Lun)))
        }
    }
}

fn log_in(input: &PlanInput<'_>, iscsi: &Iscsi, attached: bool) -> Result<Option<Plan>, Refusal> {
    let (Iscsi { target, lun, .. }, node) = (iscsi, input.node);
    let sessions = require("iSCSI sessions", &node.sessions)?;
    let ours: Vec<_> = sessions.iter().filter(|session| session.is_to(&target.iqn)).collect();
    let mut steps = set_initiator_name(input, iscsi, sessions, &ours)?;
    let name_changes = !steps.is_empty();
    let logged_in = ours.iter().any(|session| session.is_logged_in());
    if attached && logged_in && !name_changes {
        return Ok(None);
    }
    let limit = time_limit(input);
    if name_changes || !logged_in {
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

/// Sets the replacement timeout of sessions that have another one than the config asks for, so that etcd's writes wait that
/// long for the target. A session has another one if it was made for the copy, or with an earlier config.
///
/// It comes after etcd's start: if the session is lost just then, the step fails while etcd is up, and the next run does it.
///
/// Only for a connected session. While the connection is lost the kernel refuses the change
/// (`drivers/scsi/scsi_transport_iscsi.c`, `iscsi_priv_session_rw_attr`), and its timer already runs. Under multipath,
/// multipathd sets the timeout (`fast_io_fail_tmo`).
pub(super) fn session_timeouts(input: &PlanInput<'_>) -> Result<Vec<Step>, Refusal> {
    let Some(Iscsi { target, .. }) = input.config.backing.iscsi() else { return Ok(Vec::new()) };
    let multipath = *require("whether multipathd runs", &input.node.initiator.multipathd_active)?;
    if multipath {
        return Ok(Vec::new());
    }
    let replacement = target.timeouts.in_use(multipath);
    let differs = |session: &&Session| {
        session.is_to(&target.iqn)
            && session.is_logged_in()
            && session.recovery_timeout.map(u64::from) != Some(replacement.0.as_secs())
    };
    let sessions = require("iSCSI sessions", &input.node.sessions)?.iter().filter(differs);
    Ok(sessions.map(|session| Step::SetTimeout { sid: session.sid, replacement }).collect())
}

/// The steps that give this node the initiator name of the config. A session keeps the name that it was made with, and iscsid
/// keeps the name that it read at its start. So old sessions are logged out and iscsid is restarted.
fn set_initiator_name(
    input: &PlanInput<'_>,
    iscsi: &Iscsi,
    sessions: &[Session],
    ours: &[&Session],
) -> Result<Vec<Step>, Refusal> {
    let wanted = &iscsi.initiator;
    let name = require("the initiator name", &input.node.initiator.name)?;
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
    if *require("whether iscsid runs", &input.node.initiator.iscsid_active)? {
        steps.push(Step::RestartIscsid);
    }
    Ok(steps)
}

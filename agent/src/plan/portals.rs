//! The config's portals have changed while etcd runs on the LUN. By hand only, and only where nothing else is to be done.
//!
//! Only a multipath map can gain and lose paths. Without one a second session would show the LUN as a second disk.

use super::{
    attach,
    input::{Occasion, PlanInput, require},
    outcome::{Horizon, Plan},
    refusal::Refusal,
    step::{AddPath, AttachLun, RemovePath, Step},
};
use crate::{
    config::Iscsi,
    node::{Lun, LunView, Multipath, Session},
    terms::{Portal, Span},
};
use std::time::Duration;

/// How long a log-in is tried at a portal that etcd does not need. The portal has accepted a connection just before.
const LIMIT: Span = Span(Duration::from_secs(30));

/// What brings the sessions to the portals of the config: first the new ones, then without those that are left over.
pub(super) fn follow(input: &PlanInput<'_>) -> Result<Plan, Refusal> {
    let nothing = Plan::complete(Vec::new());
    let (Occasion::ByHand, Some(iscsi), LunView::Seen(seen)) =
        (input.occasion, input.config.backing.iscsi(), input.lun_view()?)
    else {
        return Ok(nothing);
    };
    if seen.multipath != Multipath::Mapped
        || !*require("whether multipathd runs", &input.node.initiator.multipathd_active)?
    {
        return Ok(nothing);
    }
    let Iscsi { target, initiator, lun } = iscsi;
    let ours: Vec<_> = require("iSCSI sessions", &input.node.sessions)?
        .iter()
        .filter(|session| session.is_of(&target.iqn, initiator))
        .collect();
    let has = |portal: &Portal, is: fn(&Session) -> bool| {
        ours.iter().any(|session| session.configured.as_ref() == Some(portal) && is(session))
    };
    // At a portal that does not answer nothing is tried: a run that ends well leaves nothing to do.
    let is_new = |portal: &&Portal| !has(portal, |_| true) && input.node.answering.contains(portal);
    let new: Vec<_> = target.portals.iter().filter(is_new).cloned().collect();
    if !new.is_empty() {
        let log_in = attach::log_in_at(iscsi, new, true, LIMIT);
        let (target, initiator) = (target.iqn.clone(), initiator.clone());
        let attach = AttachLun { target, initiator, lun: *lun, limit: LIMIT };
        return Ok(Plan::until(vec![Step::LogIn(log_in), Step::AttachLun(attach)], Horizon::Sessions));
    }
    let all_up = target.portals.iter().all(|portal| has(portal, Session::is_logged_in));
    let leaving = if all_up { leave(seen, &ours) } else { Vec::new() };
    Ok(Plan::complete(if leaving.is_empty() { take_back(input, seen, &ours)? } else { leaving }))
}

/// The paths that a portal of the config has and the map lacks. multipathd forgets a path that it is made to remove, and does
/// not take it back by itself when a run ends before the log-out and the portal is in the config again.
fn take_back(input: &PlanInput<'_>, seen: &Lun, ours: &[&Session]) -> Result<Vec<Step>, Refusal> {
    let stays = |one: &&&Session| one.configured.is_some() && one.is_logged_in();
    if !ours.iter().filter(stays).any(|one| one.in_use.is_empty()) {
        return Ok(Vec::new());
    }
    let wwid = require("the LUN's WWID", &seen.wwid)?;
    let step = |path: &String| {
        Step::AddPath(AddPath { map: seen.device.clone(), path: path.clone(), wwid: wwid.clone() })
    };
    let sessions = require("iSCSI sessions", &input.node.sessions)?;
    Ok(seen.outside_map(sessions).into_iter().map(step).collect())
}

/// Ends the sessions at portals that the config does not name. multipathd first takes their paths out of the map, so that
/// nobody uses a session that is logged out. Each step looks for another path that works before it acts.
fn leave(seen: &Lun, ours: &[&Session]) -> Vec<Step> {
    let is_path = |session: &Session| {
        matches!(session.in_use.as_slice(), [disk] if seen.paths.contains(disk)) && seen.holders.is_empty()
    };
    let stays = ours.iter().any(|one| one.configured.is_some() && one.is_logged_in() && is_path(one));
    let mut steps = Vec::new();
    // A session that is just being made has no portal yet.
    for session in ours.iter().filter(|one| one.configured.is_none() && one.at().is_some()) {
        match session.in_use.first() {
            _ if !stays => continue,
            None => {}
            Some(path) if is_path(session) => steps.push(Step::RemovePath(RemovePath {
                map: seen.device.clone(),
                path: path.clone(),
                sid: session.sid,
            })),
            Some(_) => continue,
        }
        steps.push(Step::LogOut { sid: session.sid });
    }
    steps
}

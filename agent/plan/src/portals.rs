//! The config's portals have changed while etcd runs on the LUN. By hand only, and only where nothing else is to be done.
//!
//! Only a multipath map can gain and lose paths. Without one a second session would show the LUN as a second disk.

use super::{
    attach,
    input::{Occasion, PlanInput, require},
    outcome::{Horizon, Plan},
    refusal::Refusal,
    step::{AddPath, AttachLun, NodeStep, RemovePath, Step},
};
use config::Iscsi;
use node::{Lun, LunView, Multipath, SeenSession};
use std::time::Duration;
use terms::{Portal, Span};

/// How long a log-in is tried at a portal that etcd does not need, and its disk is waited for. The portal has accepted a
/// connection just before, but multipathd may leave a map as it is for 30 s (multipath.conf(5), `missing_uev_wait_timeout`).
const LIMIT: Span = Span(Duration::from_secs(60));

/// Returns the steps that bring the sessions to the portals of the config: first the new ones, then without those that
/// are left over.
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
    let all = require("iSCSI sessions", &input.node.sessions)?;
    let ours: Vec<_> = all.iter().filter(|session| session.is_of(&target.iqn)).collect();
    let has = |portal: &Portal, is: fn(&SeenSession) -> bool| {
        ours.iter().any(|session| session.configured.as_ref() == Some(portal) && is(session))
    };
    // At a portal that does not answer nothing is tried: a run that ends well leaves nothing to do.
    let is_new = |portal: &&Portal| !has(portal, |_| true) && input.node.answering.contains(portal);
    let new: Vec<_> = target.portals.iter().filter(is_new).cloned().collect();
    // A run that ends between log-in and scan leaves a session without a disk.
    let idle = ours.iter().filter(|one| stays(one) && one.in_use.is_empty()).count();
    let outside = seen.outside_map(all);
    if !new.is_empty() || idle > outside.len() {
        let mut steps = Vec::new();
        if !new.is_empty() {
            steps.push(Step::Node(NodeStep::LogIn(attach::log_in_at(iscsi, new, true, LIMIT))));
        }
        let (target, initiator) = (target.iqn.clone(), initiator.clone());
        let attach = AttachLun {
            target,
            initiator,
            lun: lun.clone(),
            everywhere: true,
            elsewhere: None,
            limit: LIMIT,
        };
        steps.push(Step::Node(NodeStep::AttachLun(attach)));
        return Ok(Plan::until(steps, Horizon::Sessions));
    }
    let all_up = target.portals.iter().all(|portal| has(portal, |session| session.is_logged_in()));
    let leaving = if all_up { leave(seen, &ours) } else { Vec::new() };
    let take_back = leaving.is_empty() && idle > 0;
    Ok(Plan::complete(if take_back { add(seen, outside)? } else { leaving }))
}

/// At a portal of the config, and logged in.
fn stays(session: &SeenSession) -> bool {
    session.configured.is_some() && session.is_logged_in()
}

/// Takes paths into the map that it lacks. multipathd forgets a path that it is made to remove, and does not take it back by
/// itself when a run ends before the log-out and the portal is in the config again.
fn add(seen: &Lun, paths: Vec<&String>) -> Result<Vec<Step>, Refusal> {
    let wwid = require("the LUN's WWID", &seen.wwid)?;
    let step = |path: &String| {
        Step::Node(NodeStep::AddPath(AddPath {
            map: seen.device.clone(),
            path: path.clone(),
            wwid: wwid.clone(),
        }))
    };
    Ok(paths.into_iter().map(step).collect())
}

/// Ends the sessions at portals that the config does not name. multipathd first takes their paths out of the map, so that
/// nobody uses a session that is logged out. Each step looks for another path that works before it acts.
fn leave(seen: &Lun, ours: &[&SeenSession]) -> Vec<Step> {
    let is_path = |session: &SeenSession| {
        matches!(session.in_use.as_slice(), [disk] if seen.paths.contains(disk)) && seen.holders.is_empty()
    };
    let stays = ours.iter().any(|one| stays(one) && is_path(one));
    let mut steps = Vec::new();
    // A session that is just being made has no portal yet.
    for session in ours.iter().filter(|one| one.configured.is_none() && one.portal.is_some()) {
        match session.in_use.first() {
            _ if !stays => continue,
            None => {}
            Some(path) if is_path(session) => steps.push(Step::Node(NodeStep::RemovePath(RemovePath {
                map: seen.device.clone(),
                path: path.clone(),
                sid: session.sid,
            }))),
            Some(_) => continue,
        }
        steps.push(Step::Node(NodeStep::LogOut { sid: session.sid }));
    }
    steps
}

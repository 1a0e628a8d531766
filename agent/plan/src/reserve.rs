//! Where a plan takes the LUN's persistent reservation, and looks at it again: `lun.reserve`.
//!
//! The reservation is no reason for a plan. It is taken before the first step that writes to a LUN which this run has not mounted,
//! and looked at again before what cannot be undone. So a plan that has nothing else to do sends no command to the LUN.

use super::{
    outcome::Plan,
    step::{Reserve, Reserving, Step},
};
use config::Config;
use terms::Wwid;

/// The plan with the steps of the reservation, if the config wants one.
pub(super) fn around(config: &Config, plan: Plan) -> Plan {
    if !config.lun.reserve {
        return plan;
    }
    let watched = plan.steps.iter().any(|step| matches!(step, Step::WatchLun(_)));
    let mut taken = false;
    let mut steps = Vec::new();
    let mut staged = None;
    for step in plan.steps {
        let before = match need(&step) {
            // Only after both looks of a `claim`.
            Some((wwid, Need::ToWrite)) if !taken => {
                taken = true;
                Some((wwid, if watched { Reserving::TakeOver } else { Reserving::Take }))
            }
            Some((wwid, Need::ToDecide)) => Some((wwid, Reserving::Keep)),
            Some((_, Need::ToWrite)) | None => None,
        };
        steps.extend(before.map(|(wwid, how)| Step::Reserve(Reserve { wwid: wwid.clone(), how })));
        if let Step::Stage { wwid, .. } = &step {
            staged = Some(wwid.clone());
        }
        let released = matches!(step, Step::Release { .. });
        steps.push(step);
        if let (true, Some(wwid)) = (released, &staged) {
            steps.push(Step::Reserve(Reserve { wwid: wwid.clone(), how: Reserving::GiveUp }));
        }
    }
    Plan { steps, ..plan }
}

/// What a step needs the reservation for.
enum Need {
    /// It writes to a LUN that is mounted nowhere.
    ToWrite,
    /// It decides which copy etcd uses. The LUN is staged.
    ToDecide,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a new step that writes to the LUN has staged it before")]
fn need(step: &Step) -> Option<(&Wwid, Need)> {
    match step {
        Step::ClearUnfinished { wwid, .. } | Step::Stage { wwid, .. } => Some((wwid, Need::ToWrite)),
        Step::Format(format) => Some((&format.wwid, Need::ToWrite)),
        Step::Commit { record } => Some((&record.wwid, Need::ToDecide)),
        Step::Claim(claim) => Some((&claim.record.wwid, Need::ToDecide)),
        Step::MountData(mount) => Some((&mount.wwid, Need::ToDecide)),
        _ => None,
    }
}

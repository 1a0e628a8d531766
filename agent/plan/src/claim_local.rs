//! Returns to the local data that was barred, by hand only: a person has decided that what only the LUN holds may be lost.
//!
//! The LUN is looked at twice before, as by `claim`: while another computer uses it, this node's member serves there. Then the
//! record says what it says after a rollback, and the data takes the fence's place as a rollback's copy does.

use super::{
    Step, attach, barred, claim,
    input::{Occasion, PlanInput, require},
    lun,
    outcome::{Horizon, Plan},
    refusal::{AuthorityRefusal, Refusal},
    rollback,
    step::ProtocolStep,
};
use config::Config;
use node::{Content, LunView, Node, authority::Record};

/// Decides which steps return to the barred data. An empty plan if that is done.
pub fn claim_local(config: &Config, node: &Node) -> Result<Plan, Refusal> {
    let input = PlanInput::new(config, node, Occasion::ByHand)?;
    let barred = barred::barred_data(&input)?;
    if let Some(record) = input.record.filter(|record| record.rolled_back)
        && barred.is_none_or(|data| data.returns_as == Some(record.generation))
    {
        let plan = rollback::finish(&input, record)?;
        // A run that was cut short right before the start: nothing else starts an etcd that has failed against the fence.
        return match plan.is_empty() && input.etcd.needs_start() {
            true => Ok(Plan::complete(rollback::serve_from_local(&input).collect())),
            false => Ok(plan),
        };
    }
    if barred.is_none() || input.record.is_some_and(Record::has_served) {
        return Err(AuthorityRefusal::NothingBarred.into());
    }
    claim::nobody_serves_elsewhere(&input)?;
    if let Some(plan) = attach::plan(&input)? {
        return Ok(plan);
    }
    let LunView::Seen(seen) = input.lun_view()? else {
        return Ok(Plan::until(Vec::new(), Horizon::Lun)); // `attach` has planned for it
    };
    let wwid = lun::usable_wwid(&input, seen)?;
    let (uuid, stamp) = match require("what the LUN holds", &seen.content)? {
        Content::Xfs { uuid, stamp, .. } => (*uuid, require("the LUN's stamp", stamp)?.as_ref()),
        Content::Blank | Content::Unfinished { .. } | Content::Foreign { .. } => {
            return Err(AuthorityRefusal::NothingToClaim {
                wwid: wwid.clone(),
                found: "it holds no data of etcd-lun",
            }
            .into());
        }
    };
    let Some(stamp) = stamp.filter(|stamp| stamp.machine_id == node.identity.machine_id) else {
        return Err(AuthorityRefusal::NothingToClaim {
            wwid: wwid.clone(),
            found: "it does not name this node",
        }
        .into());
    };
    // Above every generation that was ever written, so that the LUN is what this node has left behind.
    let recorded = input.record.map_or(0, |record| record.generation);
    let generation = recorded.max(stamp.generation).saturating_add(1);
    let data_dir = config.etcd.data_dir.clone();
    let record = Record::claim(uuid, wwid.clone(), data_dir, stamp).leave(generation, stamp);
    let watch = claim::watch(&input, wwid, uuid, Some(stamp));
    Ok(Plan::until(vec![watch, Step::Protocol(ProtocolStep::KeepLocal { record })], Horizon::Local))
}

//! Takes back the node's own LUN after the node's machine id has changed, by hand only.
//!
//! The stamp names the owner by machine id. A new `/etc/machine-id` on a disk that keeps `/var` so makes the node refuse its own
//! LUN. The record is on that disk, and it names the LUN. If all that it says is true of the LUN, and the node's name is the
//! stamp's, only the machine id differs, and a person can say that this is the same node.
//!
//! A clone of the node's disk has that record, too. As long as the original runs, it advances the LUN's use counter
//! (`mark`), and the clone's record falls behind. So the counters must be equal. Taking the LUN back is a use, too.

use super::{
    attach,
    input::{Occasion, PlanInput},
    lun,
    outcome::{Horizon, Plan},
    recorded::{check_but_owner, check_filesystem, known_stamp},
    refusal::Refusal,
    resume::advance_use,
    step::Step,
};
use crate::{
    config::Config,
    node::{Fact, LunView, Node, authority::Authority},
};

/// Decides which steps make the node the LUN's owner again. An empty plan if it is the owner.
pub fn claim(config: &Config, node: &Node) -> Result<Plan, Refusal> {
    let input = PlanInput::new(config, node, Occasion::ByHand)?;
    let record = input.record.filter(|record| record.authority == Authority::Lun);
    let record = record.ok_or(Refusal::NothingToReturn { found: "the record does not name a LUN" })?;
    let machine_id = &node.identity.machine_id;
    if matches!(&node.mounted_stamp, Fact::Known(Some(stamp)) if stamp.machine_id == *machine_id) {
        return Ok(Plan::complete(Vec::new()));
    }
    if let Some(plan) = attach::plan(&input)? {
        return Ok(plan);
    }
    let LunView::Seen(seen) = input.lun_view()? else {
        return Ok(Plan::until(Vec::new(), Horizon::Lun)); // `attach` has planned for it
    };
    let wwid = lun::usable_wwid(&input, seen)?;
    let (settled, stamp) = check_filesystem(record, seen)?;
    // Also looked at before the LUN is staged, because staging writes to it.
    if let Some(Some(stamp)) = stamp.known() {
        if stamp.machine_id == *machine_id {
            return Ok(Plan::complete(Vec::new()));
        }
        check_but_owner(&input, record, stamp)?;
    }
    if !settled {
        return Ok(Plan::stage(wwid, record.uuid));
    }
    let stamp = known_stamp(record, stamp)?.clone().owned_by(machine_id.clone());
    let (stamp, record) = advance_use(record, &stamp);
    Ok(Plan::complete(vec![Step::Activate { stamp, record }]))
}

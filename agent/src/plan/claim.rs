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
    input::{Occasion, PlanInput, require},
    lun,
    outcome::{Horizon, Plan},
    recorded::{check_but_owner, check_filesystem, refused},
    refusal::Refusal,
    resume::advance_use,
    step::Step,
};
use crate::{
    config::Config,
    node::{
        Fact, LunView, Node,
        authority::{Authority, Record},
    },
    terms::Wwid,
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
    let stamp = match stamp.known().and_then(Option::as_ref) {
        Some(stamp) if stamp.machine_id == *machine_id => return Ok(Plan::complete(Vec::new())),
        Some(stamp) => {
            // Also before the LUN is staged, because staging writes to it.
            check_but_owner(&input, record, stamp)?;
            stamp
        }
        None if settled => {
            require("the LUN's stamp", stamp)?;
            return Err(refused(record, "it has no stamp".into()));
        }
        None => return Ok(stage(record, wwid)),
    };
    if !settled {
        return Ok(stage(record, wwid));
    }
    let (stamp, record) = advance_use(record, &stamp.clone().owned_by(machine_id.clone()));
    Ok(Plan::complete(vec![Step::Activate { stamp, record }]))
}

fn stage(record: &Record, wwid: &Wwid) -> Plan {
    Plan::until(vec![Step::Stage { wwid: wwid.clone(), uuid: record.uuid }], Horizon::Stamp)
}

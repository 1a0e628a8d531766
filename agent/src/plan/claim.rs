//! Takes back the node's own LUN after the node's machine id has changed, by hand only.
//!
//! The stamp names the owner by machine id. A new `/etc/machine-id` on a disk that keeps `/var` so makes the node refuse its own
//! LUN. The record is on that disk, and it names the LUN. If all that it says is true of the LUN, and the node's name is the
//! stamp's, only the machine id differs, and a person can say that this is the same node.
//!
//! A clone of the node's disk has that record, too. As long as the original runs, it advances the LUN's use counter
//! (`mark`), and the clone's record falls behind. So the counters must be equal.

use super::{
    attach,
    input::{Occasion, PlanInput, require},
    lun,
    outcome::{Horizon, Plan},
    recorded::{check_filesystem, differs_by_id, refused},
    refusal::Refusal,
    step::Step,
};
use crate::{
    config::Config,
    node::{LunView, Node, authority::Authority},
};

/// Decides which steps make the node the LUN's owner again. An empty plan if it is the owner.
pub fn claim(config: &Config, node: &Node) -> Result<Plan, Refusal> {
    let input = PlanInput::new(config, node, Occasion::ByHand)?;
    let record = input.record.filter(|record| record.authority == Authority::Lun);
    let record = record.ok_or(Refusal::NothingToClaim)?;
    if let Some(mount) = require("what is mounted on the data directory", &node.mount)? {
        let (at, source_device) = (input.data_dir(), mount.source.clone());
        return Err(Refusal::ClaimOfMounted { at, source_device });
    }
    if let Some(plan) = attach::plan(&input)? {
        return Ok(plan);
    }
    let LunView::Seen(seen) = input.lun_view()? else {
        return Ok(Plan::until(Vec::new(), Horizon::Lun)); // `attach` has planned for it
    };
    let wwid = lun::usable_wwid(&input, seen)?;
    let (settled, stamp) = check_filesystem(record, seen)?;
    if !settled {
        // Mounting the LUN writes to it. What can be seen before must allow it.
        if let Some(Some(stamp)) = stamp.known() {
            differs_by_id(&input, record, stamp)?;
        }
        let stage = Step::Stage { wwid: wwid.clone(), uuid: record.uuid };
        return Ok(Plan::until(vec![stage], Horizon::Stamp));
    }
    let stamp = require("the LUN's stamp", stamp)?.as_ref();
    let stamp = stamp.ok_or_else(|| refused(record, "it has no stamp".into()))?;
    let machine_id = &input.node.identity.machine_id;
    Ok(Plan::complete(match differs_by_id(&input, record, stamp)? {
        false => Vec::new(),
        true => {
            let to = stamp.clone().owned_by(machine_id.clone());
            vec![Step::Claim { from: stamp.clone(), to }]
        }
    }))
}

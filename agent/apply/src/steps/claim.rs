//! Taking a LUN that is newer than the record, or that names an earlier machine id.

use super::stamp;
use crate::{
    guard,
    machine::{self, Effect, Machine, Place},
};
use plan::step::{Claim, WatchLun};
use terms::require;

/// Looks at the LUN twice. Each look comes from the device.
pub fn watch(machine: &mut dyn Machine, step: &WatchLun) -> anyhow::Result<String> {
    let first = machine.stamp_at_rest(&step.wwid, &step.uuid)?;
    guard::stamp_is(first == step.stamp, "somebody uses the LUN")?;
    if let Some(why) = &step.not_asked {
        machine.note(&format!(
            "the other members do not say whether this node's member serves on another computer ({why}): see that it does not"
        ));
    }
    machine.note(&format!("waiting {} to see whether another computer uses the LUN", step.span));
    machine.pause(step.span)?;
    let Some(found) = machine.stamp_at_rest(&step.wwid, &step.uuid)? else {
        guard::stamp_is(step.stamp.is_none(), "somebody uses the LUN")?;
        return Ok("nobody has used the LUN meanwhile".into());
    };
    require!(
        step.stamp.as_ref() == Some(&found),
        LunUsedElsewhere,
        "another computer uses the LUN: its use counter has moved to {} meanwhile. Stop etcd there first",
        found.activations
    );
    Ok("nobody has used the LUN meanwhile".into())
}

/// Makes this node the owner of the staged LUN. The local data, if a bar has put it aside, becomes retired data.
pub fn claim(machine: &mut dyn Machine, step: &Claim) -> anyhow::Result<String> {
    let Claim { from, stamp, record } = step;
    let at = &record.data_dir;
    guard::fenced(machine.is_fenced(at)?, at, "the LUN is not taken")?;
    let now = machine::stamp(machine, Place::Staging)?;
    guard::stamp_is(now == *from, "the LUN is not taken")?;
    machine.perform(&Effect::RetireBarred { generation: record.generation })?;
    let next = stamp::next_use(stamp)?;
    let done = stamp::begin_use(machine, &record.clone().announcing(from, next), stamp, next)?;
    machine.perform(&Effect::Unstage)?;
    Ok(done)
}

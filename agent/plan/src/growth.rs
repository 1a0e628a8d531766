//! The LUN has another size than the filesystem on it: somebody has changed it at the target.

use super::{
    input::{Occasion, PlanInput, require},
    refusal::Refusal,
    step::{Grow, NodeStep, Step},
};
use node::{Content, DataMount, Fact, Lun, LunView, Multipath};
use terms::Bytes;

/// The steps that let etcd use what the LUN has grown by; by hand only. The service leaves it to `health` to name the
/// difference: its SELinux domain has no right to grow a filesystem.
pub(super) fn grow(input: &PlanInput<'_>, mount: &DataMount) -> Result<Vec<Step>, Refusal> {
    let (Occasion::ByHand, Some(seen), Some((_, from))) = (input.occasion, mounted_lun(input), mount.free)
    else {
        return Ok(Vec::new());
    };
    if seen.silent {
        return Ok(Vec::new());
    }
    let mut steps = Vec::new();
    if seen.multipath == Multipath::Mapped && seen.path_size > seen.size {
        steps.push(Step::Node(NodeStep::ResizeMap { map: seen.device.clone(), to: seen.path_size }));
    }
    let to = seen.path_size;
    if seen.exceeds(from) {
        let wwid = require("the LUN's WWID", &seen.wwid)?.clone();
        steps.push(Step::Node(NodeStep::Grow(Grow {
            at: input.config.etcd.data_dir.clone(),
            wwid,
            from,
            to,
        })));
    }
    Ok(steps)
}

/// Refuses a LUN that ends before the filesystem that is mounted from it.
pub(super) fn refuse_shrunk_mount(input: &PlanInput<'_>, mount: &DataMount) -> Result<(), Refusal> {
    match (mounted_lun(input), mount.free) {
        (Some(seen), Some((_, filesystem))) => refuse(input, seen, filesystem),
        _ => Ok(()),
    }
}

/// Refuses a LUN that ends before the filesystem on it.
pub(super) fn refuse_shrunk(input: &PlanInput<'_>, seen: &Lun) -> Result<(), Refusal> {
    match &seen.content {
        Fact::Known(Content::Xfs { size, .. }) => refuse(input, seen, *size),
        Fact::Known(Content::Blank | Content::Unfinished { .. } | Content::Foreign { .. })
        | Fact::Unknown(_) => Ok(()),
    }
}

fn refuse(input: &PlanInput<'_>, seen: &Lun, filesystem: Bytes) -> Result<(), Refusal> {
    let found = seen.least_size();
    if found >= filesystem {
        return Ok(());
    }
    let wwid = require("the LUN's WWID", &seen.wwid)?.clone();
    let where_to_fix = input.config.backing.where_to_fix();
    Err(Refusal::Shrunk { wwid, found, wanted: filesystem, where_to_fix })
}

fn mounted_lun<'a>(input: &PlanInput<'a>) -> Option<&'a Lun> {
    match input.node.lun.known() {
        Some(LunView::Seen(seen)) => Some(seen),
        Some(LunView::NoSession | LunView::NotAttached) | None => None,
    }
}

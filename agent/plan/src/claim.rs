//! Takes this node's LUN, by hand only, where `apply` refuses it because the node could not be the only one that uses it.
//!
//! There are four cases, and they may come together:
//!
//! * The LUN is newer than the record, or there is no record. Then the node's disk went back in time, or another computer with
//!   this node's identity uses the LUN.
//! * The node's machine id has changed. The stamp names the owner by machine id, so the node refuses its own LUN. Record and
//!   node name say that it is the same node, and so would those of a clone.
//! * There is no record, and the stamp has this machine id and a former name of the node, which the person types. Two machines may
//!   have one machine id.
//! * The LUN has another WWID than in the record, and all else agrees. The array has changed it, or the blocks were copied. The
//!   other LUN may still be there, and used.
//!
//! So the LUN is looked at twice before anything is written to it, and its use counter must not move. A computer that uses the
//! LUN moves it with every `mark`. And the other members are asked whether this node's member answers on another computer. If
//! they cannot be asked, a person is told so: the whole cluster may be down.

use super::{
    attach, barred,
    input::{Occasion, PlanInput, require},
    labels, lun, migrate,
    outcome::{Horizon, Plan},
    recorded::{next_use, not_same, order_of, with_new_id},
    refusal::{AuthorityRefusal, Refusal},
    resume,
    step::{Claim, ProtocolStep, Step, WatchLun},
};
use config::Config;
use node::{
    Content, Elsewhere, Fact, LunView, Node, Order, WRITTEN_BACK,
    authority::{Authority, Record, Stamp},
};
use terms::{FsUuid, Span, Wwid};

/// Decides which steps make the node the LUN's owner. An empty plan if it is the owner.
pub fn claim(config: &Config, node: &Node) -> Result<Plan, Refusal> {
    labels::check_data(config, node)?;
    let input = PlanInput::new(config, node, Occasion::ByHand)?;
    if let Some(mount) = require("what is mounted on the data directory", &node.mount)? {
        return resume::verify_mounted(&input, mount).map(|_| Plan::complete(Vec::new()));
    }
    if !input.local.is_fenced() && (input.etcd.running || !input.etcd.lock_holders.is_empty()) {
        return Err(AuthorityRefusal::ClaimWhileRunning {
            name: input.etcd.name.clone(),
            at: input.data_dir(),
        }
        .into());
    }
    nobody_serves_elsewhere(&input)?;
    if let Some(plan) = attach::plan(&input)? {
        return Ok(plan);
    }
    let LunView::Seen(seen) = input.lun_view()? else {
        return Ok(Plan::until(Vec::new(), Horizon::Lun)); // `attach` has planned for it
    };
    let recorded = lun::recorded_wwid(&input).filter(|_| !lun::is_renamed(&input, seen));
    let wwid = lun::usable(&input, seen, recorded)?;
    let (uuid, settled, stamp) = match require("what the LUN holds", &seen.content)? {
        Content::Xfs { uuid, settled, stamp, .. } => {
            (*uuid, *settled, require("the LUN's stamp", stamp)?.as_ref())
        }
        Content::Blank | Content::Unfinished { .. } | Content::Foreign { .. } => {
            return Err(nothing(wwid, "it holds no data of etcd-lun"));
        }
    };
    let is_recorded = input.record.is_some_and(|record| record.uuid == uuid);
    let Some(stamp) = stamp else {
        return match is_recorded && !settled {
            true => Ok(watch_and_stage(&input, wwid, uuid, None)),
            false => Err(nothing(wwid, "it has no stamp")),
        };
    };
    let ours = match order_of(&input, Some(uuid), stamp) {
        Order::Newer if node.identity.former_name.is_some() => {
            stamp.clone().named(node.identity.hostname.clone())
        }
        Order::Newer => stamp.clone(),
        Order::OtherOwner => with_new_id(&input, Some(uuid), stamp).ok_or_else(|| match input.record {
            Some(record) => not_same(&input, record, stamp),
            None => nothing(wwid, "it is stamped for another node"),
        })?,
        Order::Same { .. } => match lun::recorded_wwid(&input) {
            Some(recorded) if recorded == wwid => return Ok(Plan::complete(Vec::new())),
            Some(_) => stamp.clone(),
            None => return Err(nothing(wwid, "it was never used")),
        },
        // Its log may hold a later stamp.
        Order::Older if is_recorded && !settled => {
            return Ok(watch_and_stage(&input, wwid, uuid, Some(stamp)));
        }
        Order::Older => return Err(nothing(wwid, "it is older than this node's record")),
        Order::Released => return Err(nothing(wwid, "a rollback of this node has left it")),
        Order::OtherFilesystem if !node.identity.may_be(&stamp.node) => {
            return Err(migrate::stamped_by_other(&input, wwid, stamp));
        }
        Order::OtherFilesystem => return Err(nothing(wwid, "this node has not used its filesystem")),
    };
    if !settled {
        return Ok(watch_and_stage(&input, wwid, uuid, Some(stamp)));
    }
    take(&input, wwid, uuid, stamp, ours)
}

/// This node's member does not answer on another computer, as far as the other members say.
pub(super) fn nobody_serves_elsewhere(input: &PlanInput<'_>) -> Result<(), Refusal> {
    match &input.node.elsewhere {
        Some(Fact::Known(Elsewhere::Alive { name, at })) => {
            Err(AuthorityRefusal::MemberElsewhere { name: name.clone(), at: at.clone() }.into())
        }
        Some(Fact::Known(Elsewhere::Silent { .. } | Elsewhere::Alone) | Fact::Unknown(_)) | None => Ok(()),
    }
}

fn nothing(wwid: &Wwid, found: &'static str) -> Refusal {
    AuthorityRefusal::NothingToClaim { wwid: wwid.clone(), found }.into()
}

/// Looks at the LUN twice, and only then stages it, because that writes to it.
fn watch_and_stage(input: &PlanInput<'_>, wwid: &Wwid, uuid: FsUuid, stamp: Option<&Stamp>) -> Plan {
    let stage = Step::Protocol(ProtocolStep::Stage { wwid: wwid.clone(), uuid });
    Plan::until(vec![watch(input, wwid, uuid, stamp), stage], Horizon::Stamp)
}

/// Looks at the LUN for longer than two periods of `mark`.
pub(super) fn watch(input: &PlanInput<'_>, wwid: &Wwid, uuid: FsUuid, stamp: Option<&Stamp>) -> Step {
    let not_asked = match &input.node.elsewhere {
        Some(Fact::Unknown(why)) => Some(why.clone()),
        Some(Fact::Known(_)) | None => None,
    };
    let periods = input.config.health.interval.0.saturating_mul(2).saturating_add(WRITTEN_BACK);
    Step::Protocol(ProtocolStep::WatchLun(WatchLun {
        wwid: wwid.clone(),
        uuid,
        stamp: stamp.cloned(),
        span: Span(periods),
        not_asked,
    }))
}

/// The LUN is staged, and nobody has used it meanwhile.
fn take(
    input: &PlanInput<'_>,
    wwid: &Wwid,
    uuid: FsUuid,
    from: &Stamp,
    ours: Stamp,
) -> Result<Plan, Refusal> {
    let mut steps = match input.record {
        Some(record) if record.authority == Authority::Lun => resume::retire_and_fence(input, record)?,
        Some(_) | None => barred::put_aside(input)?.into_iter().collect(),
    };
    let record = Record::claim(uuid, wwid.clone(), input.config.etcd.data_dir.clone(), from);
    let stamp = ours.used(next_use(input, input.record, from)?);
    steps.push(Step::Protocol(ProtocolStep::Claim(Claim { from: from.clone(), stamp, record })));
    Ok(Plan::complete(steps))
}

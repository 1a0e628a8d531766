//! The LUN is newer than this node's record, which does not say LUN: the local data is out of date.
//!
//! Either the node's disk went back in time, or another computer with this node's identity uses the LUN. So the LUN is neither
//! written nor mounted for use. The local data is barred, which a person can undo: it is put aside, and the fence takes its
//! place. A person decides which copy is to be used (`claim`).

use super::{
    Step, attach,
    input::{Occasion, PlanInput, require},
    lun,
    outcome::{Horizon, Plan},
    recorded::{lun_newer, order_of},
    refusal::{AuthorityRefusal, Refusal},
    step::ProtocolStep,
};
use node::{
    BarredData, Content, Fact, LocalDir, Lun, LunView, Node, Order,
    authority::Stamp,
    layout::{BARRED, BARRED_DATA, STATE},
};

/// Where nothing is committed, a boot looks at the LUN before anything else is checked: whatever is missing on this node, etcd must
/// not start on data that is out of date. So does a run by hand where the directory keeps etcd out: its data may be on the LUN. Only
/// what a look and a bar need is checked before: the record, the data directory, etcd and the mount are known. None if the LUN is not
/// newer.
pub(super) fn look_first(input: &PlanInput<'_>) -> Result<Option<Plan>, Refusal> {
    let is_for_now = input.occasion == Occasion::Boot || input.local.is_fenced();
    let may_look = is_for_now && input.node.is_without_commit();
    if !may_look || input.etcd.running || !matches!(input.node.mount, Fact::Known(None)) {
        return Ok(None);
    }
    look(input)
}

/// Looks at the LUN. None if it is not newer, as far as that is known.
pub(super) fn look(input: &PlanInput<'_>) -> Result<Option<Plan>, Refusal> {
    if let Some(plan) = attach::plan(input)? {
        return Ok(Some(plan));
    }
    let LunView::Seen(seen) = input.lun_view()? else { return Ok(None) };
    plan_if_newer(input, seen)
}

/// True if it is known whether the LUN is newer than the record.
pub(super) fn is_judged(node: &Node) -> bool {
    let Some(LunView::Seen(seen)) = node.lun.known() else { return false };
    match seen.content.known() {
        Some(Content::Xfs { stamp, .. }) => stamp.known().is_some(),
        Some(Content::Blank | Content::Unfinished { .. } | Content::Foreign { .. }) => true,
        None => false,
    }
}

/// The plan, if the LUN is newer than the record.
pub(super) fn plan_if_newer(input: &PlanInput<'_>, seen: &Lun) -> Result<Option<Plan>, Refusal> {
    let Some(Content::Xfs { uuid, stamp, .. }) = seen.content.known() else { return Ok(None) };
    let Some(Some(stamp)) = stamp.known() else { return Ok(None) };
    match order_of(input, Some(*uuid), stamp) {
        Order::Newer => bar(input, seen, stamp).map(Some),
        Order::Same { .. } | Order::Older | Order::Released | Order::OtherOwner | Order::OtherFilesystem => {
            Ok(None)
        }
    }
}

fn bar(input: &PlanInput<'_>, seen: &Lun, stamp: &Stamp) -> Result<Plan, Refusal> {
    let at = input.data_dir();
    // The stamp alone says that the LUN is newer.
    let refusal = |local: &str| match require("the LUN's WWID", &seen.wwid) {
        Ok(wwid) => lun_newer(input, wwid, stamp, local),
        Err(unknown) => unknown,
    };
    if input.etcd.running || !input.etcd.lock_holders.is_empty() {
        return Err(refusal(&format!(
            "etcd runs on {at}, which is out of date: stop it, then run `etcd-lun apply`, which keeps it from starting there"
        )));
    }
    match put_aside(input) {
        Ok(Some(step)) => Ok(Plan::until(vec![step], Horizon::Lun)),
        Ok(None) => Err(refusal(&whereabouts(input)?)),
        Err(cannot) => Err(refusal(&cannot.to_string())),
    }
}

/// The step after which etcd cannot start on the local disk; none if it cannot now. Nobody uses the data directory.
pub(super) fn put_aside(input: &PlanInput<'_>) -> Result<Option<Step>, Refusal> {
    let at = input.config.etcd.data_dir.clone();
    match input.local {
        local if local.is_fenced() => Ok(None),
        local if local.is_empty() => Ok(Some(Step::Protocol(ProtocolStep::Fence { at }))),
        // Where it cannot be moved, the step fails, and keeps etcd out by the flag of its database.
        LocalDir::Present { immutable: Some(_), .. } => Ok(Some(Step::Protocol(ProtocolStep::Bar { at }))),
        LocalDir::Present { .. } | LocalDir::Absent => {
            Err(AuthorityRefusal::NotBarred { at: at.to_string(), to: format!("{BARRED}/{BARRED_DATA}") }
                .into())
        }
    }
}

/// Where the local data is, and that etcd cannot start on it.
fn whereabouts(input: &PlanInput<'_>) -> Result<String, Refusal> {
    Ok(match barred_data(input)? {
        Some(_) => format!("etcd cannot start on the local data, which lies in {BARRED}/{BARRED_DATA}"),
        None => "etcd cannot start on the local disk, which holds no data".into(),
    })
}

/// The data that a bar has put aside.
pub(super) fn barred_data<'a>(input: &PlanInput<'a>) -> Result<Option<&'a BarredData>, Refusal> {
    Ok(require("whether local data is barred", &input.node.barred_data)?.as_ref())
}

/// The local data is barred, and the record does not say LUN. Nothing but a person ends this.
pub(super) fn plan(input: &PlanInput<'_>) -> Result<Plan, Refusal> {
    if !input.local.is_fenced() && input.local.is_empty() {
        // A run was cut short between the exchange and the flag.
        return Ok(Plan::until(
            vec![Step::Protocol(ProtocolStep::Fence { at: input.config.etcd.data_dir.clone() })],
            Horizon::Lun,
        ));
    }
    if let Some(plan) = attach::plan(input)? {
        return Ok(plan);
    }
    if let LunView::Seen(seen) = input.lun_view()? {
        lun::usable_wwid(input, seen)?;
        if let Some(plan) = plan_if_newer(input, seen)? {
            return Ok(plan);
        }
    }
    Err(AuthorityRefusal::Barred {
        at: input.data_dir(),
        data: format!("{BARRED}/{BARRED_DATA}"),
        state: STATE,
    }
    .into())
}

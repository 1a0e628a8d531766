//! What becomes of etcd and its LUN after a run has failed.
//!
//! Before its commit point a run is undone: etcd runs again from where it ran before. After it, what the run has begun is
//! finished by the next run. Nothing is undone that the run has not done.

use super::{
    Goal, Plan, Refusal, Step,
    input::{Occasion, PlanInput, RECORD_FACT, require},
    plan,
    step::ProtocolStep,
};
use config::Config;
use node::{Node, authority::Authority};

/// The acts after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// Nothing is left to put back.
    Nothing,
    /// etcd stays as it is. The text says why, and what goes on from here.
    Leave(&'static str),
    /// These steps put back what the run has changed, or begin to. The text says what is true after them.
    PutBack(Plan, &'static str),
}

/// Decides what is put back after a run to this goal has failed. `begun` are the steps that it has begun, in order.
///
/// Of a run to the LUN this depends on the record and on etcd only, so that a target that has fallen silent holds nothing up.
/// Refuses if one of these facts is unknown: etcd is never started on a copy that may not be the authoritative one.
pub fn undo(config: &Config, node: &Node, goal: Goal, begun: &[Step]) -> Result<Undo, Refusal> {
    let stopped = require("whether etcd runs", &node.etcd)?.stopped_by_us;
    let record = require(RECORD_FACT, &node.record)?.as_ref();
    let on_lun = record.is_some_and(|record| record.authority == Authority::Lun);
    let rolled_back = record.is_some_and(|record| record.rolled_back);
    match goal {
        Goal::Claim | Goal::ClaimLocal => Ok(Undo::Nothing), // they stop nothing that served
        Goal::Lun(_) if !stopped => Ok(Undo::Nothing),
        Goal::Lun(_) if on_lun => Ok(Undo::Leave(APPLY_GOES_ON)),
        Goal::Lun(_) if rolled_back => Ok(Undo::Leave(ROLLBACK_GOES_ON)),
        Goal::Lun(occasion) => {
            let start = PlanInput::start_etcd_of(config, Authority::Local, occasion);
            Ok(Undo::PutBack(Plan::complete(vec![start]), started_on_local(occasion)))
        }
        Goal::Local if !on_lun && !stopped => Ok(Undo::Nothing),
        Goal::Local if !on_lun => Ok(Undo::Leave(ROLLBACK_GOES_ON)),
        Goal::Local if stopped || (has_unmounted(begun) && is_unmounted(node)?) => {
            Ok(Undo::PutBack(plan(config, node, Occasion::ByHand)?, BACK_ON_LUN))
        }
        Goal::Local => Ok(Undo::Nothing),
    }
}

fn has_unmounted(begun: &[Step]) -> bool {
    begun.iter().any(|step| matches!(step, Step::Protocol(ProtocolStep::UnmountData { .. })))
}

fn is_unmounted(node: &Node) -> Result<bool, Refusal> {
    Ok(require("what is mounted on the data directory", &node.mount)?.is_none())
}

fn started_on_local(occasion: Occasion) -> &'static str {
    match occasion {
        Occasion::ByHand => "etcd runs from the local disk again, as before",
        Occasion::Boot => "etcd starts from the local disk, as before",
    }
}

const APPLY_GOES_ON: &str =
    "etcd stays stopped: its data is on the LUN now; `etcd-lun apply` goes on from here";
const ROLLBACK_GOES_ON: &str =
    "etcd stays as it is: its data is on the local disk now; `etcd-lun rollback` goes on from here";
const BACK_ON_LUN: &str = "etcd runs from the LUN again, as before";

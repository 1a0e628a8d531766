//! What becomes of etcd and its LUN after a run has failed.
//!
//! Before its commit point a run is undone: etcd runs again from where it ran before. After it, what the run has begun is
//! finished by the next run. Nothing is undone that the run has not done.

use super::{
    AuthorityRefusal, Goal, Plan, Refusal, Step, barred,
    input::{Occasion, PlanInput, RECORD_FACT, require},
    plan,
    step::ProtocolStep,
};
use config::Config;
use node::{Fact, LocalDir, Node, authority::Authority};

/// What a run that has failed knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempt<'a> {
    /// The steps that it has begun, in order.
    pub begun: &'a [Step],
    /// The refusal that has ended it; none if an error has.
    pub refusal: Option<&'a Refusal>,
    /// True if it has seen what the LUN holds.
    pub saw_lun: bool,
    /// True if etcd cannot run from the local disk: it has no data there, or the data is barred.
    pub is_kept_out: bool,
}

impl<'a> Attempt<'a> {
    /// Takes note of an observation.
    #[must_use]
    pub fn saw(self, node: &Node) -> Self {
        let is_kept_out =
            node.barred_data != Fact::Known(None) || node.local.known().is_none_or(LocalDir::is_empty);
        Self { saw_lun: self.saw_lun || barred::is_judged(node), is_kept_out, ..self }
    }
}

/// The acts after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// Nothing is left to put back.
    Nothing,
    /// etcd stays as it is. The text says why, and what goes on from here.
    Leave(&'static str),
    /// Nothing failed that this node needs. The text says why.
    Accept(&'static str),
    /// These steps put back what the run has changed, or begin to. The text says what is true after them.
    PutBack(Plan, &'static str),
}

/// Decides what is put back after a run to this goal has failed.
///
/// Of a run to the LUN this depends on the record, on etcd and on what the run has seen, so that a target that has fallen silent
/// holds nothing up. Refuses if one of these facts is unknown: etcd is never started on a copy that may not be the authoritative one.
pub fn undo(config: &Config, node: &Node, goal: Goal, attempt: Attempt<'_>) -> Result<Undo, Refusal> {
    let stopped = require("whether etcd runs", &node.etcd)?.stopped_by_us;
    let record = require(RECORD_FACT, &node.record)?.as_ref();
    let on_lun = record.is_some_and(|record| record.authority == Authority::Lun);
    let rolled_back = record.is_some_and(|record| record.rolled_back);
    match goal {
        Goal::Claim | Goal::ClaimLocal => Ok(Undo::Nothing), // they stop nothing that served
        Goal::Lun(Occasion::Boot) if rolled_back && !stopped && attempt.has_only_looked() => {
            Ok(Undo::Accept(NO_TARGET))
        }
        Goal::Lun(_) if !stopped => Ok(Undo::Nothing),
        Goal::Lun(_) if on_lun => Ok(Undo::Leave(APPLY_GOES_ON)),
        Goal::Lun(_) if rolled_back => Ok(Undo::Leave(ROLLBACK_GOES_ON)),
        Goal::Lun(_) if attempt.is_out_of_date() => Ok(Undo::Leave(OUT_OF_DATE)),
        // A boot stops no etcd that serves, so an earlier run has stopped it. This may be a disk of that moment.
        Goal::Lun(Occasion::Boot) if !attempt.saw_lun => Ok(Undo::Leave(UNSEEN)),
        Goal::Lun(occasion) => {
            let start = PlanInput::start_etcd_of(config, Authority::Local, occasion);
            Ok(Undo::PutBack(Plan::complete(vec![start]), started_on_local(occasion)))
        }
        Goal::Local if !on_lun && !stopped => Ok(Undo::Nothing),
        Goal::Local if !on_lun => Ok(Undo::Leave(ROLLBACK_GOES_ON)),
        Goal::Local if stopped || (has_unmounted(attempt.begun) && is_unmounted(node)?) => {
            Ok(Undo::PutBack(plan(config, node, Occasion::ByHand)?, BACK_ON_LUN))
        }
        Goal::Local => Ok(Undo::Nothing),
    }
}

impl Attempt<'_> {
    fn has_only_looked(self) -> bool {
        self.refusal.is_none()
            && !self.is_kept_out
            && self.begun.iter().all(|step| matches!(step, Step::Node(_)))
    }

    /// Only a LUN that is newer has the local data barred.
    fn is_out_of_date(self) -> bool {
        let bars = |step: &Step| matches!(step, Step::Protocol(ProtocolStep::Bar { .. }));
        matches!(self.refusal, Some(Refusal::Authority(AuthorityRefusal::LunNewer { .. })))
            || self.begun.iter().any(bars)
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
const NO_TARGET: &str =
    "etcd runs from the local disk, as the rollback has left it; the LUN could not be looked at";
const OUT_OF_DATE: &str = "etcd stays stopped: its data on the local disk is out of date";
const UNSEEN: &str = "etcd stays stopped, as a run of before has left it, until the LUN was looked at: its data on the local disk may be out of date. `etcd-lun apply` starts it without that look";
const BACK_ON_LUN: &str = "etcd runs from the LUN again, as before";

//! Advances the LUN's use counter while etcd runs on it.
//!
//! A snapshot that the array took earlier has a lower counter from then on, so the next mount refuses it. Without this only a
//! mount would advance the counter. A snapshot taken and restored between two mounts could not be distinguished from the present data.

use super::{
    input::{Occasion, PlanInput, RECORD_FACT, require},
    recorded::next_use,
    refusal::Refusal,
    resume, step,
};
use config::Config;
use node::{Fact, InPlace, LunView, Node, authority::Authority, in_place};
use std::fmt;

/// The decision whether the use counter is advanced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkPlan {
    /// It is, by this step.
    Advance(Box<step::Mark>),
    /// It is not, which is not a fault.
    Skip(SkipReason),
}

/// Why the use counter stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// The local disk is authoritative.
    NotMigrated,
    /// Nothing uses the LUN.
    NotMounted,
    /// A write would block until the target is back, and block whoever waits for this process.
    NoConnection,
    /// The target does not answer, though the connection seems to be there. Nothing is written.
    Silent,
    /// XFS has not written the last use to its place yet.
    NotInPlace,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMigrated => "etcd's data is on the local disk",
            Self::NotMounted => "the LUN is not mounted",
            Self::NoConnection => "no session to the target is connected",
            Self::Silent => "the LUN does not answer",
            Self::NotInPlace => {
                "XFS has not written the last use to its place yet, which takes it about 30 s"
            }
        })
    }
}

/// Decides whether the use counter is advanced. Refuses where `apply` would: on any doubt that the mounted data is the
/// authoritative copy.
pub fn mark(config: &Config, node: &Node) -> Result<MarkPlan, Refusal> {
    let record = require(RECORD_FACT, &node.record)?.as_ref();
    if record.is_none_or(|record| record.authority == Authority::Local) {
        return Ok(MarkPlan::Skip(SkipReason::NotMigrated));
    }
    let input = PlanInput::new(config, node, Occasion::ByHand)?;
    let Some(mount) = require("what is mounted on the data directory", &node.mount)? else {
        return Ok(MarkPlan::Skip(SkipReason::NotMounted));
    };
    if let Some(iscsi) = config.backing.iscsi() {
        let sessions = require("iSCSI sessions", &node.sessions)?;
        let mut ours = sessions.iter().filter(|session| session.is_of(&iscsi.target.iqn));
        if !mount.io_error && !ours.any(|session| session.is_logged_in()) {
            return Ok(MarkPlan::Skip(SkipReason::NoConnection));
        }
    }
    if matches!(&node.lun, Fact::Known(LunView::Seen(lun)) if lun.silent) {
        return Ok(MarkPlan::Skip(SkipReason::Silent));
    }
    let (record, stamp) = resume::verify_mounted(&input, mount)?;
    let LunView::Seen(lun) = input.lun_view()? else { return Ok(MarkPlan::Skip(SkipReason::NoConnection)) };
    // Only one use at a time is not in its place yet. Otherwise an earlier one could not be distinguished from a restored LUN.
    if *require("what the LUN holds", &in_place(record, mount, stamp, &lun.content))? != InPlace::Current {
        return Ok(MarkPlan::Skip(SkipReason::NotInPlace));
    }
    let next = next_use(&input, Some(record), stamp)?;
    Ok(MarkPlan::Advance(Box::new(step::Mark {
        at: config.etcd.data_dir.clone(),
        stamp: stamp.clone().used(next),
        record: record.clone().announcing(stamp, next),
    })))
}

//! What will be done, or why nothing will be done. Pure: config and facts in, steps or a refusal out.
//!
//! All behaviour is decided here. Some steps reveal new facts: before login there is no LUN to look at. A plan stops at such
//! a step and names its [`Horizon`]. `apply` then observes and plans again, until nothing is left to do.
//!
//! * [`input`]: the facts that every decision needs
//! * [`attach`]: makes the LUN visible to this node
//! * [`lun`]: whether it is the right LUN, and free
//! * [`migrate`]: moves the data from the local disk to the LUN
//! * [`resume`]: the LUN is authoritative: fence, advance the use counter, mount, start etcd
//! * [`claim`]: takes the node's own LUN, which is newer than its record or names an earlier machine id
//! * [`claim_local`]: returns to the local data that was barred
//! * [`growth`]: the LUN has another size than the filesystem on it
//! * [`portals`]: the config has other portals than the node has sessions
//! * [`mark`]: advances the use counter while etcd runs on the LUN
//! * [`quorum`]: whether etcd may be stopped by hand
//! * [`outlook`]: what that means for the cluster, and the wait until its member serves again
//! * [`retired`]: when retired data may be deleted
//! * [`barred`]: the LUN is newer than a record that does not say LUN
//! * [`recorded`]: whether a LUN holds what the record says
//! * [`rollback`]: moves the data from the LUN back to the local disk
//! * [`undo`]: what becomes of etcd after a run has failed
#![deny(clippy::wildcard_enum_match_arm)]

mod attach;
mod barred;
mod claim;
mod claim_local;
mod growth;
mod input;
mod labels;
mod lun;
mod mark;
mod migrate;
mod outcome;
mod outlook;
mod portals;
mod quorum;
mod recorded;
mod refusal;
mod resume;
mod retired;
mod rollback;
pub mod step;
mod undo;

pub use attach::{initiator_name, let_go, single_log_in};
pub use claim::claim;
pub use claim_local::claim_local;
pub use input::{Occasion, is_held};
pub use mark::{MarkPlan, SkipReason, mark};
pub use outcome::{Horizon, Plan};
pub use quorum::may_stop;
pub use refusal::{
    AuthorityRefusal, ClusterRefusal, LabelRefusal, PlaceRefusal, Refusal, RollbackRefusal, ShutDownRefusal,
};
pub use resume::{Trouble, another_volume, has_lost_its_lun, trouble};
pub use retired::may_delete;
pub use rollback::rollback;
pub use step::{NodeStep, ProtocolStep, Step, Way};
pub use undo::{Attempt, Undo, undo};

use config::Config;
use input::{PlanInput, require};
use node::{Node, authority::Authority};

/// Where a run moves etcd's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// To the LUN: `apply`.
    Lun(Occasion),
    /// Back to the local disk: `rollback`, by hand only.
    Local,
    /// Nowhere. The node takes its LUN, which is newer than its record or names an earlier machine id: `claim`, by hand only.
    Claim,
    /// Back to the local data that was barred, because the LUN is newer: `claim --local`, by hand only.
    ClaimLocal,
}

impl Goal {
    /// Plans from what was observed to this goal.
    pub fn plan(self, config: &Config, node: &Node) -> Result<Plan, Refusal> {
        let (mut planned, occasion) = match self {
            Self::Lun(occasion) => (plan(config, node, occasion)?, occasion),
            Self::Local => (rollback(config, node)?, Occasion::ByHand),
            Self::Claim => return claim(config, node),
            Self::ClaimLocal => return claim_local(config, node),
        };
        let input = PlanInput::new(config, node, occasion)?;
        planned.cluster = outlook::outlook(&input, &planned);
        if self != Self::Local && !planned.is_empty() {
            planned.warnings.extend(lun::warn_of_quota(&input));
            planned.warnings.extend(attach::warn_of_md5(&input, &planned));
        }
        Ok(planned)
    }

    /// Returns true if its plans depend on the cluster: by hand, because at boot etcd is down in any case.
    pub fn asks_cluster(self) -> bool {
        match self {
            Self::Lun(Occasion::ByHand) | Self::Local => true,
            Self::Lun(Occasion::Boot) | Self::Claim | Self::ClaimLocal => false,
        }
    }

    /// Returns true if its plans depend on what the other members say of this node's member.
    pub fn asks_others(self) -> bool {
        matches!(self, Self::Claim | Self::ClaimLocal)
    }
}

/// Decides which steps bring the node to what the config asks for.
pub fn plan(config: &Config, node: &Node, occasion: Occasion) -> Result<Plan, Refusal> {
    let input = PlanInput::new(config, node, occasion)?;
    if let Some(plan) = barred::look_first(&input)? {
        return Ok(plan);
    }
    labels::check_parent(config, node)?;
    labels::check_data(config, node)?;
    if let Some(record) = input.record.filter(|record| record.rolled_back) {
        return rollback::apply_after_rollback(&input, record);
    }
    if let Some(mount) = require("what is mounted on the data directory", &node.mount)? {
        return resume::mounted(&input, mount);
    }
    match input.record {
        Some(record) if record.authority == Authority::Lun => resume::unmounted(&input, record),
        Some(_) | None if barred::barred_data(&input)?.is_some() => barred::plan(&input),
        Some(_) | None => migrate::plan(&input),
    }
}

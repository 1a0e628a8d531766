//! A plan: steps in order, and where it has to stop.

use super::step::{ProtocolStep, Step};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use terms::{FsUuid, Wwid};

/// Steps in order, and what cannot be planned yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Plan {
    /// The steps that can be decided now.
    pub steps: Vec<Step>,
    /// The facts that the last step will show; none if the plan is complete.
    pub horizon: Option<Horizon>,
    /// A line about the cluster, if etcd is to be stopped by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// What an administrator should know before the steps are done.
    pub warnings: Vec<String>,
}

/// The facts that must be observed before more can be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Horizon {
    /// The content of the LUN.
    Lun,
    /// The LUN's stamp, which can be read for certain only after the filesystem's log was replayed.
    Stamp,
    /// The LUN, mounted where etcd uses it.
    Mount,
    /// The local data, on its way back to the data directory.
    Local,
    /// The release of the LUN, and the sessions that nobody uses any more.
    Sessions,
}

impl fmt::Display for Horizon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lun => "further steps depend on what the LUN is and holds",
            Self::Stamp => "further steps depend on the LUN's stamp",
            Self::Mount => "further steps begin with the LUN mounted",
            Self::Local => "then put the local data back into its place",
            Self::Sessions => "then release the LUN, and log out sessions that nobody uses any more",
        })
    }
}

impl Plan {
    pub(super) fn complete(steps: Vec<Step>) -> Self {
        Self { steps, horizon: None, cluster: None, warnings: Vec::new() }
    }

    pub(super) fn until(steps: Vec<Step>, horizon: Horizon) -> Self {
        Self { steps, horizon: Some(horizon), cluster: None, warnings: Vec::new() }
    }

    /// Stages the LUN, which replays the filesystem's log. Then its stamp can be read for certain.
    pub(super) fn stage(wwid: &Wwid, uuid: FsUuid) -> Self {
        Self::until(vec![Step::Protocol(ProtocolStep::Stage { wwid: wwid.clone(), uuid })], Horizon::Stamp)
    }

    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.horizon.is_none()
    }
}

//! How a run ends.

use super::away::Away;
use anyhow::anyhow;
use plan::Refusal;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Done {
    /// How many steps were taken.
    pub steps: usize,
    /// The names of the steps, in order.
    pub taken: Vec<&'static str>,
    /// The generation that was rolled back to the local disk, if a rollback has made the local copy authoritative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<u64>,
    /// True if etcd stays on the local disk because the node's entry has `migrate = false`. The key is absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// How long etcd was away, if the run has stopped and started it. The key is absent if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub away: Option<Away>,
}

/// Why a run did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The planner or a step refused to act in this situation.
    Refused(Box<Refusal>),
    /// A step or an observation failed.
    Error(anyhow::Error),
}

impl Failure {
    /// The failure as an error to which a context can be added.
    pub(super) fn into_error(self) -> anyhow::Error {
        match self {
            Self::Refused(refusal) => anyhow!(*refusal),
            Self::Error(error) => error,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Error(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

//! Refusals of `retired delete`.

use schemars::JsonSchema;
use serde::Serialize;
use terms::Span;

/// Why retired data is not deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum RetiredRefusal {
    /// There is no retired data of this generation.
    #[error("{at} does not exist: run `etcd-lun retired list` for the generations that do")]
    #[serde(rename = "nothing-retired")]
    Absent {
        /// The directory.
        at: String,
    },
    /// The directory does not carry our mark for this generation.
    #[error(
        "{at} does not carry etcd-lun's mark for its generation: look at it, and remove it by hand if nobody needs it"
    )]
    #[serde(rename = "retired-by-others")]
    ByOthers {
        /// The directory.
        at: String,
    },
    /// etcd has not worked without the retired data for long enough.
    #[error("{at} was retired {age} ago, and is kept for {keep}: wait, or lower `lun.keep_retired`")]
    #[serde(rename = "retired-lately")]
    Lately {
        /// The directory.
        at: String,
        /// How long ago.
        #[serde(rename = "age_seconds")]
        age: Span,
        /// How long the config keeps it.
        #[serde(rename = "keep_seconds")]
        keep: Span,
    },
    /// etcd does not run on the LUN.
    #[error(
        "{found}: retired data can be deleted only while etcd runs on the LUN; run `etcd-lun status`, which says where it is"
    )]
    #[serde(rename = "retired-is-needed")]
    Needed {
        /// The finding.
        found: String,
    },
}

//! Why no LUN of a list in the config is taken.

use schemars::JsonSchema;
use serde::Serialize;
use terms::Wwid;

/// A refusal of a node whose entry has `wwids`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, JsonSchema)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum ListRefusal {
    /// None is blank and free, and none has this machine's stamp.
    #[error(
        "no LUN of `node.wwids` is free for this node, and nothing was written to any: {list}. Map a blank LUN of the list to this node's initiator name, or add one to the list"
    )]
    NoneFree {
        /// Each with the reason.
        list: String,
    },
    /// One cannot be judged, and it may be this node's own.
    #[error(
        "LUN {wwid} of `node.wwids` {found}, so whether it is this node's own cannot be determined, and no other is taken: make it readable, or take it out of the list"
    )]
    CannotBeJudged {
        /// The LUN.
        wwid: Wwid,
        /// The finding.
        found: String,
    },
    /// The node's LUN is not in the list.
    #[error(
        "the record of this node names LUN {wwid}, and `node.wwids` does not list it: add it to the list again; this node takes no other LUN"
    )]
    NotListed {
        /// The LUN.
        wwid: Wwid,
    },
    /// Two have this machine's stamp.
    #[error(
        "this machine has stamped more than one LUN of `node.wwids`: {own}. See at the array which one etcd used last, take the others out of the list or their mapping away, then run `etcd-lun claim` again"
    )]
    SeveralOwn {
        /// The LUNs.
        own: String,
    },
}

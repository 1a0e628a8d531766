//! Refusals where record and stamp do not agree, and those of `claim`.

use schemars::JsonSchema;
use serde::Serialize;
use terms::Wwid;

/// Why nothing is done until a person has decided which copy is to be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum AuthorityRefusal {
    /// An old state of the LUN, while the local disk is authoritative.
    #[error(
        "LUN {wwid} has an old stamp of this node, generation {generation}, which is not what this node has left there: an old snapshot of the LUN was restored, or another computer with this node's identity has used it. Nothing was written to it. See at the target who uses it, and name another LUN (`node.lun` or `device.path`), then run `etcd-lun apply`"
    )]
    OlderUse {
        /// The LUN.
        wwid: Wwid,
        /// The generation in its stamp.
        generation: u64,
    },
    /// The LUN is newer than the record.
    #[error(
        "LUN {wwid} is newer than this node's record: {found}. This node's disk went back in time, or another computer with this node's identity uses the LUN; nothing was written to it. {local}. If no other computer uses the LUN, run `etcd-lun claim`, then `etcd-lun apply`"
    )]
    LunNewer {
        /// The LUN.
        wwid: Wwid,
        /// The sign that it is newer.
        found: String,
        /// Why etcd cannot start on the local disk, or what to do about that.
        local: String,
    },
    /// The device beneath the mounted filesystem holds what this node has not written.
    #[error("LUN {wwid} {found}: {cure}")]
    ChangedBeneath {
        /// The LUN.
        wwid: Wwid,
        /// What the device has.
        found: String,
        /// What follows from it, and what to do.
        cure: &'static str,
    },
    /// The local data cannot be put aside.
    #[error(
        "the data in {at} cannot be moved to {to}: keep etcd stopped, and move it away by hand (`mv {at} {at}.before-claim`)"
    )]
    NotBarred {
        /// The data directory.
        at: String,
        /// Where the data would go.
        to: String,
    },
    /// `claim` does not take a LUN while etcd uses other data.
    #[error(
        "etcd ({name}) runs on {at}: a LUN is claimed only while etcd is stopped. Stop it, then run this again"
    )]
    ClaimWhileRunning {
        /// Its unit or manifest.
        name: String,
        /// The data directory.
        at: String,
    },
    /// `claim` does not take a LUN whose member serves on another computer.
    #[error(
        "this node's member {name} answers at {at}, which is another computer: it uses the LUN, or serves without it. Stop etcd there for good first, or remove that member if it is not this node's, then run this again"
    )]
    MemberElsewhere {
        /// The member's name.
        name: String,
        /// Its client URL.
        at: String,
    },
    /// The LUN is none that this node could claim.
    #[error(
        "there is nothing to claim on LUN {wwid}: {found}; run `etcd-lun plan` for what `apply` would do"
    )]
    NothingToClaim {
        /// The LUN.
        wwid: Wwid,
        /// The finding.
        found: &'static str,
    },
    /// There is no barred data.
    #[error(
        "no local data is barred on this node, so there is none to return to: run `etcd-lun plan` for what `apply` would do"
    )]
    NothingBarred,
    /// The local data was barred, and nothing shows any more that the LUN is newer.
    #[error(
        "{at} is barred: its data lies in {data}, because the LUN was newer than the record in {state}, and that cannot be seen now. Make the LUN visible again and run `etcd-lun claim`, or return to the local data with `etcd-lun claim --local`"
    )]
    Barred {
        /// The data directory.
        at: String,
        /// Where its data is.
        data: String,
        /// Our state directory.
        state: &'static str,
    },
}

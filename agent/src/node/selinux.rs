//! SELinux, and this program under it.

use serde::Serialize;

/// What SELinux is on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selinux {
    /// The kernel runs without it.
    Off,
    /// The kernel has a policy.
    On {
        /// Whether what the policy doesn't allow is denied, and not only logged.
        enforcing: bool,
        /// Our module in that policy.
        module: InForce,
        /// The label of this process.
        context: String,
        /// The label of this process's program; nothing when it has none.
        program: Option<String>,
        /// The label of the directory that holds the data directory; nothing when it has none.
        beside: Option<String>,
        /// The unit of ours that systemd started this process for.
        unit: Option<String>,
    },
}

/// Which module of ours the policy in force has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InForce {
    /// The one for this config, of this version.
    Right,
    /// One for another config, or of another version.
    Other,
    /// None.
    Absent,
}

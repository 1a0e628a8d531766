//! SELinux, and how it confines this process.

use schemars::JsonSchema;
use serde::Serialize;

/// SELinux on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Selinux {
    /// The kernel runs without it.
    Off,
    /// The kernel has a policy.
    On {
        /// True if the kernel denies what the policy does not allow. If not, it only logs it.
        enforcing: bool,
        /// etcd-lun's module in that policy.
        module: InForce,
        /// True if the policy knows the label with which the LUN is mounted. The kernel refuses another one.
        knows_data_label: bool,
        /// The label of this process.
        context: String,
        /// The label of this process's program file; none if it has none.
        program: Option<String>,
        /// The label of the directory that holds the data directory; none if it has none.
        beside: Option<String>,
        /// The unit of etcd-lun that systemd runs this process for; none for a process of a person.
        unit: Option<String>,
    },
}

/// The version of etcd-lun's module in the loaded policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InForce {
    /// The one of this version, for this config.
    Right,
    /// One of another version, or for another config.
    Other,
    /// None.
    Absent,
}

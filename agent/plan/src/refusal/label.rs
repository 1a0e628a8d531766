//! Why SELinux's labels keep a node from its LUN.

use schemars::JsonSchema;
use serde::Serialize;

/// A refusal for SELinux's labels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, JsonSchema)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum LabelRefusal {
    /// The confined service could not exchange the data directory.
    #[error(
        "{parent} is labelled {found}, and etcd-lun's SELinux module lets its services exchange directories only in a directory of type {wanted}, such as /var/lib: put etcd's data there, or label {parent} (`semanage fcontext --add --type {wanted} {parent}`, then `restorecon {parent}`)"
    )]
    OtherLabel {
        /// The directory that holds the data directory.
        parent: String,
        /// Its label.
        found: String,
        /// The type that it must have.
        wanted: &'static str,
    },
    /// The LUN could not be mounted with its label.
    #[error(
        "SELinux is on, and its policy does not know the label {label} with which the LUN is mounted: run `etcd-lun selinux install`; at boot etcd-lun-selinux.service does that"
    )]
    UnknownDataLabel {
        /// The label.
        label: String,
    },
}

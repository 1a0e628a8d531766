//! Refusals for SELinux's labels, without which a later boot would fail.

use super::{
    input::require,
    refusal::{LabelRefusal, Refusal},
};
use config::Config;
use node::{Fact, Node, Selinux};

/// Refuses to begin what ends with a mount that the kernel refuses, because its policy does not know the label.
pub(super) fn check_data(config: &Config, node: &Node) -> Result<(), Refusal> {
    let done = matches!(&node.mount, Fact::Known(Some(_)))
        || matches!(&node.record, Fact::Known(Some(record)) if record.rolled_back);
    match require("SELinux", &node.selinux)? {
        Selinux::On { knows_data_label: false, .. } if !done => {
            Err(LabelRefusal::UnknownDataLabel { label: config.lun.data_label().to_owned() }.into())
        }
        Selinux::On { .. } | Selinux::Off => Ok(()),
    }
}

/// Refuses a data directory whose parent has a label that the policy module has no rule for.
///
/// The module lets the helper make and exchange names in directories of type `var_lib_t` only. Elsewhere a person could
/// migrate, but no later boot could bring etcd up.
pub(super) fn check_parent(config: &Config, node: &Node) -> Result<(), Refusal> {
    const TYPE: &str = "var_lib_t";
    if matches!(&node.record, Fact::Known(Some(record)) if record.rolled_back) {
        return Ok(()); // nothing is exchanged, or only the copy that returns
    }
    let Selinux::On { beside, .. } = require("SELinux", &node.selinux)? else { return Ok(()) };
    let label = beside.as_deref().unwrap_or("unlabelled");
    if label.split(':').nth(2) == Some(TYPE) {
        return Ok(());
    }
    Err(LabelRefusal::OtherLabel {
        parent: config.etcd.data_dir.parent().to_string(),
        found: label.to_owned(),
        wanted: TYPE,
    }
    .into())
}

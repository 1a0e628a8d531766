//! What steps need from SELinux: the label of the LUN's root directory.

use crate::{
    host::{Host, selinux},
    policy,
    terms::AbsPath,
};
use anyhow::Context as _;
use std::os::fd::OwnedFd;

/// Gives the root directory of a new filesystem the label of etcd's data, which files created in it inherit. A
/// directory that already has a label keeps it.
///
/// The label is that of our policy module if the module is loaded, because the local directory may have another one.
/// Without the module it is the local directory's label.
pub fn label_root(host: &Host, root: &OwnedFd, data_dir: &AbsPath) -> anyhow::Result<()> {
    const UNLABELLED: &str = "unlabeled_t";
    let has = selinux::label(root)?;
    if has.as_deref().and_then(policy::type_of).is_some_and(|found| found != UNLABELLED) {
        return Ok(());
    }
    let ours = selinux::enforces(host)?.is_some() && selinux::knows(host, policy::DATA_LABEL)?;
    let label =
        if ours { Some(policy::DATA_LABEL.to_owned()) } else { selinux::label_of(host, data_dir.as_str())? };
    match label {
        Some(label) => selinux::set_label(root, &label).with_context(|| format!("labelling the LUN {label}")),
        None => Ok(()),
    }
}

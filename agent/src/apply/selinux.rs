//! What runs need from SELinux: the labels of their own directories and of the LUN's root directory.

use crate::{
    hands,
    host::{Host, selinux},
    node::layout::RUNTIME_DIR,
    policy::{self, HANDS_LABEL, RUNTIME_LABEL},
    terms::AbsPath,
    unit::HANDS_DIR,
};
use anyhow::Context as _;
use std::os::fd::OwnedFd;

/// Makes the directories in /run with the labels that the service needs. Nobody else gives them these labels if a run by hand is
/// the first to make them: in a shell's domain a new directory has the label of /run.
pub fn make_directories(host: &Host) -> anyhow::Result<()> {
    if selinux::enforces(host)?.is_none() || hands::is_confined(host)? {
        return Ok(());
    }
    for (dir, label) in [(RUNTIME_DIR, RUNTIME_LABEL), (HANDS_DIR, HANDS_LABEL)] {
        host.root.make_dir(dir, 0o700)?;
        if selinux::knows(host, label)? && selinux::label_of(host, dir)?.as_deref() != Some(label) {
            selinux::set_label_of(host, dir, label).with_context(|| format!("labelling {dir}"))?;
        }
    }
    Ok(())
}

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

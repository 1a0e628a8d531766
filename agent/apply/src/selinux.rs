//! What runs need from SELinux: the labels of their own directories. The LUN has its label from the mount.

use anyhow::Context as _;
use host::{Host, selinux};
use node::layout::RUNTIME_DIR;
use policy::{HANDS_LABEL, RUNTIME_LABEL};
use unit::HANDS_DIR;

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

//! The fence: the directory beneath the mount point is without data and immutable.

use crate::{
    host::{Host, dir, inode},
    node::layout::BAR,
    terms::AbsPath,
};
use anyhow::{Context as _, bail, ensure};

/// Makes the directory beneath the mount point immutable, with nothing in it but [`BAR`].
///
/// The file stays. If it were removed first, the directory would be empty and not yet immutable for a moment, and after
/// a power cut for a whole boot: etcd would bootstrap a new cluster there. The file is only made if nothing has its
/// name, so data of an etcd that was started earlier is found and not fenced.
pub fn fence(host: &Host, at: &AbsPath) -> anyhow::Result<String> {
    let parent = dir::without_mounts(host, &at.parent())?;
    dir::make(&parent, at.name(), 0o700).with_context(|| format!("making {at}"))?;
    let place = dir::open(&parent, at.name()).with_context(|| format!("opening {at}"))?;
    match dir::names(&place)?.as_slice() {
        [] => dir::make_file(&place, BAR).with_context(|| format!("barring {at}"))?,
        [only] if only == BAR && dir::is_empty_file(&place, BAR)? => {}
        names => bail!("{at} holds {}: only an empty directory is fenced", names.join(", ")),
    }
    inode::set_immutable(&place, true).with_context(|| format!("making {at} immutable"))?;
    let kept = inode::is_immutable(&place)? == Some(true);
    ensure!(kept, "the filesystem of {at} took the immutable flag and has not kept it");
    Ok(format!("{at} is immutable, without data"))
}

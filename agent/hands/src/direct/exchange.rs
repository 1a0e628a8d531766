//! The data directory changes places with another one. The service may make no name beside it.

use crate::{looks, request::Shelf};
use anyhow::Context as _;
use host::{Host, dir, inode};
use node::layout::BAR;
use terms::{AbsPath, require};

/// Exchanges both in one atomic step. What leaves or what comes keeps etcd out: at no moment may there be a directory in which etcd
/// could begin without data, and no data takes the place of other data.
pub(super) fn exchange(host: &Host, data_dir: &AbsPath, with: Shelf) -> anyhow::Result<()> {
    looks::nothing_on(data_dir, looks::mounted_on(host, data_dir)?.map(|mount| mount.source).as_deref())?;
    let other: AbsPath = with.path().parse()?;
    let (parent, shelf) = dir::both_without_mounts(host, &data_dir.parent(), &other.parent())?;
    let leaves = dir::open(&parent, data_dir.name()).with_context(|| format!("opening {data_dir}"))?;
    let comes = dir::open(&shelf, other.name()).with_context(|| format!("opening {other}"))?;
    let (left, coming) = (dir::names(&leaves)?, dir::names(&comes)?);
    require!(
        left.is_empty() || looks::is_barred(&leaves, &left)? || looks::is_barred(&comes, &coming)?,
        NotEmpty,
        "neither {data_dir} nor {other} holds only the file `{BAR}`, which keeps etcd out: neither is moved"
    );
    Ok(inode::exchange(&shelf, other.name(), &parent, data_dir.name())?)
}

/// Makes the data directory if it is absent.
pub(super) fn make(host: &Host, data_dir: &AbsPath) -> anyhow::Result<()> {
    let parent = dir::without_mounts(host, &data_dir.parent())?;
    dir::make(&parent, data_dir.name(), 0o700).with_context(|| format!("making {data_dir}"))
}

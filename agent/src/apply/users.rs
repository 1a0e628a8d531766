//! Which processes use etcd's data.

use crate::{
    host::{Host, filelock, mountinfo},
    terms::AbsPath,
};
use anyhow::{Context as _, bail};

/// The processes that hold the database's lock, have anything open below the data directory, or have the directory
/// mounted in a mount namespace of their own. A container has such a mount: it would continue to write to the
/// directory, whatever is mounted over it later.
pub fn of_data(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Vec<String>> {
    let database = data_dir.join("member/snap/db");
    let locks = filelock::holders(host, database.as_path())
        .with_context(|| format!("looking for holders of {database}"))?;
    let open = filelock::open_below(host, data_dir.as_path())
        .with_context(|| format!("looking for users of {data_dir}"))?;
    let mounted = mountinfo::bind_holders(host, data_dir)
        .with_context(|| format!("looking for containers that see {data_dir}"))?;
    let mut users: Vec<_> = locks
        .into_iter()
        .chain(open.into_iter().map(|open| open.holder))
        .filter(|holder| holder.pid != Some(std::process::id())) // we read the directory ourselves
        .map(|holder| holder.to_string())
        .chain(mounted.into_iter().map(|holder| format!("{} (pid {})", holder.comm, holder.pid)))
        .collect();
    users.sort();
    users.dedup();
    Ok(users)
}

/// No process but this one has anything open in a directory.
pub fn nobody_in(host: &Host, dir: &AbsPath) -> anyhow::Result<()> {
    let open = filelock::open_below(host, dir.as_path())?;
    match open.iter().find(|open| open.holder.pid != Some(std::process::id())) {
        Some(open) => bail!("{} has files open in {dir}: end it first", open.holder),
        None => Ok(()),
    }
}

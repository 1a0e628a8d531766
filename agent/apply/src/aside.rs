//! Putting the data directory's content aside by one atomic exchange, and back. And what becomes of barred data.

use super::machine::Aside;
use anyhow::Context as _;
use hands::{Door, Request, looks::is_barred};
use host::{Host, dir, inode, tree};
use node::layout::{BAR, BARRED, BARRED_DATA, BARRED_MARK, RETIRED, RETIRED_MARK, RETURNING, RETURNING_MARK};
use std::os::fd::OwnedFd;
use terms::{AbsPath, fail};

/// Exchanges the data directory for one that holds only the file [`BAR`].
///
/// At no moment is there a directory in which etcd could begin without data: in an empty one it would bootstrap a new cluster.
///
/// Data that is out of date and cannot be put aside, because the disk is full for example, keeps etcd out by the immutable flag of
/// its database, which needs no block.
pub fn put_aside(door: &Door<'_>, at: &AbsPath, aside: Aside) -> anyhow::Result<()> {
    let exchange = |()| door.perform(&Request::Exchange { with: aside.shelf() });
    let exchanged = prepared(door.host, at, aside).and_then(exchange);
    let Err(error) = exchanged else { return Ok(()) };
    if aside == Aside::Barred && set_immutable(door.host, at, true)? {
        let db = node::database(at);
        return Err(error.context(format!(
            "until that is done, etcd is kept out by the immutable flag of {db} (`lsattr {db}`)"
        )));
    }
    Err(error)
}

/// Sets or clears the immutable flag of the database. False if there is none.
fn set_immutable(host: &Host, data: &AbsPath, immutable: bool) -> anyhow::Result<bool> {
    let Some(data) = inode::beneath(host, data)? else { return Ok(false) };
    let Some(file) = inode::file_beneath(&data, node::DATABASE)? else { return Ok(false) };
    inode::set_immutable(file, immutable)?;
    Ok(true)
}

/// Makes what [`put_aside`] exchanges the data directory for, if that holds data: the exchange itself needs no room on the disk.
pub fn prepare(host: &Host, at: &AbsPath, aside: Aside) -> anyhow::Result<()> {
    let Some(data) = inode::beneath(host, at)? else { return Ok(()) };
    let names = dir::names(&data)?;
    match names.is_empty() || is_barred(&data, &names)? {
        true => Ok(()),
        false => prepared(host, at, aside),
    }
}

fn prepared(host: &Host, at: &AbsPath, aside: Aside) -> anyhow::Result<()> {
    let path: AbsPath = aside.path().parse()?;
    let (dir, name) = (path.parent(), path.name());
    host.root.make_dir_durably(dir.as_path(), 0o700).with_context(|| format!("making {dir}"))?;
    let data = inode::beneath(host, at)?.with_context(|| format!("{at} has gone"))?;
    let place = match inode::beneath(host, &path)? {
        Some(place) => place,
        None => inode::make_empty_dir_like(tree::open(&host.root.locate(dir.as_path()))?, name, &data)?,
    };
    let names = dir::names(&place)?;
    if names.is_empty() {
        dir::make_file(&place, BAR)?;
    } else if !is_barred(&place, &names)? {
        fail!(NotEmpty, "{path} exists already and holds something: move it away");
    } // else prepared, or left by an interrupted run
    Ok(())
}

/// Marks the data that lies aside as put there by us.
pub fn mark_aside(host: &Host, aside: Aside) -> anyhow::Result<()> {
    let at = aside.path().parse()?;
    let data = inode::beneath(host, &at)?.with_context(|| format!("{at} has gone"))?;
    let (name, value) = aside.mark();
    if aside == Aside::Barred {
        set_immutable(host, &at, false)?;
    }
    inode::set_attribute(data, name, value.as_bytes()).with_context(|| format!("marking {at} as ours"))
}

/// Returns true if data lies there without our mark.
pub fn is_unfinished(host: &Host, aside: Aside) -> anyhow::Result<bool> {
    let Some(data) = inode::beneath(host, &aside.path().parse()?)? else { return Ok(false) };
    let names = dir::names(&data)?;
    let holds_data = !names.is_empty() && !is_barred(&data, &names)?;
    Ok(holds_data && inode::attribute(&data, aside.mark().0)?.is_none())
}

/// Marks barred data with the generation that it becomes.
pub fn choose_barred(host: &Host, generation: u64) -> anyhow::Result<()> {
    Ok(inode::set_attribute(barred(host)?, BARRED_MARK, generation.to_string().as_bytes())?)
}

/// Moves barred data to where a rollback of this generation stages its copy.
pub fn unbar(host: &Host, generation: u64) -> anyhow::Result<()> {
    host.root.make_dir_durably(RETURNING, 0o700).context("making the directory of a rollback's copy")?;
    let (data, name) = (barred(host)?, generation.to_string());
    inode::set_attribute(&data, RETURNING_MARK, name.as_bytes())?;
    move_barred(host, RETURNING, &name)?;
    Ok(inode::remove_attribute(&data, BARRED_MARK)?)
}

/// Moves barred data, if there is any, to the retired data, so that it is listed there and deleted one day.
pub fn retire_barred(host: &Host, generation: u64) -> anyhow::Result<()> {
    if !host.root.list_opt(BARRED)?.unwrap_or_default().iter().any(|name| name == BARRED_DATA) {
        return Ok(());
    }
    host.root.make_dir_durably(RETIRED, 0o700).context("making the directory of retired data")?;
    let (data, name) = (barred(host)?, generation.to_string());
    if host.root.list(RETIRED)?.contains(&name) {
        fail!(NotEmpty, "{RETIRED}/{name} exists already: move it away, then run this again");
    }
    inode::set_attribute(&data, RETIRED_MARK, name.as_bytes())?;
    inode::remove_attribute(&data, BARRED_MARK)?;
    move_barred(host, RETIRED, &name)
}

fn barred(host: &Host) -> anyhow::Result<OwnedFd> {
    dir::open(tree::open(&host.root.locate(BARRED))?, BARRED_DATA)
        .with_context(|| format!("opening {BARRED}/{BARRED_DATA}"))
}

fn move_barred(host: &Host, to: &str, name: &str) -> anyhow::Result<()> {
    let (from, shelf) = (tree::open(&host.root.locate(BARRED))?, tree::open(&host.root.locate(to))?);
    dir::rename(&from, BARRED_DATA, &shelf, name)
        .with_context(|| format!("moving {BARRED}/{BARRED_DATA} to {to}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::NoTools};

    /// Needs root, for the flag.
    #[test]
    #[allow(clippy::disallowed_methods)] // the fixture
    fn what_cannot_be_barred_keeps_etcd_out() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let files = Files::new("aside-full");
        files.put("var/lib/etcd/member/snap/db", "out of date");
        // Nothing can be made in its place, as on a full disk.
        files.put(BARRED.trim_start_matches('/'), "");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        files.put("proc/1/mountinfo", "");
        let at = "/var/lib/etcd".parse().unwrap();
        let door = crate::steps::fence::tests::door(&host, &at);
        let is_immutable = |dir: &str| {
            let data = inode::beneath(&host, &dir.parse().unwrap()).unwrap().unwrap();
            inode::is_immutable(inode::file_beneath(&data, node::DATABASE).unwrap().unwrap()).unwrap()
                == Some(true)
        };
        let error = format!("{:#}", put_aside(&door, &at, Aside::Barred).unwrap_err());
        assert!(error.contains("immutable flag of /var/lib/etcd/member/snap/db"), "{error}");
        assert!(is_immutable("/var/lib/etcd"));
        std::fs::remove_file(files.0.join(BARRED.trim_start_matches('/'))).unwrap();
        put_aside(&door, &at, Aside::Barred).unwrap();
        mark_aside(&host, Aside::Barred).unwrap();
        assert!(!is_immutable(&Aside::Barred.path()));
    }
}

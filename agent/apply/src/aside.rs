//! Putting the data directory's content aside by one atomic exchange, and back. And what becomes of barred data.

use super::machine::Aside;
use anyhow::Context as _;
use hands::looks::is_barred;
use host::{Host, dir, inode, tree};
use node::layout::{BAR, BARRED, BARRED_DATA, BARRED_MARK, RETIRED, RETIRED_MARK, RETURNING, RETURNING_MARK};
use std::os::fd::OwnedFd;
use terms::{AbsPath, fail};

/// Exchanges the data directory for one that holds only the file [`BAR`].
///
/// At no moment is there a directory in which etcd could begin without data: in an empty one it would bootstrap a new cluster.
pub fn put_aside(host: &Host, at: &AbsPath, aside: Aside) -> anyhow::Result<()> {
    let dir = aside.dir();
    host.root.make_dir_durably(dir, 0o700).with_context(|| format!("making {dir}"))?;
    let Both { parent, shelf } = Both::open(host, at, aside)?;
    let (data, name) =
        (dir::open(&parent, at.name()).with_context(|| format!("opening {at}"))?, aside.name());
    let place = match dir::names(&shelf)?.contains(&name) {
        true => dir::open(&shelf, &name)?,
        false => inode::make_empty_dir_like(&shelf, &name, &data)?,
    };
    let names = dir::names(&place)?;
    if names.is_empty() {
        dir::make_file(&place, BAR)?;
    } else if !is_barred(&place, &names)? {
        fail!(NotEmpty, "{} exists already and holds something: move it away", aside.path());
    } // else left by an interrupted run
    Ok(inode::exchange(&shelf, &name, &parent, at.name())?)
}

/// Reverses [`put_aside`].
pub fn put_back(host: &Host, at: &AbsPath, aside: Aside) -> anyhow::Result<()> {
    let Both { parent, shelf } = Both::open(host, at, aside)?;
    Ok(inode::exchange(&shelf, aside.name().as_str(), &parent, at.name())?)
}

/// Marks the data that lies aside as put there by us.
pub fn mark_aside(host: &Host, at: &AbsPath, aside: Aside) -> anyhow::Result<()> {
    let Both { shelf, .. } = Both::open(host, at, aside)?;
    let (name, value) = aside.mark();
    let data = dir::open(&shelf, &aside.name())?;
    inode::set_attribute(data, name, value.as_bytes())
        .with_context(|| format!("marking {} as ours", aside.path()))
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

/// Both directories of the exchange, through one mount.
struct Both {
    parent: OwnedFd,
    shelf: OwnedFd,
}

impl Both {
    fn open(host: &Host, at: &AbsPath, aside: Aside) -> anyhow::Result<Self> {
        let (parent, shelf) = dir::both_without_mounts(host, &at.parent(), &aside.dir().parse()?)?;
        Ok(Self { parent, shelf })
    }
}

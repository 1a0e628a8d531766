//! The fence: the directory beneath the mount point is without data and immutable.

use crate::machine::{Aside, Effect, Machine, Source};
use anyhow::{Context as _, bail};
use hands::{Door, Request, looks};
use host::{Host, dir, inode};
use node::{authority::Authority, layout::BAR};
use plan::Refusal;
use std::os::fd::OwnedFd;
use terms::{AbsPath, RecordedFingerprint, fail, require};

/// Makes the directory beneath the mount point immutable, with nothing in it but [`BAR`].
///
/// The file stays. If it were removed first, the directory would be empty and not yet immutable for a moment, and after
/// a power cut for a whole boot: etcd would bootstrap a new cluster there.
pub fn fence(machine: &mut dyn Machine, at: &AbsPath) -> anyhow::Result<String> {
    finish_retiring(machine)?;
    machine.perform(&Effect::Bar { data_dir: at.clone() })?;
    machine.perform(&Effect::MakeImmutable { data_dir: at.clone() })?;
    Ok(format!("{at} is immutable, without data"))
}

/// Compares data with what was copied that a run has retired and has not compared after that, because it was cut short. Somebody
/// may have had it open at that moment.
fn finish_retiring(machine: &mut dyn Machine) -> anyhow::Result<()> {
    let Some(record) = machine.record()?.filter(|record| record.authority == Authority::Lun) else {
        return Ok(());
    };
    let aside = Aside::Retired { generation: record.generation };
    if !machine.is_unfinished(aside)? {
        return Ok(());
    }
    let (generation, at) = (record.generation, aside.path());
    let data: AbsPath = at.parse()?;
    let users = machine.users(&data)?;
    require!(users.is_empty(), FilesOpen, "{} has files open in {at}: end it first", users.join(", "));
    let copied = match record.fingerprint {
        Some(RecordedFingerprint::Ours(copied)) => copied,
        Some(RecordedFingerprint::Older(_)) => bail!(Refusal::OlderFingerprint { generation, at }),
        None => bail!(Refusal::TwoHistories { generation, at }),
    };
    if machine.fingerprint(&Source::Dir(data), copied.seed)? != copied {
        bail!(Refusal::TwoHistories { generation, at });
    }
    machine.perform(&Effect::MarkAside { data: record.data_dir, aside })?;
    Ok(())
}

/// Makes the directory if it is absent, and [`BAR`] in it. The file is only made if nothing has its name, so data of an etcd
/// that was started earlier is found and not fenced.
pub fn bar(door: &Door<'_>, at: &AbsPath) -> anyhow::Result<()> {
    door.perform(&Request::MakeDataDir)?;
    let place = inode::beneath(door.host, at)?.with_context(|| format!("{at} has gone"))?;
    match is_barred(&place, at)? {
        true => Ok(()),
        false => dir::make_file(&place, BAR).with_context(|| format!("barring {at}")),
    }
}

/// Makes a directory immutable that holds nothing but [`BAR`].
pub fn make_immutable(host: &Host, at: &AbsPath) -> anyhow::Result<()> {
    let place = inode::beneath(host, at)?.with_context(|| format!("{at} has gone"))?;
    require!(is_barred(&place, at)?, NotFenced, "{at} is empty: only a barred directory is fenced");
    inode::set_immutable(&place, true).with_context(|| format!("making {at} immutable"))?;
    let kept = inode::is_immutable(&place)? == Some(true);
    require!(kept, NotFenced, "the filesystem of {at} took the immutable flag and has not kept it");
    Ok(())
}

/// Returns true if a directory holds [`BAR`]; an error if it holds anything else.
pub fn is_barred(place: &OwnedFd, at: &AbsPath) -> anyhow::Result<bool> {
    let names = dir::names(place)?;
    let barred = looks::is_barred(place, &names)?;
    if !barred && !names.is_empty() {
        fail!(NotEmpty, "{at} holds {}: only an empty directory is fenced", names.join(", "));
    }
    Ok(barred)
}

#[cfg(test)]
pub(crate) mod tests;

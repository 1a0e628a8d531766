//! The copy: to the staged LUN, and in a rollback to the local disk.

use super::returning;
use crate::{
    context::Run,
    evidence::{Copied, CopiedMeanwhile, Evidence},
    guard,
    machine::{Effect, Machine},
    quiet,
};
use anyhow::Context as _;
use host::{
    background::Background,
    dir,
    rsync::{self, Pass, RsyncError, VANISHED},
    tree::{self, Ledger, Moved, Progress, Source},
};
use node::{authority::Stamp, layout::RETURNING};
use plan::{Way, step::Copy};
use std::{ffi::CStr, os::fd::OwnedFd, time::Duration};
use terms::{AbsPath, Bytes};

/// A copy that takes longer than this moves less than 1 MiB/s of an 8 GiB database.
const COPY_LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Where a copy goes. Opened before anything is written, because syncing reports the errors since the open.
#[derive(Debug)]
pub struct Destination {
    pub path: AbsPath,
    pub root: OwnedFd,
}

impl Destination {
    /// Opens the destination. [`may_be_overwritten`] has said that what it holds may be overwritten.
    pub fn open(run: &Run<'_>, from: &AbsPath, way: Way) -> anyhow::Result<Self> {
        match way {
            Way::ToLun => {
                let staging = run.staging()?;
                Ok(Self { path: staging.place().clone(), root: staging.root()? })
            }
            Way::ToLocal { generation } => {
                let like = tree::open(&run.host.root.locate(from.as_path()))?;
                let path: AbsPath = format!("{RETURNING}/{generation}").parse()?;
                Ok(Self { root: returning::shelve(run.host, &path, &like)?, path })
            }
        }
    }
}

/// The content of the destination may be overwritten: the source is authoritative, and lies where the copy reads it.
pub fn may_be_overwritten(machine: &dyn Machine, from: &AbsPath, way: Way) -> anyhow::Result<()> {
    match way {
        Way::ToLun => guard::local_is_authoritative(machine),
        Way::ToLocal { .. } => machine.data_is_on_lun(from),
    }
}

/// The attribute of the source's root that is not copied: the stamp stays on the LUN, and says that the LUN holds this node's
/// previous generation.
pub fn own_attribute(way: Way) -> Option<&'static CStr> {
    match way {
        Way::ToLun => None,
        Way::ToLocal { .. } => Some(Stamp::ATTRIBUTE),
    }
}

/// Copies with rsync while etcd writes. The result is inconsistent; later steps bring it up to date.
pub fn pre_copy(machine: &mut dyn Machine, step: &Copy) -> anyhow::Result<String> {
    may_be_overwritten(machine, &step.from, step.way)?;
    machine.perform(&Effect::PreCopy { copy: step.clone() })
}

/// Copies with etcd stopped, and reads back from the device what was written. A provisional copy needs no guard of its
/// source: a later step finds out whether somebody has written to it since.
pub fn copy(machine: &mut dyn Machine, step: &Copy) -> anyhow::Result<String> {
    may_be_overwritten(machine, &step.from, step.way)?;
    if !step.provisional {
        guard::etcd_is_at_rest(machine, &step.from)?;
    }
    machine.perform(&Effect::Copy { copy: step.clone() })
}

/// [`Effect::PreCopy`] on the node. Files that vanish or change while rsync reads them are expected.
pub fn pre_copy_on_node(run: &mut Run<'_>, step: &Copy) -> anyhow::Result<String> {
    let to = Destination::open(run, &step.from, step.way)?;
    let pass = if step.onto_empty { Pass::Fill } else { Pass::Update };
    let _background = Background::enter(run.host);
    let mut progress = |done| run.watcher.moved(done, step.size.map(|size| size.0));
    let (source, copy) = (run.host.root.locate(step.from.as_path()), run.host.root.locate(to.path.as_path()));
    match rsync::copy(run.host, &source, &copy, pass, COPY_LIMIT, &mut progress) {
        Ok(()) => {}
        Err(RsyncError::Failed { code: VANISHED, .. }) => {
            tracing::debug!("files vanished, as expected")
        }
        Err(error) => return Err(error.into()),
    }
    dir::sync_filesystem(&to.root).with_context(|| format!("syncing {}", step.way))?;
    Ok("copied while etcd runs".into())
}

/// [`Effect::Copy`] on the node.
pub fn copy_on_node(run: &mut Run<'_>, step: &Copy) -> anyhow::Result<String> {
    let Copy { from, way, provisional, .. } = step;
    let (way, size) = (*way, step.size.map(|size| size.0));
    // The knowledge about an earlier copy does not hold for this one.
    run.evidence = Evidence::Nothing;
    let to = Destination::open(run, from, way)?;
    let source = tree::open(&run.host.root.locate(from.as_path()))?;
    if !provisional {
        tree::unsupported(&source, own_attribute(way), &run.host.interrupt)
            .context("looking for files that can't be copied")?;
        let moved = bring_up_to_date(run, &source, &to, Source::AtRest, size)?;
        run.written = moved.written;
        run.evidence = Evidence::Copied(Copied::by(moved));
        return Ok(format!("copied {from}: {}", described(moved)));
    }
    let mut resting = quiet::state(run, from, &source, own_attribute(way))?;
    let how = if resting.is_ok() { Source::AtRest } else { Source::InUse };
    let moved = match bring_up_to_date(run, &source, &to, how, size) {
        Err(error) if error.is_a_change() => {
            resting = Err(error.to_string());
            Moved::default()
        }
        moved => moved?,
    };
    run.evidence = Evidence::CopiedMeanwhile(CopiedMeanwhile::from(resting));
    run.written = moved.written;
    Ok(format!("copied {from} while containers end: {}", described(moved)))
}

/// One pass of our own over the whole source, which has this size in bytes if it is known.
pub fn bring_up_to_date(
    run: &mut Run<'_>,
    source: &OwnedFd,
    to: &Destination,
    how: Source,
    size: Option<u64>,
) -> Result<Moved, tree::TreeError> {
    let ledger = match &mut run.ledger {
        Some(ledger) => ledger,
        none => none.insert(Ledger::new()?),
    };
    let mut done = 0;
    tree::update(source, &to.root, ledger, how, &run.host.interrupt, &mut |progress| {
        if let Progress::Read(count) = progress {
            done += count;
            run.watcher.moved(done, size);
        }
    })
}

/// Returns the result of a pass, for a person.
pub fn described(moved: Moved) -> String {
    let Moved { read, written, .. } = moved;
    format!(
        "{} compared; {} differed, and were written and read back from the device",
        Bytes(read),
        Bytes(written)
    )
}

//! The node as a [`Machine`]: each look and each effect of the protocol's steps.

use super::{
    context::Run,
    guard,
    machine::{Effect, Machine, Place, Source},
    place, record,
    steps::{claim, prove, stage},
    users,
};
use crate::{
    host::{dir, inode, tree},
    node::{
        Etcd,
        authority::{Record, Stamp},
    },
    observe,
    terms::{AbsPath, Fingerprint},
};
use anyhow::{Context as _, anyhow};
use std::os::fd::OwnedFd;

impl Machine for Run<'_> {
    fn machine_id(&self) -> &str {
        &self.identity.machine_id
    }

    fn record(&self) -> anyhow::Result<Option<Record>> {
        record::read(self.host)
    }

    fn stamp(&self, on: Place) -> anyhow::Result<Option<Stamp>> {
        place::stamp_if_any(&root(self, on)?)
    }

    fn etcd(&self) -> anyhow::Result<Etcd> {
        let etcd = observe::etcd_by_lock(self.host, self.config);
        etcd.require().cloned().map_err(|why| anyhow!("whether etcd runs cannot be determined: {why}"))
    }

    fn users(&self, of: &AbsPath) -> anyhow::Result<Vec<String>> {
        users::of_data(self.host, of)
    }

    fn mounted_on(&self, data_dir: &AbsPath) -> anyhow::Result<Option<String>> {
        Ok(place::mounted_on(self.host, data_dir)?.map(|mount| mount.source))
    }

    fn is_fenced(&self, data_dir: &AbsPath) -> anyhow::Result<bool> {
        place::is_fenced(self.host, data_dir)
    }

    fn hold_lun(&mut self, data_dir: &AbsPath) -> anyhow::Result<()> {
        guard::data_is_on_lun(self, data_dir)?;
        self.held = Some(tree::open(&self.host.root.locate(data_dir.as_path()))?);
        Ok(())
    }

    fn proof(&self) -> Option<Fingerprint> {
        self.proof.map(|proof| proof.fingerprint)
    }

    fn still_holds(&self, source: &Source) -> anyhow::Result<Fingerprint> {
        let source = match source {
            Source::Dir(path) => tree::open(&self.host.root.locate(path.as_path()))?,
            Source::Staging => self.staging()?.root()?,
        };
        prove::still_holds(self, &source)
    }

    fn perform(&mut self, effect: &Effect) -> anyhow::Result<()> {
        match effect {
            Effect::WriteRecord { record } => record::write(self.host, record),
            Effect::SetStamp { on, stamp } => {
                let root = root(self, *on)?;
                inode::set_attribute(&root, Stamp::ATTRIBUTE, stamp.to_text()?.as_bytes())?;
                dir::sync_filesystem(&root).context("syncing the LUN")
            }
            Effect::RemoveStamp => {
                let root = root(self, Place::Staging)?;
                inode::remove_attribute(&root, Stamp::ATTRIBUTE)?;
                dir::sync_filesystem(&root).context("syncing the LUN")
            }
            Effect::Stage => stage::again(self),
            Effect::Unstage => self.take_staging()?.unmount().context("unmounting the LUN"),
            Effect::RetireBarred { generation } => claim::retire_barred(self, *generation),
        }
    }
}

fn root(run: &Run<'_>, of: Place) -> anyhow::Result<OwnedFd> {
    match of {
        Place::Staging => Ok(run.staging()?.root()?),
        Place::Held => {
            let held = run.held.as_ref().context("the LUN is not held in this run")?;
            held.try_clone().context("opening the LUN once more")
        }
    }
}

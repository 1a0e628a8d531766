//! The node as a [`Machine`]: each look and each effect of the protocol's steps.

use super::{
    aside,
    context::Run,
    evidence::Evidence,
    exposure, guard,
    machine::{Aside, Confirmed, Effect, Free, Machine, Place, Source},
    pod::EtcdPod,
    steps::{catch_up, confirm, copy, etcd, fence, format, prove, returning, stage, stamp},
    unmount, users,
};
use anyhow::{Context as _, anyhow, bail};
use config::Runtime;
use hands::{Request, looks};
use host::{block, inode, tree, xfs};
use node::{
    Etcd, Identity,
    authority::{Authority, Record, Stamp},
    layout::{NODE, RECORD, STATE},
};
use plan::step::{Copy, MountData};
use std::os::fd::OwnedFd;
use terms::{AbsPath, Fingerprint, FsUuid, Span, Wwid, named};

impl Machine for Run<'_> {
    fn identity(&self) -> &Identity {
        self.identity
    }

    fn record(&self) -> anyhow::Result<Option<Record>> {
        looks::record(self.host).with_context(|| named!(RecordUnreadable, "the record can't be read"))
    }

    fn stamp(&self, on: Place) -> anyhow::Result<Option<Stamp>> {
        if on == Place::Device {
            let lun = guard::data_is_on_lun(self, &self.config.etcd.data_dir)?;
            return guard::stamp_in_place(self, &lun);
        }
        stamp::read(&root(self, on)?)
    }

    fn stamp_at_rest(&self, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<Option<Stamp>> {
        let lun = guard::lun_holds(self, wwid, uuid)?;
        let root = self.door.inspect(&lun.device).context("looking at the LUN without writing to it")?;
        stamp::read(&root)
    }

    fn etcd(&self) -> anyhow::Result<Etcd> {
        let etcd = observe::etcd_by_lock(self.door, self.config);
        etcd.require().cloned().map_err(|why| anyhow!("whether etcd runs cannot be determined: {why}"))
    }

    fn users(&self, of: &AbsPath) -> anyhow::Result<Vec<String>> {
        users::of_data(self.host, of)
    }

    fn mounted_on(&self, data_dir: &AbsPath) -> anyhow::Result<Option<String>> {
        Ok(looks::mounted_on(self.host, data_dir)?.map(|mount| mount.source))
    }

    fn is_fenced(&self, data_dir: &AbsPath) -> anyhow::Result<bool> {
        guard::is_fenced(self.host, data_dir)
    }

    fn data_is_on_lun(&self, data_dir: &AbsPath) -> anyhow::Result<()> {
        guard::data_is_on_lun(self, data_dir).map(drop)
    }

    fn is_unfinished(&self, aside: Aside) -> anyhow::Result<bool> {
        aside::is_unfinished(self.host, aside)
    }

    fn is_shut_down(&self, data_dir: &AbsPath) -> anyhow::Result<bool> {
        Ok(xfs::is_shut_down(&self.host.root.locate(data_dir.as_path())))
    }

    fn is_staged(&self) -> bool {
        self.staging.is_some()
    }

    fn staged_filesystem(&self) -> anyhow::Result<FsUuid> {
        let device = self.staging()?.node();
        let found = block::filesystem_at(device).with_context(|| format!("reading {}", device.display()))?;
        found.with_context(|| format!("{} holds no filesystem any more", device.display()))
    }

    fn has_retired(&self) -> bool {
        self.retired
    }

    fn hold(&mut self, data_dir: &AbsPath) -> anyhow::Result<()> {
        self.held = Some(tree::open(&self.host.root.locate(data_dir.as_path()))?);
        Ok(())
    }

    fn proof(&self) -> Option<Fingerprint> {
        self.evidence.proof().map(|proof| proof.fingerprint())
    }

    fn still_holds(&self, of: &Source) -> anyhow::Result<Fingerprint> {
        prove::still_holds(self, &source(self, of)?)
    }

    fn fingerprint(&mut self, of: &Source, seed: u64) -> anyhow::Result<Fingerprint> {
        let data = source(self, of)?;
        let state = tree::state(&data, &self.host.interrupt)?.beneath();
        self.read = Some(state);
        Ok(tree::fingerprint(&data, seed, &self.host.interrupt, &mut |_| {})?.fingerprint)
    }

    fn unchanged(&self, of: &Source) -> anyhow::Result<()> {
        let before = self.read.as_ref().context("nothing was read in this run")?;
        let now = tree::state(&source(self, of)?, &self.host.interrupt)?.beneath();
        match before.difference(&now) {
            Some(change) => bail!("{change}"),
            None => Ok(()),
        }
    }

    fn confirm(&mut self, of: &Copy) -> anyhow::Result<Confirmed> {
        confirm::confirm_on_node(self, of)
    }

    fn others_are_a_quorum(&self) -> anyhow::Result<()> {
        guard::others_are_a_quorum(self)
    }

    fn lead_elsewhere(&mut self) -> anyhow::Result<Option<String>> {
        observe::hand_over_leadership(self.host, self.config).map_err(|why| anyhow!(why))
    }

    fn etcd_pod(&self, runtime: &Runtime) -> anyhow::Result<Option<EtcdPod>> {
        etcd::pod(self.door, self.config, runtime)
    }

    fn pause(&mut self, span: Span) -> anyhow::Result<()> {
        Ok(self.host.pause(span.0)?)
    }

    fn note(&mut self, text: &str) {
        self.watcher.noted(text);
    }

    fn perform(&mut self, effect: &Effect) -> anyhow::Result<String> {
        match effect {
            Effect::StartEtcd { runtime, data_dir, wait } => {
                return etcd::start(self.door, runtime, data_dir, *wait);
            }
            Effect::StopEtcd { runtime, whole_pod } => {
                return etcd::stop(self, runtime, *whole_pod);
            }
            Effect::EndOthers { pod } => etcd::end_others(self, pod)?,
            Effect::AwaitPodEnd { manifest } => {
                return etcd::await_pod_end(self, manifest);
            }
            Effect::PreCopy { copy } => return copy::pre_copy_on_node(self, copy),
            Effect::CatchUp { catch_up } => return catch_up::catch_up_on_node(self, catch_up),
            Effect::Copy { copy } => return copy::copy_on_node(self, copy),
            Effect::Prove { from, way, afresh } => return prove::prove_on_node(self, from, *way, *afresh),
            Effect::ProveProvisionally { from, way } => {
                return prove::prove_provisionally_on_node(self, from, *way);
            }
            Effect::ForgetProof => self.evidence = Evidence::Nothing,
            Effect::ClearUnfinished { wwid, uuid } => {
                return format::clear_unfinished_on_node(self, wwid, uuid);
            }
            Effect::Format { format } => return format::format_on_node(self, format),
            Effect::WriteRecord { record } => {
                self.host.root.make_dir_durably(STATE, 0o700).context("making the state directory")?;
                // What comes after the commit point must not fail for want of room.
                if record.authority == Authority::Lun && !record.has_served() && record.announced.is_none() {
                    let aside = Aside::Retired { generation: record.generation };
                    aside::prepare(self.host, &record.data_dir, aside).context("nothing is committed")?;
                }
                let text = record.to_text()?;
                self.host
                    .root
                    .write_with_spare(&RECORD.parse()?, &text, 0o600)
                    .context("writing the record")?;
                keep_name(self.host, self.identity);
            }
            Effect::SetStamp { on, stamp } => {
                stamp::set_stamp(&root(self, *on)?, stamp)?;
                if *on == Place::Staging {
                    stamp::read_back(self.door, self.staging()?, stamp)?;
                }
            }
            Effect::RemoveStamp => stamp::remove_stamp(&root(self, Place::Staging)?)?,
            Effect::Stage { wwid, uuid } => stage::stage(self, wwid, uuid)?,
            Effect::StageAgain => stage::stage_again(self)?,
            Effect::Unstage => self.take_staging()?.unmount().context("unmounting the LUN")?,
            Effect::LeaveStaging => {
                if let Some(staging) = self.staging.take() {
                    staging.leave().context("unmounting the LUN for this program")?;
                }
            }
            Effect::Expose { mount } => return expose(self, mount),
            Effect::TakeBack { mount } => {
                exposure::take_back(self.door, mount)?;
            }
            Effect::Unmount { unit, data_dir, until: Free::Device } => {
                unmount::until_device_is_free(self.door, unit, data_dir)?;
            }
            Effect::Unmount { unit, data_dir, until: Free::Filesystem } => {
                unmount::until_filesystem_is_gone(self.door, unit, data_dir)?;
            }
            Effect::PutAside { data, aside } => aside::put_aside(self.door, data, *aside)?,
            Effect::PutBack { data: _, aside } => {
                self.door.perform(&Request::Exchange { with: aside.shelf() })?
            }
            Effect::MarkAside { data: _, aside } => {
                self.retired |= matches!(aside, Aside::Retired { .. });
                aside::mark_aside(self.host, *aside)?;
            }
            Effect::Bar { data_dir } => fence::bar(self.door, data_dir)?,
            Effect::MakeImmutable { data_dir } => fence::make_immutable(self.host, data_dir)?,
            Effect::Return { data_dir, generation } => {
                returning::return_on_node(self.door, data_dir, *generation)?;
            }
            Effect::RetireBarred { generation } => aside::retire_barred(self.host, *generation)?,
            Effect::ChooseBarred { generation } => aside::choose_barred(self.host, *generation)?,
            Effect::Unbar { generation } => aside::unbar(self.host, *generation)?,
        }
        Ok(String::new())
    }
}

/// Asks PID 1 to mount the device that is staged. If a mount with etcd's options cannot be made beside the staged one, that goes
/// first: both would be of one filesystem in memory, with the options of the staged one.
fn expose(run: &mut Run<'_>, mount: &MountData) -> anyhow::Result<String> {
    let staging = run.staging()?;
    let mut lun = guard::staged_lun(run, staging, &mount.wwid)?;
    if !staging.can_be_shared() {
        run.take_staging()?.unmount().context("unmounting the LUN")?;
        lun = guard::lun_of_ours(run, &mount.wwid, &mount.uuid)?;
    }
    let verify = || exposure::is_as_asked(run.host, mount, &lun.devno);
    exposure::expose(run.door, mount, &lun.device, verify)?;
    Ok(format!("{} is mounted on {}", lun.device, mount.at))
}

/// Writes down whose the record is. It is no part of the record's truth, so a disk that takes no more keeps nothing from going on.
fn keep_name(host: &host::Host, identity: &Identity) {
    let text = format!("{} {}\n", identity.machine_id, identity.hostname);
    let write = || match host.root.read_ours(NODE)? {
        Some(there) if there == text => Ok(()),
        _ => anyhow::Ok(host.root.write_durably(&NODE.parse()?, &text, 0o600)?),
    };
    write().unwrap_or_else(|error| tracing::warn!("writing the name of the record's node: {error:#}"));
}

fn source(run: &Run<'_>, of: &Source) -> anyhow::Result<OwnedFd> {
    match of {
        Source::Dir(path) => inode::beneath(run.host, path)?.with_context(|| format!("{path} has gone")),
        Source::Mounted(at) => Ok(tree::open(&run.host.root.locate(at.as_path()))?),
        Source::Staging => Ok(run.staging()?.root()?),
    }
}

fn root(run: &Run<'_>, of: Place) -> anyhow::Result<OwnedFd> {
    match of {
        Place::Staging => Ok(run.staging()?.root()?),
        Place::Mounted => Ok(tree::open(&run.host.root.locate(run.config.etcd.data_dir.as_path()))?),
        Place::Device => bail!("a device has no directory"),
        Place::Held => {
            let held = run.held.as_ref().context("the LUN is not held in this run")?;
            held.try_clone().context("opening the LUN once more")
        }
    }
}

#[cfg(test)]
mod tests;

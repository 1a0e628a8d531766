//! One `match`: each step to what it does. Behaviour does not live here; see `plan`.

use super::{Watcher, copy, etcd, local, login, lun, mark, measure, mount, secrets::Secrets};
use crate::{
    config::Config,
    host::{Host, staging::Staging},
    node::Identity,
    plan::Step,
    terms::Fingerprint,
};

/// What a run keeps in memory between its steps, and loses when it is cut short.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub host: &'a Host,
    pub config: &'a Config,
    pub secrets: &'a Secrets,
    pub identity: &'a Identity,
    /// The LUN's mount in this process's namespace.
    pub staging: Option<Staging>,
    /// What the proof has found both trees to be.
    pub proof: Option<Fingerprint>,
}

impl<'a> Run<'a> {
    pub fn new(host: &'a Host, config: &'a Config, secrets: &'a Secrets, identity: &'a Identity) -> Self {
        Self { host, config, secrets, identity, staging: None, proof: None }
    }

    pub fn staged(&self) -> Option<&Staging> {
        self.staging.as_ref()
    }

    /// Does a step. The text says what changed, for the journal and the person who watches.
    pub fn step(&mut self, step: &Step, watcher: &mut dyn Watcher) -> anyhow::Result<String> {
        match step {
            Step::SetInitiatorName { name } => login::set_initiator_name(self.host, name),
            Step::RestartIscsid => login::restart_iscsid(self.host),
            Step::LogOut { sid } => login::log_out(self.host, *sid),
            Step::SetTimeout { sid, replacement } => login::set_timeout(self.host, *sid, *replacement),
            Step::LogIn { target, portals, discovery, all, noop_interval, noop_timeout, limit } => {
                let wish = login::Wish {
                    target,
                    portals,
                    discovery: *discovery,
                    all: *all,
                    noop: (*noop_interval, *noop_timeout),
                    limit: *limit,
                };
                login::log_in(self, &wish, watcher)
            }
            Step::AttachLun { target, lun, limit } => lun::attach(self.host, target, *lun, *limit),
            Step::AwaitDisk { path, limit } => lun::await_disk(self, path, *limit),
            Step::BeginRecord { record } => local::write_record(self.host, record),
            Step::ClearUnfinished { wwid, uuid } => lun::clear_unfinished(self, wwid, uuid),
            Step::Format { wwid, uuid, label } => lun::format(self, wwid, uuid, label),
            Step::Stage { wwid, uuid } => lun::stage(self, wwid, uuid),
            Step::Unstamp => lun::unstamp(self),
            Step::PreCopy { from, way, size, onto_empty } => {
                let wish = copy::Wish { from, way: *way, size: *size, onto_empty: *onto_empty };
                copy::pre_copy(self, &wish, watcher)
            }
            Step::StopEtcd { runtime } => etcd::stop(self.host, self.config, runtime, watcher),
            Step::Copy { from, way, size, onto_empty } => {
                let wish = copy::Wish { from, way: *way, size: *size, onto_empty: *onto_empty };
                copy::copy(self, &wish, watcher)
            }
            Step::Measure { wwid, limit } => measure::measure(self, wwid, *limit),
            Step::Prove { from, way } => copy::prove(self, from, *way, watcher),
            Step::Stamp { stamp } => lun::stamp(self, stamp),
            Step::Commit { record } => local::commit(self, record),
            Step::Retire { from, generation, fingerprint } => {
                local::retire(self, from, *generation, *fingerprint)
            }
            Step::Fence { at } => local::fence(self.host, at),
            Step::Activate { stamp, record } => lun::activate(self, stamp, record),
            Step::Mark { at, stamp, record } => mark::count(self, at, stamp, record),
            Step::MountData { unit, at, wwid, uuid, label, options } => {
                let wish = mount::Wish { unit, at, wwid, uuid, label, options };
                mount::mount(self, &wish)
            }
            Step::UnmountData { unit, at } => mount::unmount(self, unit, at),
            Step::UnmountShutDown { unit, at } => mount::unmount_shut_down(self, unit, at),
            Step::CommitLocal { record } => local::commit_local(self, record),
            Step::Return { at, generation } => local::put_in_place(self, at, *generation),
            Step::StartEtcd { runtime, data_dir, on, wait } => {
                etcd::start_on(self, *on, runtime, data_dir, *wait)
            }
        }
    }

    /// Lets go of the staging mount, whatever state it is in.
    pub fn drop_staging(&mut self) {
        if let Some(staging) = self.staging.take()
            && let Err(error) = staging.unmount()
        {
            // The mount ends with this process's namespace in any case.
            tracing::debug!("unmounting the staging mount: {error}");
        }
    }
}

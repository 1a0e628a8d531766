//! What a run of `apply` works with: the host, the config, and what it keeps between its steps.

use super::{evidence::Evidence, pod::EtcdPod, watcher::Watcher};
use anyhow::{Context as _, anyhow};
use config::Config;
use hands::{Door, Request};
use host::{
    Host, block,
    process::Asked,
    staging::Staging,
    tree::{Ledger, State},
    udev::Monitor,
};
use node::Identity;
use observe::secrets::Secrets;
use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

/// Where no rule of udev has a label for the disk, this time is lost in each run.
const LABEL_LIMIT: Duration = Duration::from_secs(10);

/// One run. Nothing that it keeps between its steps survives an interruption.
#[derive(Debug)]
pub struct Run<'a> {
    pub host: &'a Host,
    /// For what needs more rights than the service has.
    pub door: &'a Door<'a>,
    pub config: &'a Config,
    pub secrets: &'a Secrets,
    pub identity: &'a Identity,
    /// Who is told about the progress.
    pub watcher: &'a mut dyn Watcher,
    /// The LUN's mount in this process's namespace.
    pub staging: Option<Staging>,
    /// The directory on which the LUN is mounted for etcd. While it is open, the LUN stays mounted.
    pub held: Option<OwnedFd>,
    /// The blocks that the device of the copy was seen to hold.
    pub ledger: Option<Ledger>,
    /// How much the last copy has written with etcd stopped.
    pub written: u64,
    /// How far this run has come with the proof of its copy.
    pub evidence: Evidence,
    /// The state of the directory that was read last, right before that.
    pub read: Option<State>,
    /// When this run began to log in for the LUN that it attaches next.
    pub attaching_since: Option<Instant>,
    /// The pod in which etcd ran before this run has stopped it.
    pub pod: Option<EtcdPod>,
    /// The processes of the other containers of etcd's pod that were asked to end.
    pub ending: Vec<Asked>,
    /// This run has moved the local data out of the data directory, and nobody used it after that.
    pub retired: bool,
}

impl<'a> Run<'a> {
    pub fn new(
        door: &'a Door<'a>,
        config: &'a Config,
        secrets: &'a Secrets,
        identity: &'a Identity,
        watcher: &'a mut dyn Watcher,
    ) -> Self {
        Self {
            host: door.host,
            door,
            config,
            secrets,
            identity,
            watcher,
            staging: None,
            held: None,
            ledger: None,
            written: 0,
            evidence: Evidence::Nothing,
            read: None,
            attaching_since: None,
            pod: None,
            ending: Vec::new(),
            retired: false,
        }
    }

    /// Tells the kernel to read the identity and size of the LUN's disks again, because it keeps what it read when a disk appeared.
    /// Paths that do not answer are left out: the read would block, and nobody can end this process then.
    pub fn rescan_lun(&self) -> anyhow::Result<()> {
        let disks = locate::answering_disks(self.host, self.config)?;
        disks.into_iter().try_for_each(|disk| self.door.perform(&Request::Rescan { disk }))
    }

    /// Does what may change a refusal ([`plan::Refusal::depends_on_login`]): [`Self::rescan_lun`], and has udev set labels that are
    /// missing.
    pub fn look_again(&self) -> anyhow::Result<()> {
        let settled = || Ok(locate::are_settled(self.host, self.config)?.then_some(()));
        if settled()?.is_none() {
            // multipathd has made a map over the disk a moment ago, which nobody can read before udev has labelled it.
            let monitor = Monitor::open(self.host).context("listening to udev")?;
            monitor.wait_until(self.host, Instant::now() + LABEL_LIMIT, settled)?;
        }
        self.rescan_lun()?;
        let disks = locate::answering_disks(self.host, self.config)?;
        let seen = disks.iter().map(|disk| block::disk(self.host, disk)).collect::<io::Result<Vec<_>>>()?;
        let maps = seen.iter().flatten().filter_map(block::multipath_of).map(|map| &map.name);
        disks.iter().chain(maps).try_for_each(|disk| self.have_labelled(disk))
    }

    /// Has udev label a disk that SELinux keeps from this process. PID 1 labels all of /dev anew at a soft reboot, and a multipath map
    /// may have got its paths after its label.
    fn have_labelled(&self, disk: &str) -> anyhow::Result<()> {
        let is_denied = || {
            let read = block::try_read(self.host, disk);
            read.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        if is_denied() {
            let monitor = Monitor::open(self.host).context("listening to udev")?;
            self.door.perform(&Request::Announce { disk: disk.to_owned() })?;
            let until = Instant::now() + LABEL_LIMIT;
            monitor.wait_until(self.host, until, || Ok((!is_denied()).then_some(())))?;
        }
        Ok(())
    }

    /// The staged LUN, for a step that needs it.
    pub fn staging(&self) -> anyhow::Result<&Staging> {
        self.staging.as_ref().ok_or_else(not_staged)
    }

    /// The staged LUN, for a step that unmounts it.
    pub fn take_staging(&mut self) -> anyhow::Result<Staging> {
        self.staging.take().ok_or_else(not_staged)
    }

    /// Returns the blocks that this run's passes have seen of the copy.
    pub fn ledger(&self) -> anyhow::Result<&Ledger> {
        self.ledger.as_ref().ok_or_else(|| anyhow!("nothing was copied in this run"))
    }

    /// Unmounts the staged LUN if there is one. An error is only logged.
    pub fn drop_staging(&mut self) {
        self.ledger = None;
        if let Some(staging) = self.staging.take()
            && let Err(error) = staging.unmount()
        {
            // The mount ends with this process's mount namespace in any case.
            tracing::debug!("unmounting the staging mount: {error}");
        }
    }
}

fn not_staged() -> anyhow::Error {
    anyhow!("the LUN is not staged in this run; apply again")
}

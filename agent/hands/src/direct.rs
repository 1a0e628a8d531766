//! Performing requests in this process: for a person, or in the hands' own process for the confined service. Each request is looked
//! at again before anything is done.

use super::{
    looks,
    request::{AskedUnit, Privileged, Request, Requester, Said, SaidOfUnit},
};
use anyhow::Context as _;
use config::{Config, Runtime, parked};
use host::{
    Host,
    block::{self, Content},
    dir, iscsi, manifest, multipath, namespace,
    staging::{self, Access},
    systemd::{self, Unit},
    tree,
    xfs::{self, Superblock},
};
use node::{ISCSID, ISCSID_SOCKET, authority::Record};
use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};
use terms::{AbsPath, FsUuid, LunAddress, Session, TargetName, fail, named, options_for_etcd, require};
use unit::SHUTDOWN_SERVICE;

/// mkfs.xfs zeroes the log, which takes minutes on a slow thin LUN.
const FORMAT_LIMIT: Duration = Duration::from_secs(900);
/// etcd ends within one request time-out after SIGTERM. systemd's own limit of 90 s is reached before this one.
const STOP_LIMIT: Duration = Duration::from_secs(180);
/// A large database takes long to open, and a member waits for its peers.
const ETCD_LIMIT: Duration = Duration::from_secs(300);
/// systemd's default limit for the start of a unit is 90 s. iscsid and our own units start almost at once.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long multipathd may take over disks that are gone, of which it hears from udev; and XFS until its next write.
const MULTIPATHD_LIMIT: Duration = Duration::from_secs(30);

/// Performs requests itself, on what this says of the node.
#[derive(Debug, Clone)]
pub struct Direct {
    /// For whom.
    pub requester: Requester,
    /// The target; none with a device.
    pub target: Option<TargetName>,
    /// The data directory.
    pub data_dir: AbsPath,
    /// The options of the filesystem: those of the config, with the label.
    pub mount_options: Vec<String>,
    /// The runtime of etcd.
    pub runtime: Runtime,
}

impl Privileged for Direct {
    fn perform(&self, host: &Host, request: &Request) -> anyhow::Result<(Said, Option<OwnedFd>)> {
        match request {
            Request::Stage { disk } => return Ok((Said::Done, Some(self.staged(host, disk)?))),
            // Both mounts are of one filesystem in memory. Whoever may change a mount's options may do it with every filesystem.
            Request::Settle { disk } => staging::settle(self.staged(host, disk)?)?,
            Request::Inspect { disk } => {
                let options = staging::inspecting_options(host, &self.mount_options)?;
                return Ok((Said::Done, Some(mounted(host, disk, Access::ReadOnly, &options)?)));
            }
            Request::Records => {
                return Ok((Said::Done, Some(staging::in_memory(host, policy::RECORDS_LABEL)?)));
            }
            Request::Units(units) => return Ok((Said::Units(self.states(host, units)), None)),
            Request::IsStopping => return Ok((Said::Stopping(systemd::is_stopping(host)?), None)),
            Request::Format { disk, uuid, label } => {
                let wwid = is_announced(host, disk, uuid)?.wwid;
                match block::probe(host, disk, None)? {
                    Content::Blank => {}
                    Content::Xfs(Superblock { uuid, .. }) | Content::XfsUnfinished { uuid } => {
                        fail!(LunChanged, "LUN {wwid} holds an XFS with UUID {uuid} now")
                    }
                    Content::Foreign { found } => fail!(LunChanged, "LUN {wwid} holds {found} now"),
                }
                xfs::make_filesystem(host, &block::node(disk)?, uuid, label, FORMAT_LIMIT)?;
            }
            // This looks itself at what the disk holds.
            Request::ClearUnfinished { disk, uuid } => {
                is_announced(host, disk, uuid)?;
                block::clear_unfinished(host, disk, uuid)?;
            }
            Request::Scan { session } => iscsi::scan(host, &self.session(host, *session)?)?,
            Request::Forget { session, lun } => {
                let Session { host_no, target_id, .. } = self.session(host, *session)?;
                let target_id = target_id.with_context(|| format!("session {session} ends"))?;
                block::drop_lun(host, host_no, target_id, LunAddress(*lun))?;
            }
            Request::SetTimeout { session, seconds } => {
                let limit = Duration::from_secs((*seconds).into());
                iscsi::set_recovery_timeout(host, self.session(host, *session)?.sid, limit)?;
            }
            // Any disk: the kernel or udev only reads again what the disk says.
            Request::Rescan { disk } => block::rescan(host, disk)?,
            Request::Announce { disk } => block::announce(host, disk)?,
            Request::Remove { disk } => {
                is_stopping(host, disk)?;
                self.remove(host, disk)?;
            }
            Request::RemoveOther { disk } => {
                let paths = block::paths_of_map(host, disk)?;
                let disks = paths.clone().unwrap_or_else(|| vec![disk.clone()]);
                self.is_another_volume(host, disk, &disks)?;
                if paths.is_some() {
                    self.stop_queueing(host, disk)?;
                }
                disks.iter().try_for_each(|path| self.remove(host, path))?;
                // multipathd gives the map a new table for each path that is gone, which keeps what is written until one is there again.
                let until = Instant::now() + MULTIPATHD_LIMIT;
                while let Some(name) = block::map_name(host, disk)?
                    && !self.is_shut_down(host)
                    && Instant::now() < until
                {
                    multipath::stop_queueing(host, &name)?;
                    host.pause(Duration::from_secs(1))?;
                }
            }
            Request::StopQueueing { map } => {
                is_stopping(host, map)?;
                self.stop_queueing(host, map)?;
            }
            Request::MakeDataDir => exchange::make(host, &self.data_dir)?,
            Request::Exchange { with } => exchange::exchange(host, &self.data_dir, *with)?,
            Request::Park => {
                let path = self.manifest()?;
                // So that the service can have no member stopped that serves. A person has asked the cluster.
                let keeps_out = self.requester == Requester::Person
                    || self.is_shut_down(host)
                    || self.keeps_etcd_out(host)?;
                looks::fenced(keeps_out, &self.data_dir, &format!("{path} stays"))?;
                manifest::park(host, path, &parked(path)).map_err(manifest_error)?;
            }
            Request::PutBack => {
                let path = self.manifest()?;
                self.leads_to_the_truth(host)?;
                manifest::put_back(host, path, &parked(path)).map_err(manifest_error)?;
            }
            Request::Expose { disk } => {
                is_the_lun(host, disk)?;
                let there = looks::mounted_on(host, &self.data_dir)?;
                looks::nothing_on(&self.data_dir, there.map(|mount| mount.source).as_deref())?;
                let options = options_for_etcd(&self.mount_options, self.target.is_some());
                let options = staging::options_here(host, &options)?.join(",");
                self.where_pid1_mounts(host, |host| {
                    let mounted = staging::mount_for_all(host, disk, &self.data_dir, &options);
                    mounted.map_err(|error| named!(MountFailed, "{error}").into())
                })?;
                // On the day of a run by hand nothing else has started it, and without it a shutdown waits for a dead target. At a boot it
                // comes after etcd, which waits for this run.
                if self.target.is_some() && self.requester == Requester::Person {
                    let queued = systemd::queue_start(host, SHUTDOWN_SERVICE);
                    queued.unwrap_or_else(|error| {
                        tracing::warn!("a shutdown without the target may take long: {error}")
                    });
                }
            }
            Request::TakeBack => {
                self.where_pid1_mounts(host, |host| Ok(staging::unmount_for_all(host, &self.data_dir)?))?
            }
            Request::StopEtcd => {
                let unit = self.etcd_unit()?;
                require!(
                    self.requester == Requester::Person || self.is_shut_down(host),
                    HandsRefused,
                    "the filesystem at {} has not shut down: {unit} goes on",
                    self.data_dir
                );
                systemd::stop(host, unit, STOP_LIMIT)?;
            }
            Request::StartEtcd { wait } => {
                let unit = self.etcd_unit()?;
                self.leads_to_the_truth(host)?;
                // It may have failed at the fence so often that its start limit is reached.
                systemd::reset_failed(host, unit)?;
                match wait {
                    true => systemd::start(host, unit, ETCD_LIMIT)?,
                    false => systemd::queue_start(host, unit)?,
                }
            }
            Request::StartIscsid => start_iscsid(host, &iscsi::sessions_of(host, self.target()?)?)?,
        }
        Ok((Said::Done, None))
    }
}

impl Direct {
    /// For a person, on what the config says of the node.
    pub fn by_hand(config: &Config) -> Self {
        Self {
            requester: Requester::Person,
            target: config.backing.iscsi().map(|iscsi| iscsi.target.iqn.clone()),
            data_dir: config.etcd.data_dir.clone(),
            mount_options: config.lun.staging_options(),
            runtime: config.etcd.runtime.clone(),
        }
    }

    /// For a look at units: it names nothing that could be changed.
    pub(super) fn without_config() -> anyhow::Result<Self> {
        let (data_dir, mount_options) = ("/".parse()?, Vec::new());
        let runtime = Runtime::Systemd { unit: String::new() };
        Ok(Self { requester: Requester::Person, target: None, data_dir, mount_options, runtime })
    }

    fn target(&self) -> anyhow::Result<&TargetName> {
        self.target
            .as_ref()
            .ok_or_else(|| named!(HandsRefused, "etcd-lun-hands@.service names no target").into())
    }

    fn session(&self, host: &Host, sid: u32) -> anyhow::Result<Session> {
        let target = self.target()?;
        let found = iscsi::sessions_of(host, target)?.into_iter().find(|session| session.sid == sid);
        let why = match self.requester {
            Requester::Service => format!(
                ", which etcd-lun-hands@.service names: if the config has another target, {}",
                unit::RENDER_AGAIN
            ),
            Requester::Person => " any more: run this again".into(),
        };
        let Some(session) = found else {
            fail!(HandsRefused, "session {sid} is none of etcd-lun's to {target}{why}")
        };
        Ok(session)
    }

    fn staged(&self, host: &Host, disk: &str) -> anyhow::Result<OwnedFd> {
        mounted(host, disk, Access::ReadWrite, &staging::staging_options(host, &self.mount_options)?)
    }

    fn is_at_target(&self, host: &Host, disk: &str) -> anyhow::Result<bool> {
        let Some(target) = &self.target else { return Ok(false) };
        for session in iscsi::sessions_of(host, target)? {
            if block::disks_of_host(host, session.host_no)?.iter().any(|name| name == disk) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn remove(&self, host: &Host, disk: &str) -> anyhow::Result<()> {
        require!(
            self.is_at_target(host, disk)?,
            HandsRefused,
            "{disk} is no disk of a session to the target"
        );
        Ok(block::remove(host, disk)?)
    }

    /// The disk is mounted on the data directory, and no path of it holds the filesystem of the record, which says LUN.
    fn is_another_volume(&self, host: &Host, disk: &str, paths: &[String]) -> anyhow::Result<()> {
        let record = looks::record(host)?.context("the record is gone")?;
        looks::says_lun(&record)?;
        let mount = looks::mounted_on(host, &self.data_dir)?.context("nothing is mounted for etcd")?;
        let mounted = block::of_number(host, mount.device)?;
        let holds_it = |path| Ok(block::xfs_on(host, path)? == Some(record.uuid));
        let hold_it: Vec<_> = paths.iter().map(|path| holds_it(path)).collect::<io::Result<_>>()?;
        require!(
            mounted.as_deref() == Some(disk) && !hold_it.contains(&true),
            HandsRefused,
            "{disk} is not mounted on {}, or holds filesystem {}: it stays",
            self.data_dir,
            record.uuid
        );
        Ok(())
    }

    fn stop_queueing(&self, host: &Host, map: &str) -> anyhow::Result<()> {
        let disks = block::paths_of_map(host, map)?.unwrap_or_default();
        let at_target = disks.iter().map(|disk| self.is_at_target(host, disk));
        let all = at_target.collect::<anyhow::Result<Vec<_>>>()?;
        require!(
            all.contains(&true) && !all.contains(&false),
            HandsRefused,
            "{map} is no map of the target's disks"
        );
        let name = block::map_name(host, map)?.with_context(|| format!("{map} has no name"))?;
        Ok(multipath::stop_queueing(host, &name)?)
    }

    fn manifest(&self) -> anyhow::Result<&AbsPath> {
        match &self.runtime {
            Runtime::StaticPod { manifest } => Ok(manifest),
            Runtime::Systemd { unit } => fail!(HandsRefused, "etcd is {unit} and no static pod"),
        }
    }

    /// Returns the states of units that PID 1 reports. Of the units that one starts, only etcd-lun's own are anyone's
    /// business.
    fn states(&self, host: &Host, units: &[AskedUnit]) -> Vec<SaidOfUnit> {
        let name = |unit: &AskedUnit| match unit {
            AskedUnit::Known(known) => known.name(),
            // There is no unit of this name, and the asking side says what it is about.
            AskedUnit::Etcd => self.etcd_unit().unwrap_or("a static pod"),
        };
        let names: Vec<_> = units.iter().map(name).collect();
        let own = |mut unit: Unit| {
            for started in [&mut unit.wants, &mut unit.requires] {
                started.retain(|name| name.starts_with("etcd-lun"));
            }
            unit
        };
        let said = states(host, &names).into_iter().map(|said| said.map(own));
        names.iter().zip(said).map(|(name, said)| SaidOfUnit { name: (*name).to_owned(), said }).collect()
    }

    fn etcd_unit(&self) -> anyhow::Result<&str> {
        match &self.runtime {
            Runtime::Systemd { unit } => Ok(unit),
            Runtime::StaticPod { .. } => fail!(HandsRefused, "etcd is a static pod and no unit"),
        }
    }

    /// Does something where PID 1 sees it. The hands are there; a run has a mount namespace of its own.
    fn where_pid1_mounts(
        &self,
        host: &Host,
        work: impl FnOnce(&Host) -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<()> {
        match self.requester {
            Requester::Service => work(host),
            Requester::Person => namespace::in_that_of_pid1(work),
        }
    }

    fn is_shut_down(&self, host: &Host) -> bool {
        xfs::is_shut_down(&host.root.locate(self.data_dir.as_path()))
    }

    /// The data directory is one in which etcd cannot start: nothing is mounted there, and it holds only the file `member`.
    fn keeps_etcd_out(&self, host: &Host) -> anyhow::Result<bool> {
        if looks::mounted_on(host, &self.data_dir)?.is_some() {
            return Ok(false);
        }
        let dir = tree::open(&host.root.locate(self.data_dir.as_path()))?;
        Ok(looks::is_barred(&dir, &dir::names(&dir)?)?)
    }

    /// Whatever starts etcd now finds the authoritative copy, or a directory in which it cannot start: what is mounted is the LUN of
    /// the record.
    fn leads_to_the_truth(&self, host: &Host) -> anyhow::Result<()> {
        let Some(mount) = looks::mounted_on(host, &self.data_dir)? else { return Ok(()) };
        let record = looks::record(host)?.context("the record is gone")?;
        looks::says_lun(&record)?;
        let name = block::of_number(host, mount.device)?
            .with_context(|| format!("what is mounted on {} is no disk", self.data_dir))?;
        let wwid = block::disk(host, &name)?.and_then(|disk| disk.wwid);
        require!(
            wwid.as_ref() == Some(&record.wwid),
            MountChanged,
            "{name} is mounted, and is not the LUN {}",
            record.wwid
        );
        Ok(())
    }
}

/// The disk is the LUN of the record, which says LUN. The policy lets this process open no other disk than the one that the udev
/// rule labels, whatever the record says.
fn is_the_lun(host: &Host, name: &str) -> anyhow::Result<()> {
    let record = record_of(host, name)?;
    looks::says_lun(&record)?;
    match block::xfs_on(host, name)? {
        Some(found) if found == record.uuid => Ok(()),
        _ => Err(looks::lacks(&record.wwid, &record.uuid)),
    }
}

/// The record, which must be about this disk.
fn record_of(host: &Host, name: &str) -> anyhow::Result<Record> {
    let disk = block::disk(host, name)?.with_context(|| format!("{name} has gone"))?;
    let record = looks::record(host)?.context("the record is gone")?;
    require!(disk.wwid.as_ref() == Some(&record.wwid), HandsRefused, "{name} is not the LUN {}", record.wwid);
    Ok(record)
}

/// The record announces this filesystem on this disk, which nobody uses. A record that says LUN announces none: etcd's data is on
/// the LUN.
fn is_announced(host: &Host, name: &str, uuid: &FsUuid) -> anyhow::Result<Record> {
    let record = record_of(host, name)?;
    looks::says_local(Some(&record), &format!("nothing is written to {name}"))?;
    looks::names(&record, uuid)?;
    looks::nobody_has(host, &record.wwid, name)?;
    Ok(record)
}

fn is_stopping(host: &Host, disk: &str) -> anyhow::Result<()> {
    require!(
        systemd::is_stopping(host)?,
        HandsRefused,
        "the system is not shutting down: {disk} stays as it is"
    );
    Ok(())
}

/// A mount of the XFS on a disk. The policy lets the hands open no other disk than the one that the udev rule labels, and the
/// kernel would not ask it again before it mounts: so it gets the disk that was opened, and no name.
fn mounted(host: &Host, disk: &str, access: Access, options: &str) -> anyhow::Result<OwnedFd> {
    let Some((opened, _)) = block::open_xfs(host, disk)? else { fail!(LunChanged, "{disk} holds no XFS") };
    Ok(staging::detached(&opened, access, options)?)
}

/// Starts iscsid's socket, or iscsid itself where it has none, or there is a session, which it has to take up. Either may have failed
/// before the node had an initiator name.
/// Starts iscsid, and anew if it runs and does not serve one of these sessions. Those that it serves go on meanwhile.
fn start_iscsid(host: &Host, sessions: &[Session]) -> anyhow::Result<()> {
    for name in [ISCSID, ISCSID_SOCKET] {
        systemd::reset_failed(host, name)?;
    }
    let has_socket = systemd::unit(host, ISCSID_SOCKET)?.exists();
    if has_socket {
        systemd::start(host, ISCSID_SOCKET, START_LIMIT)?;
    }
    if sessions.iter().any(|session| !session.is_logged_in()) {
        systemd::restart(host, ISCSID, START_LIMIT)?;
    } else if !sessions.is_empty() || !has_socket {
        systemd::start(host, ISCSID, START_LIMIT)?;
    }
    Ok(())
}

/// Returns the states of units from PID 1, in this order. If the bus or systemd does not answer, it is not asked for
/// the rest: each question could take as long.
fn states(host: &Host, names: &[&str]) -> Vec<Result<Unit, String>> {
    let text = |error| format!("{:#}", anyhow::Error::from(error));
    let mut found: Vec<_> = match systemd::units(host, names) {
        Ok(said) => said.into_iter().map(|said| said.map_err(text)).collect(),
        Err(error) => vec![Err(text(error))],
    };
    // The last answer says why there are no more.
    let rest = found.last().cloned();
    found.resize_with(names.len(), || rest.clone().unwrap_or_else(|| Err(String::new())));
    found
}

/// An error in moving the manifest of etcd's pod. If the manifest is absent, the config may name another file.
pub fn manifest_error(error: io::Error) -> anyhow::Error {
    match error.get_ref().is_some_and(|cause| cause.is::<manifest::Absent>()) {
        true => named!(ManifestAbsent, "{error}: correct `etcd.manifest` in the config").into(),
        false => error.into(),
    }
}

mod exchange;
#[cfg(test)]
mod tests;

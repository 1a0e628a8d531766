//! Doing what the confined service asks for, in a process and a domain of its own. Each request is looked at again before
//! anything is done.

use crate::{exposure, guard, making, parking, place, record, starting};
use anyhow::{Context as _, bail, ensure};
use config::Runtime;
use hands::{Answer, AskedUnit, Request, SaidOfUnit};
use host::{
    Host,
    block::{self, Content},
    dir, iscsi, line_socket, multipath,
    staging::{self, Access},
    systemd::{self, Unit},
    tree,
    xfs::Superblock,
};
use node::authority::Record;
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};
use terms::{AbsPath, FsUuid, Iqn, LunAddress, Session};
use unit::mount_unit_name;

/// What the hands' unit says of this node.
#[derive(Debug, Clone)]
pub struct Errand {
    /// The target; none with a device.
    pub target: Option<Iqn>,
    /// The data directory.
    pub data_dir: AbsPath,
    /// The options of the mount that etcd gets.
    pub mount_options: Vec<String>,
    /// What runs etcd.
    pub runtime: Runtime,
}

/// Does what the text asks for, and answers over the connection.
pub fn serve(host: &Host, errand: &Errand, text: &str, to: impl AsFd) -> io::Result<()> {
    let (answer, mount) = answer(host, errand, text);
    let text = serde_json::to_string(&answer).map_err(io::Error::other)?;
    line_socket::answer(to, &text, mount.as_ref())
}

fn answer(host: &Host, errand: &Errand, text: &str) -> (Answer, Option<OwnedFd>) {
    let done = serde_json::from_str(text).context("the request has another form: it is of another version");
    let done = done.and_then(|request: Request| {
        tracing::info!("asked for {request:?}");
        errand.carry_out(host, &request)
    });
    match done {
        Ok(done) => done,
        Err(error) => {
            tracing::warn!("refused or failed: {error:#}");
            match error.downcast_ref::<NotDone>() {
                Some(NotDone(code)) => (Answer::Refused(*code), None),
                None => (Answer::Failed(format!("{error:#}")), None),
            }
        }
    }
}

/// The kernel has refused a mount with this code. Who has asked finds out why.
#[derive(Debug, thiserror::Error)]
#[error("the kernel has refused the mount with code {0}")]
struct NotDone(i32);

impl Errand {
    fn carry_out(&self, host: &Host, request: &Request) -> anyhow::Result<(Answer, Option<OwnedFd>)> {
        match request {
            Request::Stage { disk } => {
                let options = staging::superblock_options(host, &self.mount_options)?.unwrap_or_default();
                return Ok((Answer::Done, Some(mounted(host, disk, Access::ReadWrite, &options)?)));
            }
            Request::Inspect { disk } => {
                let options = staging::inspecting_options(host, &self.mount_options)?;
                return Ok((Answer::Done, Some(mounted(host, disk, Access::ReadOnly, &options)?)));
            }
            Request::Format { disk, uuid, label } => {
                let wwid = is_announced(host, disk, uuid)?.wwid;
                match block::probe(host, disk, None)? {
                    Content::Blank => {}
                    Content::Xfs(Superblock { uuid, .. }) | Content::XfsUnfinished { uuid } => {
                        bail!("LUN {wwid} holds an XFS with UUID {uuid} now")
                    }
                    Content::Foreign { found } => bail!("LUN {wwid} holds {found} now"),
                }
                making::filesystem_here(host, disk, uuid, label)?;
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
            Request::Announce { disk } => block::announce_change(host, disk)?,
            Request::Remove { disk } => {
                is_stopping(host, disk)?;
                ensure!(self.is_at_target(host, disk)?, "{disk} is no disk of a session to the target");
                block::remove(host, disk)?;
            }
            Request::StopQueueing { map } => {
                is_stopping(host, map)?;
                let disks = block::paths_of_map(host, map)?.unwrap_or_default();
                let at_target = disks.iter().map(|disk| self.is_at_target(host, disk));
                let all = at_target.collect::<anyhow::Result<Vec<_>>>()?;
                ensure!(
                    all.contains(&true) && !all.contains(&false),
                    "{map} is no map of the target's disks"
                );
                let name = block::map_name(host, map)?.with_context(|| format!("{map} has no name"))?;
                multipath::stop_queueing(host, &name)?;
            }
            Request::Park => {
                let path = self.manifest()?;
                // So that nobody can have a member stopped that serves.
                guard::fenced(self.keeps_etcd_out(host)?, &self.data_dir, &format!("{path} stays"))?;
                parking::park_here(host, path)?;
            }
            Request::PutBack => {
                let path = self.manifest()?;
                self.leads_to_the_truth(host)?;
                parking::put_back_here(host, path)?;
            }
            Request::Mount { disk } => {
                is_the_lun(host, disk)?;
                // A process that was killed may have left one.
                exposure::withdraw_here(host)?;
                exposure::make_link(host, disk)?;
                let started = exposure::start_here(host, &self.mount_unit());
                started.and(exposure::withdraw_here(host))?;
            }
            Request::Unmount => {
                exposure::withdraw_here(host)?;
                exposure::restart_here(host, &self.mount_unit())?;
            }
            Request::Withdraw => exposure::withdraw_here(host)?,
            Request::StartEtcd { wait } => {
                let unit = self.etcd_unit()?;
                self.leads_to_the_truth(host)?;
                starting::etcd_here(host, unit, *wait)?;
            }
            Request::StartIscsid => {
                ensure!(self.target.is_some(), "etcd-lun-hands@.service names no target");
                starting::iscsid_here(host)?;
            }
            Request::Units(units) => {
                return Ok((Answer::Units(self.states(host, units)), None));
            }
            Request::IsStopping => return Ok((Answer::Stopping(systemd::is_stopping(host)?), None)),
        }
        Ok((Answer::Done, None))
    }

    fn session(&self, host: &Host, sid: u32) -> anyhow::Result<Session> {
        let target = self.target.as_ref().context("etcd-lun-hands@.service names no target")?;
        let found = iscsi::sessions_of(host, target)?.into_iter().find(|session| session.sid == sid);
        let Some(session) = found else {
            bail!(
                "session {sid} is none of etcd-lun's to {target}, which etcd-lun-hands@.service names: if the config has another target, run `etcd-lun render units --into /etc/systemd/system` and `systemctl daemon-reload`"
            )
        };
        Ok(session)
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

    fn manifest(&self) -> anyhow::Result<&AbsPath> {
        match &self.runtime {
            Runtime::StaticPod { manifest } => Ok(manifest),
            Runtime::Systemd { unit } => bail!("etcd is {unit} and no static pod"),
        }
    }

    /// What PID 1 says of units. Of the units that one starts, only etcd-lun's own are anyone's business.
    fn states(&self, host: &Host, units: &[AskedUnit]) -> Vec<SaidOfUnit> {
        let mount = self.mount_unit();
        let name = |unit: &AskedUnit| match unit {
            AskedUnit::Known(known) => known.name(),
            AskedUnit::Mount => mount.as_str(),
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
        let said = hands::units_here(host, &names).into_iter();
        let said = said.map(|said| said.map(own).map_err(|why| why.to_string()));
        names.iter().zip(said).map(|(name, said)| SaidOfUnit { name: (*name).to_owned(), said }).collect()
    }

    fn etcd_unit(&self) -> anyhow::Result<&str> {
        match &self.runtime {
            Runtime::Systemd { unit } => Ok(unit),
            Runtime::StaticPod { .. } => bail!("etcd is a static pod and no unit"),
        }
    }

    fn mount_unit(&self) -> String {
        mount_unit_name(&self.data_dir)
    }

    /// The data directory is one in which etcd cannot start: nothing is mounted there, and it holds only the file `member`.
    fn keeps_etcd_out(&self, host: &Host) -> anyhow::Result<bool> {
        if place::mounted_on(host, &self.data_dir)?.is_some() {
            return Ok(false);
        }
        let dir = tree::open(&host.root.locate(self.data_dir.as_path()))?;
        Ok(observe::is_barred(&dir, &dir::names(&dir)?)?)
    }

    /// Whatever starts etcd now finds the authoritative copy, or a directory in which it cannot start: what is mounted is the LUN of
    /// the record.
    fn leads_to_the_truth(&self, host: &Host) -> anyhow::Result<()> {
        let Some(mount) = place::mounted_on(host, &self.data_dir)? else { return Ok(()) };
        let record = record::read(host)?.context("the record is gone")?;
        guard::says_lun(&record)?;
        let name = block::of_number(host, mount.device)?
            .with_context(|| format!("what is mounted on {} is no disk", self.data_dir))?;
        let wwid = block::disk(host, &name)?.and_then(|disk| disk.wwid);
        ensure!(wwid.as_ref() == Some(&record.wwid), "{name} is mounted, and is not the LUN {}", record.wwid);
        Ok(())
    }
}

/// The disk is the LUN of the record, which says LUN. The policy lets this process open no other disk than the one that the udev
/// rule labels, whatever the record says.
fn is_the_lun(host: &Host, name: &str) -> anyhow::Result<()> {
    let record = record_of(host, name)?;
    guard::says_lun(&record)?;
    match block::xfs_on(host, name)? {
        Some(found) if found == record.uuid => Ok(()),
        _ => Err(guard::lacks(&record.wwid, &record.uuid)),
    }
}

/// The record, which must be about this disk.
fn record_of(host: &Host, name: &str) -> anyhow::Result<Record> {
    let disk = block::disk(host, name)?.with_context(|| format!("{name} has gone"))?;
    let record = record::read(host)?.context("the record is gone")?;
    ensure!(disk.wwid.as_ref() == Some(&record.wwid), "{name} is not the LUN {}", record.wwid);
    Ok(record)
}

/// The record announces this filesystem on this disk, which nobody uses. A record that says LUN announces none: etcd's data is on
/// the LUN.
fn is_announced(host: &Host, name: &str, uuid: &FsUuid) -> anyhow::Result<Record> {
    let record = record_of(host, name)?;
    guard::says_local(Some(&record), &format!("nothing is written to {name}"))?;
    guard::names(&record, uuid)?;
    guard::nobody_has(block::nobody_holds(host, name)?, &record.wwid, name)?;
    Ok(record)
}

fn is_stopping(host: &Host, disk: &str) -> anyhow::Result<()> {
    ensure!(systemd::is_stopping(host)?, "the system is not shutting down: {disk} stays as it is");
    Ok(())
}

/// A mount of the XFS on a disk. The policy lets this process open no other disk than the one that the udev rule labels, and the
/// kernel would not ask it again before it mounts.
fn mounted(host: &Host, disk: &str, access: Access, options: &str) -> anyhow::Result<OwnedFd> {
    ensure!(block::xfs_on(host, disk)?.is_some(), "{disk} holds no XFS");
    let node = host.root.locate(block::node(disk)?.as_path());
    staging::detached(&node, access, options).map_err(|error| match error.raw_os_error() {
        Some(code) => NotDone(code).into(),
        None => error.into(),
    })
}

#[cfg(test)]
mod tests;

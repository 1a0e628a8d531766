//! What a destructive step re-reads just before it acts. A plan may be stale; a guard isn't.

use super::{context::Run, place, record, users};
use crate::{
    config::NOT_IN_USE,
    host::{Host, block, iscsi, mountinfo},
    node::{
        Content, Lun, LunView,
        authority::{Authority, Record},
    },
    observe,
    terms::{AbsPath, FsUuid, Wwid},
};
use anyhow::{Context as _, anyhow, bail, ensure};
use std::time::{Duration, Instant};

/// The LUN as it is now, when it still is the one that the step names and nobody uses it.
pub fn lun(run: &Run<'_>, wwid: &Wwid) -> anyhow::Result<Lun> {
    wait_for_connection(run)?;
    // The kernel keeps what it read at login; a remapped LUN shows only after this.
    observe::lun_rescan(run.host, run.config)?;
    let view = observe::lun(run.host, run.config, run.staging.as_ref())
        .require()
        .cloned()
        .map_err(|why| anyhow!("{why}"))?;
    let LunView::Seen(lun) = view else { bail!("LUN {wwid} ({}) has gone", run.config.backing.place()) };
    let found = lun.wwid.require().map_err(|why| anyhow!("its WWID can't be told: {why}"))?;
    ensure!(
        found == wwid,
        "{} is {found} now, it was {wwid}: another one is there",
        run.config.backing.place()
    );
    ensure!(!lun.read_only, "LUN {wwid} is read-only now");
    ensure!(lun.holders.is_empty(), "LUN {wwid} is held by {} now", lun.holders.join(", "));
    let users = lun.users.require().map_err(|why| anyhow!("who uses it can't be told: {why}"))?;
    if let Some(user) = users.first() {
        bail!("LUN {wwid} is in use at {} by {} (pid {}) now", user.at, user.command, user.pid);
    }
    Ok(*lun)
}

/// A session that has just lost its connection gets a new one within seconds when its target was only restarted. As long
/// as the kernel would keep a write waiting for that, so does this; whether it came, the look that follows tells.
fn wait_for_connection(run: &Run<'_>) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let sessions = observe::ours(run.host, run.config)?;
        let waits = |session: &&iscsi::Session| session.is_reconnecting();
        let Some(session) = sessions.iter().find(waits) else { return Ok(()) };
        let patience =
            session.recovery_timeout.map_or(NOT_IN_USE.0, |seconds| Duration::from_secs(seconds.into()));
        if sessions.iter().any(iscsi::Session::is_logged_in) || begun.elapsed() >= patience.min(NOT_IN_USE.0)
        {
            return Ok(());
        }
        run.host.pause(Duration::from_millis(200)).context("waiting for the session")?;
    }
}

/// The same, and provably blank.
pub fn blank_lun(run: &Run<'_>, wwid: &Wwid) -> anyhow::Result<Lun> {
    let lun = lun(run, wwid)?;
    match content(&lun)? {
        Content::Blank => Ok(lun),
        Content::Unfinished { uuid } => {
            bail!("LUN {wwid} still holds parts of the unfinished filesystem {uuid}")
        }
        Content::Xfs { uuid, .. } => bail!("LUN {wwid} holds an XFS with UUID {uuid} now"),
        Content::Foreign { found } => bail!("LUN {wwid} holds {found} now"),
    }
}

/// The same, with the very filesystem of the record on it.
pub fn lun_of_ours(run: &Run<'_>, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<Lun> {
    let record = record::read(run.host)?;
    ensure!(record.uuid == *uuid, "the record names filesystem {} now, not {uuid}", record.uuid);
    let lun = lun(run, wwid)?;
    match content(&lun)? {
        Content::Xfs { uuid: found, .. } if found == uuid => {}
        Content::Xfs { uuid: found, .. } => bail!("LUN {wwid} holds filesystem {found} now, not {uuid}"),
        Content::Blank | Content::Unfinished { .. } | Content::Foreign { .. } => {
            bail!("LUN {wwid} does not hold filesystem {uuid} any more")
        }
    }
    ensure!(block::nobody_holds(run.host, &lun.device)?, "LUN {wwid} ({}) is held by somebody", lun.device);
    Ok(lun)
}

fn content(lun: &Lun) -> anyhow::Result<&Content> {
    lun.content.require().map_err(|why| anyhow!("what the LUN holds can't be told: {why}"))
}

/// Data on a LUN is only replaced while the record says that the truth is local.
pub fn not_the_truth(run: &Run<'_>) -> anyhow::Result<()> {
    let record = record::read(run.host)?;
    ensure!(
        record.authority == Authority::Local,
        "the record says that the LUN is the truth: nothing is copied over it"
    );
    Ok(())
}

/// etcd is stopped and nobody has anything open in its directory.
pub fn etcd_is_at_rest(run: &Run<'_>, data_dir: &AbsPath) -> anyhow::Result<()> {
    let etcd = observe::etcd(run.host, run.config)
        .require()
        .cloned()
        .map_err(|why| anyhow!("whether etcd runs can't be told: {why}"))?;
    ensure!(!etcd.running, "{} is {} though it was stopped: somebody started it", etcd.name, etcd.state);
    let users = users::of_data(run.host, data_dir)?;
    ensure!(users.is_empty(), "{} has files open in {data_dir} though etcd is stopped", users.join(", "));
    Ok(())
}

/// A session whose disks somebody uses is never logged out.
pub fn session_is_free(host: &Host, sid: u32) -> anyhow::Result<()> {
    let sessions = iscsi::sessions(host)?;
    let Some(session) = sessions.iter().find(|session| session.sid == sid) else { return Ok(()) };
    let in_use = observe::session_users(host, session).context("looking for users of the session's disks")?;
    ensure!(in_use.is_empty(), "session {sid} is in use by {}: it is not logged out", in_use.join(", "));
    Ok(())
}

/// What is mounted on the data directory is the LUN of the record, which is the truth.
pub fn data_is_on_lun(run: &Run<'_>, data_dir: &AbsPath) -> anyhow::Result<Lun> {
    let record = record::read(run.host)?;
    ensure!(record.authority == Authority::Lun, "the record says that the local disk is the truth");
    let mounts = mountinfo::of_pid1(run.host)?;
    let mut here = mounts.iter().filter(|mount| mount.mount_point == data_dir.as_str());
    let (Some(mount), None) = (here.next(), here.next()) else {
        bail!("{data_dir} is not mounted, or more than once");
    };
    let view = observe::lun(run.host, run.config, None).require().cloned().map_err(|why| anyhow!("{why}"))?;
    let LunView::Seen(lun) = view else { bail!("the LUN has gone") };
    let devno = format!("{}:{}", mount.device.0, mount.device.1);
    ensure!(lun.devno == devno, "{data_dir} is on device {devno}, the LUN is {} ({})", lun.devno, lun.device);
    ensure!(
        lun.wwid.known() == Some(&record.wwid),
        "the LUN is {}, the record names {}",
        lun.wwid,
        record.wwid
    );
    Ok(*lun)
}

/// The record says that the truth is local, on a person's word.
pub fn rolled_back(run: &Run<'_>) -> anyhow::Result<Record> {
    let record = record::read(run.host)?;
    ensure!(record.rolled_back, "the record says {}, and of no rollback", record.authority);
    Ok(record)
}

/// Nothing is mounted on the data directory.
pub fn nothing_is_mounted(run: &Run<'_>, data_dir: &AbsPath) -> anyhow::Result<()> {
    match place::mounted_on(run.host, data_dir)? {
        Some(mount) => bail!("{} is mounted on {data_dir} now", mount.source),
        None => Ok(()),
    }
}

/// The data directory is the one that a rollback has put in its place.
pub fn data_is_local(run: &Run<'_>, data_dir: &AbsPath) -> anyhow::Result<()> {
    rolled_back(run)?;
    nothing_is_mounted(run, data_dir)?;
    ensure!(
        !place::is_fenced(run.host, data_dir)?,
        "{data_dir} is fenced: the local data is not in its place"
    );
    Ok(())
}

/// Nobody has anything open in the local directory. Once the LUN is mounted over it, what can be
/// opened there is the LUN.
pub fn no_users_beneath(run: &Run<'_>, data_dir: &AbsPath) -> anyhow::Result<()> {
    if place::mounted_on(run.host, data_dir)?.is_some() {
        return Ok(());
    }
    let users = users::of_data(run.host, data_dir)?;
    ensure!(users.is_empty(), "{} has files open in {data_dir}: end it first", users.join(", "));
    Ok(())
}

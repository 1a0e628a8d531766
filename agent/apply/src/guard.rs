//! The preconditions that a destructive step reads again just before it acts: its plan may be out of date by then.

use super::{
    context::Run,
    machine::{self, Machine},
};
use anyhow::{Context as _, anyhow};
use config::NOT_IN_USE;
pub use hands::looks::{fenced, lacks, names, nobody_has, says_local, says_lun};
use hands::{Request, looks};
use host::{Host, block, inode, iscsi, mountinfo, multipath, staging::Staging};
use node::{
    Content, Fact, Lun, LunView, Order, User,
    authority::{Record, Stamp},
    order,
};
use plan::step::{AddPath, RemovePath};
use std::time::{Duration, Instant};
use terms::{AbsPath, FsUuid, Session, Wwid, fail, named, require};

/// Reads the LUN again. Fails if it is not the LUN that the step names, or if someone uses it. While this run has it
/// mounted, what it holds is not read.
pub fn lun(run: &Run<'_>, wwid: &Wwid) -> anyhow::Result<Lun> {
    wait_for_connection(run)?;
    // The kernel caches what it read at login, so a LUN that was remapped since then shows only after a rescan.
    run.rescan_lun()?;
    let lun = attached_lun(run)?;
    let found = lun
        .wwid
        .require()
        .map_err(|why| named!(LunReplaced, "the LUN's WWID cannot be determined: {why}"))?;
    require!(
        found == wwid,
        LunReplaced,
        "{} is {found} now, not {wwid}: another LUN has taken its place",
        run.config.backing.place()
    );
    let wanted = run.config.node.wwid.as_ref();
    require!(
        wanted.is_none_or(|wanted| wanted == wwid),
        LunReplaced,
        "the entry of this node does not name LUN {wwid}"
    );
    require!(!lun.read_only, LunChanged, "LUN {wwid} is read-only now");
    require!(
        lun.holders.is_empty(),
        LunInUseNow,
        "LUN {wwid} is held by {} now: see `lsblk`",
        lun.holders.join(", ")
    );
    let users = lun
        .users
        .require()
        .map_err(|why| named!(LunInUseNow, "the LUN's users cannot be determined: {why}"))?;
    if let Some(user) = somebody_else(users, run.staging.is_some().then(std::process::id)) {
        fail!(LunInUseNow, "LUN {wwid} is in use at {} by {} (pid {}) now", user.at, user.command, user.pid);
    }
    Ok(lun)
}

/// The first user that is not the process which has the LUN staged.
fn somebody_else(users: &[User], staging: Option<u32>) -> Option<&User> {
    users.iter().find(|user| Some(user.pid) != staging)
}

/// Waits for a session that has just lost its connection: if the target was only restarted, iscsid reconnects within
/// seconds. The limit is the time for which the kernel keeps a write waiting. The caller looks at the LUN next, and
/// finds out whether the connection is back.
fn wait_for_connection(run: &Run<'_>) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let sessions = locate::sessions_to_target(run.host, run.config)?;
        let waits = |session: &&Session| session.is_reconnecting();
        let Some(session) = sessions.iter().find(waits) else { return Ok(()) };
        let patience =
            session.recovery_timeout.map_or(NOT_IN_USE.0, |seconds| Duration::from_secs(seconds.into()));
        if sessions.iter().any(Session::is_logged_in) || begun.elapsed() >= patience.min(NOT_IN_USE.0) {
            return Ok(());
        }
        run.host.pause(Duration::from_millis(200)).context("waiting for the session")?;
    }
}

/// Like [`lun`], and the LUN is provably blank.
pub fn blank_lun(run: &Run<'_>, wwid: &Wwid) -> anyhow::Result<Lun> {
    let lun = lun(run, wwid)?;
    match content(&lun)? {
        Content::Blank => Ok(lun),
        Content::Unfinished { uuid } => {
            fail!(LunChanged, "LUN {wwid} still holds parts of the unfinished filesystem {uuid}")
        }
        Content::Xfs { uuid, .. } => fail!(LunChanged, "LUN {wwid} holds an XFS with UUID {uuid} now"),
        Content::Foreign { found } => fail!(LunChanged, "LUN {wwid} holds {found} now"),
    }
}

/// Like [`lun`], and the LUN holds the filesystem that the record names.
pub fn lun_of_ours(run: &Run<'_>, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<Lun> {
    names(&machine::record(run)?, uuid)?;
    lun_holds(run, wwid, uuid)
}

/// Like [`lun`], and the LUN holds this filesystem.
pub fn lun_holds(run: &Run<'_>, wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<Lun> {
    let lun = lun(run, wwid)?;
    match content(&lun)? {
        Content::Xfs { uuid: found, .. } if found == uuid => {}
        Content::Xfs { uuid: found, .. } => {
            fail!(LunChanged, "LUN {wwid} holds filesystem {found} now, not {uuid}")
        }
        Content::Blank | Content::Unfinished { .. } | Content::Foreign { .. } => {
            return Err(lacks(wwid, uuid));
        }
    }
    nobody_has(run.host, wwid, &lun.device)?;
    Ok(lun)
}

/// Like [`lun`] for one whose filesystem this run has mounted. The kernel has that filesystem in memory, and a mount of the
/// same device is a mount of it.
pub fn staged_lun(run: &Run<'_>, staging: &Staging, wwid: &Wwid) -> anyhow::Result<Lun> {
    let lun = lun(run, wwid)?;
    let (major, minor) = staging.device().context("looking at the staged LUN")?;
    require!(
        lun.devno == format!("{major}:{minor}"),
        LunGone,
        "device {major}:{minor} is staged, and LUN {wwid} is {} ({}) now",
        lun.devno,
        lun.device
    );
    Ok(lun)
}

fn content(lun: &Lun) -> anyhow::Result<&Content> {
    let content = lun.content.require();
    Ok(content.map_err(|why| named!(LunChanged, "the LUN's content cannot be determined: {why}"))?)
}

/// The stamp of the filesystem that the record names is of the record's moment.
pub fn same_moment(machine: &dyn Machine, record: &Record, stamp: &Stamp) -> anyhow::Result<()> {
    let order = order(Some(record), None, stamp, machine.identity());
    require!(
        matches!(order, Order::Same { .. }),
        LunUsedElsewhere,
        "the filesystem is stamped for {}, generation {}, use {}; the record says generation {}, use {}: see that the LUN is this node's own volume and of today, and that no other computer uses it",
        stamp.node,
        stamp.generation,
        stamp.activations,
        record.generation,
        record.activations
    );
    Ok(())
}

/// The LUN may be mounted, which replays its log: its stamp is of the record's moment, or can be after that.
pub fn may_be_mounted(machine: &dyn Machine, record: &Record, lun: &Lun) -> anyhow::Result<()> {
    let Fact::Known(Content::Xfs { stamp: Fact::Known(Some(stamp)), .. }) = &lun.content else {
        return Ok(());
    };
    match order(Some(record), None, stamp, machine.identity()).holds_before_replay() {
        true => same_moment(machine, record, stamp),
        false => Ok(()),
    }
}

/// The device of the staged LUN still holds the filesystem that the record names. Two nodes that see one blank LUN may both make
/// a filesystem on it, and the mount of the first shows nothing of the second one's.
pub fn staged_is_ours(machine: &dyn Machine) -> anyhow::Result<()> {
    let (record, found) = (machine::record(machine)?, machine.staged_filesystem()?);
    if found != record.uuid {
        fail!(
            FormattedByAnother,
            "LUN {} holds filesystem {found} now, not {}: another computer has formatted it since this node did; see at the target that only this node's initiator name has access, and make the LUN blank",
            record.wwid,
            record.uuid
        );
    }
    Ok(())
}

/// The record says that the local copy is authoritative: only then may the data on the LUN be replaced.
pub fn local_is_authoritative(machine: &dyn Machine) -> anyhow::Result<()> {
    says_local(Some(&machine::record(machine)?), "nothing is copied over it")
}

/// The record does not say that the LUN's copy is authoritative, or there is none. `so` is what is not done otherwise.
pub fn lun_is_not_authoritative(machine: &dyn Machine, so: &str) -> anyhow::Result<()> {
    says_local(machine.record()?.as_ref(), so)
}

/// The record does not say that etcd has run from the LUN, or there is none. `so` is what is not done otherwise.
pub fn lun_has_not_served(machine: &dyn Machine, so: &str) -> anyhow::Result<()> {
    let has_served = machine.record()?.is_some_and(|record| record.has_served());
    require!(!has_served, RecordChanged, "the record says that the LUN's copy is authoritative: {so}");
    Ok(())
}

/// The record is the one that was planned with. `so` is what is not done otherwise.
pub fn record_is(planned: bool, so: &str) -> anyhow::Result<()> {
    require!(planned, RecordChanged, "the record has changed since it was read: {so}");
    Ok(())
}

/// The LUN's stamp is the one that was planned with. `so` is what is not done otherwise.
pub fn stamp_is(planned: bool, so: &str) -> anyhow::Result<()> {
    require!(planned, LunUsedElsewhere, "the LUN's stamp has changed since it was read: {so}");
    Ok(())
}

/// The directory beneath a mount is fenced. `so` is what is not done otherwise.
pub fn fenced_beneath(is_fenced: bool, at: &AbsPath, so: &str) -> anyhow::Result<()> {
    require!(is_fenced, NotFenced, "{at} is not fenced beneath the mount: {so}");
    Ok(())
}

/// etcd is stopped, by what runs it and by the lock on its database.
pub fn etcd_is_stopped(machine: &dyn Machine) -> anyhow::Result<()> {
    let etcd = machine.etcd()?;
    require!(
        !etcd.running,
        EtcdStartedMeanwhile,
        "{} is {} though it was stopped: somebody started it",
        etcd.name,
        etcd.state
    );
    Ok(())
}

/// etcd is stopped, and no process uses its data directory.
pub fn etcd_is_at_rest(machine: &dyn Machine, data_dir: &AbsPath) -> anyhow::Result<()> {
    etcd_is_stopped(machine)?;
    let users = machine.users(data_dir)?;
    require!(
        users.is_empty(),
        FilesOpen,
        "{} has files open in {data_dir} though etcd is stopped: end it first",
        users.join(", ")
    );
    Ok(())
}

/// Nobody uses the session's disks: only then may the session be logged out.
pub fn session_is_free(host: &Host, sid: u32) -> anyhow::Result<()> {
    let sessions = iscsi::sessions(host)?;
    let Some(session) = sessions.iter().find(|session| session.sid == sid) else { return Ok(()) };
    let in_use = locate::session_users(host, session).context("looking for users of the session's disks")?;
    require!(
        in_use.is_empty(),
        LunInUseNow,
        "session {sid} is in use by {}: it is not logged out",
        in_use.join(", ")
    );
    Ok(())
}

/// Another path of the map works, at a portal of the config: only then may multipathd take this path out of the map. Says
/// which one.
///
/// That the kernel calls a path active is no proof: it notices a target that has fallen silent only at its next command or
/// ping. So the kernel is made to send commands over that path, as it does before every run by hand, and only what it says
/// afterwards counts. If the target does not answer them, the session is not logged in any more when they end.
pub fn another_path_works(run: &Run<'_>, step: &RemovePath) -> anyhow::Result<String> {
    let RemovePath { map, path, sid } = step;
    let host = run.host;
    let is_path_only =
        |disk: &block::Disk| matches!(disk.holders.as_slice(), [holder] if holder.name == *map);
    let (Some(iscsi), Some(whole), Some(leaving)) =
        (run.config.backing.iscsi(), block::disk(host, map)?, block::disk(host, path)?.filter(is_path_only))
    else {
        fail!(PathStays, "{path} is not only a path of {map}, so it stays");
    };
    let sessions = || locate::sessions_to_target(host, run.config);
    let stays = |session: &Session| {
        session.sid != *sid
            && session.is_logged_in()
            && iscsi.target.portals.iter().any(|portal| session.is_at_portal_of(&iscsi.target.iqn, portal))
    };
    let mut found = Vec::new();
    for session in sessions()?.iter().filter(|session| stays(session)) {
        let Some(name) = locate::disk_of(host, session, &iscsi.lun)?.filter(|name| name != path) else {
            continue;
        };
        let works = || -> anyhow::Result<bool> {
            let Some(other) = block::disk(host, &name)? else { return Ok(false) };
            Ok(block::is_running(host, &name)?
                && other.wwid == leaving.wwid
                && other.size >= whole.size
                && block::multipath_of(&other).is_some_and(|holder| holder.name == *map)
                && multipath::is_active(host, (whole.major, whole.minor), (other.major, other.minor))?)
        };
        if !works()? || block::is_silent(host, &name)? {
            found.push(format!("{name} does not work"));
            continue;
        }
        run.door.perform(&Request::Rescan { disk: name.clone() })?;
        let is_up = sessions()?.iter().any(|now| now.sid == session.sid && stays(now));
        if is_up && works()? {
            return Ok(name);
        }
        found.push(format!("{name} has not answered"));
    }
    fail!(PathStays, "{map} has no other path that works, so {path} stays in it ({})", found.join(", "))
}

/// The path is the same LUN as its map, and nothing is on it. multipathd itself goes by the WWID too, and the kernel refuses a
/// path that is smaller than its map (`drivers/md/dm-table.c`).
pub fn path_is_free(host: &Host, step: &AddPath) -> anyhow::Result<()> {
    let AddPath { map, path, wwid } = step;
    let is_free = |disk: block::Disk| disk.wwid.as_ref() == Some(wwid) && disk.holders.is_empty();
    require!(
        block::disk(host, path)?.is_some_and(is_free),
        PathStays,
        "{path} is in use, or is not {wwid}: it stays out of {map}"
    );
    Ok(())
}

/// The record says that the LUN's copy is authoritative, and that LUN is mounted on the data directory.
pub fn data_is_on_lun(run: &Run<'_>, data_dir: &AbsPath) -> anyhow::Result<Lun> {
    let record = machine::record(run)?;
    says_lun(&record)?;
    let mounts = mountinfo::of_pid1(run.host)?;
    let mut here = mounts.iter().filter(|mount| mount.mount_point == data_dir.as_str());
    let (Some(mount), None) = (here.next(), here.next()) else {
        fail!(MountChanged, "{data_dir} is not mounted, or more than once");
    };
    let lun = attached_lun(run)?;
    let devno = format!("{}:{}", mount.device.0, mount.device.1);
    require!(
        lun.devno == devno,
        MountChanged,
        "{data_dir} is on device {devno}, the LUN is {} ({})",
        lun.devno,
        lun.device
    );
    require!(
        lun.wwid.known() == Some(&record.wwid),
        MountChanged,
        "the LUN on {data_dir} is {}, the record names {}",
        lun.wwid,
        record.wwid
    );
    Ok(lun)
}

/// The stamp that the device of the mounted LUN has in its place.
pub fn stamp_in_place(run: &Run<'_>, lun: &Lun) -> anyhow::Result<Option<Stamp>> {
    match content(lun)? {
        Content::Xfs { uuid, stamp, .. } if *uuid == machine::record(run)?.uuid => {
            stamp.require().cloned().map_err(|why| anyhow!("the stamp cannot be determined: {why}"))
        }
        Content::Blank | Content::Unfinished { .. } | Content::Foreign { .. } | Content::Xfs { .. } => {
            fail!(LunUsedElsewhere, "LUN {} does not hold the mounted filesystem any more", lun.wwid)
        }
    }
}

fn attached_lun(run: &Run<'_>) -> anyhow::Result<Lun> {
    let view = observe::lun(run.door, run.config, None).require().cloned().map_err(|why| anyhow!("{why}"))?;
    match view {
        LunView::Seen(lun) => Ok(*lun),
        LunView::NoSession | LunView::NotAttached => {
            fail!(LunGone, "the LUN has gone ({})", run.config.backing.place())
        }
    }
}

/// The other members of the cluster can do without this node's. Asked only by hand.
pub fn others_are_a_quorum(run: &Run<'_>) -> anyhow::Result<()> {
    let etcd = observe::etcd(run.door, run.config);
    let etcd = etcd.require().map_err(|why| anyhow!("whether etcd runs cannot be determined: {why}"))?;
    let cluster = etcd.running.then(|| observe::cluster_now(run.host, run.config, true));
    Ok(plan::may_stop(run.config, etcd, cluster.as_ref())?)
}

/// The record says that the data was rolled back to the local disk.
pub fn rolled_back(machine: &dyn Machine) -> anyhow::Result<Record> {
    let record = machine::record(machine)?;
    require!(
        record.rolled_back,
        RecordChanged,
        "the record says {}, but nothing about a rollback",
        record.authority
    );
    Ok(record)
}

/// The record says that the data was rolled back to the local disk, and is of this generation.
pub fn rolled_back_to(machine: &dyn Machine, generation: u64) -> anyhow::Result<Record> {
    let record = rolled_back(machine)?;
    let now = record.generation;
    require!(now == generation, RecordChanged, "the record is of generation {now} now");
    Ok(record)
}

/// Nothing is mounted on the data directory.
pub fn nothing_is_mounted(machine: &dyn Machine, data_dir: &AbsPath) -> anyhow::Result<()> {
    looks::nothing_on(data_dir, machine.mounted_on(data_dir)?.as_deref())
}

/// The local copy is authoritative, or the only one, and lies in the data directory.
pub fn data_is_local(machine: &dyn Machine, data_dir: &AbsPath) -> anyhow::Result<()> {
    lun_is_not_authoritative(machine, "etcd is not started on the local copy")?;
    nothing_is_mounted(machine, data_dir)?;
    require!(
        !machine.is_fenced(data_dir)?,
        NotFenced,
        "{data_dir} is fenced: the local data is not in its place"
    );
    Ok(())
}

/// Returns true if the directory beneath the mount point is immutable.
pub fn is_fenced(host: &Host, data_dir: &AbsPath) -> anyhow::Result<bool> {
    let Some(place) = inode::beneath(host, data_dir)? else { return Ok(false) };
    Ok(inode::is_immutable(&place)? == Some(true))
}

/// No process uses the local data directory. Not checked while the LUN is mounted over it: that path then leads to the
/// LUN.
pub fn no_users_beneath(machine: &dyn Machine, data_dir: &AbsPath) -> anyhow::Result<()> {
    if machine.mounted_on(data_dir)?.is_some() {
        return Ok(());
    }
    let users = machine.users(data_dir)?;
    require!(users.is_empty(), FilesOpen, "{} has files open in {data_dir}: end it first", users.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests;

//! What each portal of the target shows this node, for a person who writes the config. Nothing is written to a LUN.

use crate::{
    alone::take_lock,
    context::Run,
    cures,
    steps::{login, look},
    watcher::Silent,
};
use anyhow::Context as _;
use config::{Config, Iscsi};
use hands::{Door, Request};
use host::{
    Host,
    block::{self, ShownLun},
    iscsi, namespace, random,
};
use locate::Shown;
use node::Identity;
use observe::secrets::Secrets;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};
use terms::{Bytes, LunNumber, Portal, Session, Wwid, fail};

/// The LUNs that one portal shows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PortalLuns {
    /// The portal.
    pub portal: Portal,
    /// Its LUNs, in the order of their addresses.
    pub luns: Vec<VisibleLun>,
    /// The act that was not done there, and why; none if all was done.
    pub problem: Option<String>,
}

/// A LUN that a portal shows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VisibleLun {
    /// Its number as the array says it; none if its address has no such form.
    pub number: Option<LunNumber>,
    /// Its address as the kernel prints it.
    pub address: u64,
    /// The addressing method of that address, in SCSI's words.
    pub method: &'static str,
    /// Its WWID; none if it has none, or if that could not be read.
    pub wwid: Option<Wwid>,
    /// Its size in bytes; none if that could not be read.
    #[serde(rename = "size_bytes")]
    pub size: Option<Bytes>,
    /// The content, or why it was not read.
    pub content: String,
    /// True if it is the one that the config names.
    pub is_wanted: bool,
}

/// How long the kernel and udev may take to make the disks of all LUNs.
const DISKS: Duration = Duration::from_secs(20);

/// Logs in at each portal that has no session of ours, asks for the LUNs, and looks at each. What it has made known to the kernel
/// goes again, and so does each session that it has made.
///
/// While somebody uses a LUN of ours, nothing is asked: the portals with a session say what the kernel knows, and there is no
/// log-in at others, because it would show the LUN as a second disk.
pub fn luns(
    door: &Door<'_>,
    config: &Config,
    secrets: &Secrets,
    identity: &Identity,
) -> anyhow::Result<Vec<PortalLuns>> {
    let host = door.host;
    let Some(iscsi) = config.backing.iscsi() else {
        fail!(
            Usage,
            "the config has a [device] and no [target]: `ls -l /dev/disk/by-id` shows this node's disks"
        );
    };
    let _lock = take_lock(door).context("making sure that no apply runs")?;
    // As `apply` does: without a name of the node's own iscsid ends at once, until systemd stops starting it for its socket.
    if iscsi::initiator_name(host).context("reading the initiator name")?.is_none() {
        let name = plan::initiator_name(random::uuid().context("asking the kernel for random bits")?)?;
        login::set_initiator_name(host, &name).context("giving this node an initiator name")?;
    }
    if namespace::is_in_namespace_of_pid1(host).context("comparing mount namespaces")? {
        // open-iscsi's interface is for this process only.
        namespace::private_mounts().context("making mounts private")?;
    }
    let mut silent = Silent;
    let run = Run::new(door, config, secrets, identity, &mut silent);
    let mut in_use = false;
    for session in locate::sessions_to_target(host, config)? {
        in_use |= !locate::session_users(host, &session)?.is_empty();
    }
    iscsi.target.portals.iter().map(|portal| at(&run, iscsi, portal, in_use)).collect()
}

fn at(run: &Run<'_>, iscsi: &Iscsi, portal: &Portal, in_use: bool) -> anyhow::Result<PortalLuns> {
    let nothing = |problem| PortalLuns { portal: portal.clone(), luns: Vec::new(), problem: Some(problem) };
    let here = || -> anyhow::Result<Option<Session>> {
        let sessions = locate::sessions_to_target(run.host, run.config)?;
        let is_at = |session: &Session| session.is_at_portal_of(&iscsi.target.iqn, portal);
        Ok(sessions.into_iter().find(|session| is_at(session) && session.is_logged_in()))
    };
    let before = here()?;
    if before.is_none() {
        if in_use {
            return Ok(nothing(
                "not asked: a LUN is in use over another session, and one more session would show it as a second disk".into(),
            ));
        }
        if let Err(error) = login::try_portal(run, &plan::single_log_in(iscsi, portal.clone()), portal)? {
            return Ok(nothing(format!("{:#}", cures::iscsi(error))));
        }
    }
    let Some(session) = here()? else {
        return Ok(nothing(
            "the session has ended at once: see the target's log and `journalctl -u iscsid`".into(),
        ));
    };
    let shown = if in_use { Shown::on(run.host, &session)? } else { asked(run.door, &session)? };
    let wanted = shown.chosen(&iscsi.lun).ok().flatten().map(|lun| lun.address);
    let used = locate::session_users(run.host, &session)?;
    let luns = shown.luns.iter().filter(|lun| lun.is_disk);
    let luns = luns.map(|lun| VisibleLun {
        number: lun.address.number(),
        address: lun.address.0,
        method: lun.address.method(),
        wwid: lun.wwid.clone(),
        size: lun.size,
        content: content(run.host, lun, &used),
        is_wanted: Some(lun.address) == wanted,
    });
    let luns = luns.collect();
    let mut problem = in_use.then(|| {
        "a LUN is in use over this session, so the target was not asked: this is what the kernel knows"
            .to_owned()
    });
    if before.is_none() {
        if let Err(error) = login::log_out(run, session.sid) {
            problem = Some(format!("{error:#}: the session stays, and `etcd-lun apply` uses or ends it"));
        }
    } else if !in_use {
        look::forget_others(run.door, &session, &shown, wanted)?;
    }
    Ok(PortalLuns { portal: portal.clone(), luns, problem })
}

/// All LUNs, as soon as the kernel has made the disks.
fn asked(door: &Door<'_>, session: &Session) -> anyhow::Result<Shown> {
    let host = door.host;
    door.perform(&Request::Scan { session: session.sid }).context("asking the target for its LUNs")?;
    let deadline = Instant::now() + DISKS;
    loop {
        let shown = Shown::on(host, session)?;
        let mut is_ready = true;
        for lun in shown.luns.iter().filter(|lun| lun.is_disk) {
            is_ready &= match &lun.disk {
                Some(disk) => locate::is_settled(host, disk)?,
                None => false,
            };
        }
        if is_ready || Instant::now() >= deadline {
            return Ok(shown);
        }
        host.pause(Duration::from_millis(200)).context("waiting for the disks")?;
    }
}

fn content(host: &Host, lun: &ShownLun, used: &[String]) -> String {
    let Some(disk) = &lun.disk else { return "not read: the kernel has made no disk of it".into() };
    if used.contains(disk) {
        return format!("in use on this node as {disk}");
    }
    match block::probe(host, disk, None) {
        Ok(block::Content::Blank) => "blank".into(),
        Ok(block::Content::Xfs(superblock)) => {
            // A terminal would obey what somebody wrote there.
            let label = superblock.label.trim().escape_debug().to_string();
            let label = if label.is_empty() { "no label".to_owned() } else { format!("label {label}") };
            format!("XFS, {label}, UUID {}", superblock.uuid)
        }
        Ok(block::Content::XfsUnfinished { uuid }) => format!("an unfinished XFS, UUID {uuid}"),
        Ok(block::Content::Foreign { found }) => found,
        Err(error) => format!("cannot be read: {error}"),
    }
}

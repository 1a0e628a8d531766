//! Giving up an unreachable target at shutdown. Otherwise the reboot would wait for it as long as etcd does: an hour.

use anyhow::Context as _;
use config::{Config, Iscsi};
use hands::{Door, Request};
use host::block;

/// Seconds, for a target that becomes unreachable during the shutdown. Writing back at an unmount takes less than this.
const AT_SHUTDOWN: u32 = 15;

/// Limits how long the kernel waits for the LUN while the system shuts down. Returns a line for each session to the
/// target; none if the system isn't shutting down, and then nothing is done.
///
/// A connected session gets a short replacement timeout. The timeout of a session that has lost its connection runs
/// already and can't be changed (kernel `drivers/scsi/scsi_transport_iscsi.c`). There the kernel removes the LUN's
/// disk, so that pending writes fail at once (`drivers/scsi/scsi_sysfs.c`, `__scsi_remove_device`) and XFS shuts down.
/// Nothing is lost: what etcd has acknowledged is on the LUN, and the next mount replays the log. The session is not
/// logged out.
///
/// A multipath map keeps I/O for as long when no path works, however soon its paths fail. It gets to fail it instead. Its
/// disks are not removed: multipathd would give the map a new table, which queues again.
///
/// Takes no lock, because the run that holds it may be waiting for the target.
pub fn let_go(door: &Door<'_>, config: &Config) -> anyhow::Result<Option<Vec<String>>> {
    let host = door.host;
    if !door.is_stopping()? {
        return Ok(None);
    }
    let mut done = Vec::new();
    // A local or cloud disk has no target.
    let Some(Iscsi { lun, .. }) = config.backing.iscsi() else { return Ok(Some(done)) };
    let mut map = None;
    for session in &locate::sessions_to_target(host, config).context("looking for sessions")? {
        let sid = session.sid;
        let shorter = Request::SetTimeout { session: sid, seconds: AT_SHUTDOWN };
        // If the session loses its connection now, the kernel refuses the new timeout, and the disk is removed instead.
        let set = session.is_logged_in() && door.perform(&shorter).is_ok();
        if set {
            done.push(format!(
                "session {sid} waits for its target no longer than {AT_SHUTDOWN}s from now on"
            ));
        }
        let Some(disk) = locate::disk_of(host, session, lun)? else { continue };
        let over = block::disk(host, &disk)?.and_then(|disk| block::multipath_of(&disk).cloned());
        if over.is_some() {
            map = over;
        } else if !set {
            door.perform(&Request::Remove { disk: disk.clone() })
                .with_context(|| format!("removing {disk} from the kernel"))?;
            done.push(format!(
                "session {sid} is {}: {disk} is removed, and its pending I/O fails",
                session.state
            ));
        }
    }
    if let Some(map) = map {
        door.perform(&Request::StopQueueing { map: map.name.clone() })?;
        done.push(format!("{} fails I/O while no path works", map.name));
    }
    Ok(Some(done))
}

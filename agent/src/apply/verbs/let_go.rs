//! Shutting down without the target: what waits for it must end, or the reboot waits as long as etcd was to.

use crate::{
    config::{Config, Iscsi},
    host::{Host, block, iscsi, systemd},
    observe,
    terms::Span,
};
use anyhow::Context as _;
use std::time::Duration;

/// For a target that goes while the system shuts down. What writes back at an unmount takes less.
const AT_SHUTDOWN: Span = Span(Duration::from_secs(15));

/// Bounds how long the LUN is waited for, when the system is on its way down; does nothing when it isn't. What was done,
/// a line for each session to the target; none when it isn't going down.
///
/// A session that is connected gets a short time-out. Of one that isn't the clock runs already, and can't be set anew
/// (kernel `drivers/scsi/scsi_transport_iscsi.c`): there the kernel is told to remove the LUN's disk, so that what waits
/// for it fails at once (`drivers/scsi/scsi_sysfs.c`, `__scsi_remove_device`) and XFS shuts down. Nothing is lost by it:
/// what etcd has acknowledged is on the LUN, and the next mount replays the log. The session itself is left alone.
///
/// Takes no lock: whoever has it may be waiting for the target.
pub fn let_go(host: &Host, config: &Config) -> anyhow::Result<Option<Vec<String>>> {
    if !systemd::is_stopping(host)? {
        return Ok(None);
    }
    let mut done = Vec::new();
    // A disk of the machine's own has no target to be waited for.
    let Some(Iscsi { lun, .. }) = config.backing.iscsi() else { return Ok(Some(done)) };
    for session in &observe::ours(host, config).context("looking for sessions")? {
        let sid = session.sid;
        // It may lose its connection this very moment: then the kernel refuses, and the disk goes.
        let set = session.is_logged_in() && iscsi::set_recovery_timeout(host, sid, AT_SHUTDOWN.0).is_ok();
        if set {
            done.push(format!("session {sid} waits for its target no longer than {AT_SHUTDOWN} from now on"));
        } else if let Some(disk) = observe::disk_of(host, session, *lun)? {
            block::remove(host, &disk).with_context(|| format!("having the kernel remove {disk}"))?;
            done.push(format!(
                "session {sid} is {}: {disk} is removed, and what waits for it fails",
                session.state
            ));
        }
    }
    Ok(Some(done))
}

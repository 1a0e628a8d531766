//! Why a step failed: an I/O error by itself names neither the target nor what to do.

use super::context::Run;
use config::Backing;
use hands::Explained;
use host::{block, exec::one_line, kmsg};
use plan::Refusal;
use std::io;
use terms::Session;

/// Adds the cause to the error, if it can be determined. A refusal names its cause already.
pub(super) fn beside(run: &Run<'_>, error: anyhow::Error, since: kmsg::Mark) -> anyhow::Error {
    if error.is::<Refusal>() || run.host.interrupt.is_requested() {
        return error;
    }
    match of_failure(run, since).or_else(|| no_room(&error)) {
        Some(cause) => Explained::new(error, cause).into(),
        None => error,
    }
}

/// Returns the cure where a filesystem of the node is full.
fn no_room(error: &anyhow::Error) -> Option<String> {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    let is_full = causes.any(|error| error.kind() == io::ErrorKind::StorageFull);
    is_full.then(|| "that filesystem is full: make room there, then run this again".into())
}

/// Returns what happened to the session and the LUN since then, and the cure; none if both are in order.
fn of_failure(run: &Run<'_>, since: kmsg::Mark) -> Option<String> {
    let place = run.config.backing.place();
    let sessions = locate::sessions_to_target(run.host, run.config).ok()?;
    if run.config.backing.iscsi().is_some() {
        // A failed login or scan has its own message.
        let first = sessions.first()?;
        if !sessions.iter().any(Session::is_logged_in) {
            let at = first.portal.as_ref().map(|portal| format!(" at {portal}")).unwrap_or_default();
            return Some(format!(
                "the session to {}{at} is not connected ({}): see that the target answers this node, then run this again",
                first.target, first.state
            ));
        }
    }
    // The kernel caches what it read at login.
    run.rescan_lun().ok()?;
    let disks = locate::disks(run.host, run.config).ok()?;
    let is_read_only =
        |name: &String| matches!(block::disk(run.host, name), Ok(Some(disk)) if disk.read_only);
    if let Some(disk) = disks.iter().find(|disk| is_read_only(disk)) {
        return Some(match &run.config.backing {
            Backing::Iscsi(_) => format!(
                "{place} ({disk}) is read-only now: allow this initiator to write it at the target, then run this again"
            ),
            Backing::Device(_) => format!(
                "{place} ({disk}) is read-only now: allow this machine to write it where the disk comes from, then run this again"
            ),
        });
    }
    let sids: Vec<_> = sessions.iter().map(|session| session.sid).collect();
    let errors = kmsg::errors_of(&since.messages().ok()?, &disks, &[], &sids);
    let said = one_line(errors.first()?);
    if kmsg::is_reservation_conflict(&said) {
        return Some(format!(
            "the kernel says `{said}`: another computer, or an earlier session of this node, \
             holds a SCSI reservation on {place}; find out whose it is \
             (`sg_persist --in --read-reservation`), release it at the target, then run this again"
        ));
    }
    // The LUN answers, and XFS does not like what is there. The kernel's own advice may follow, and is wrong for an only copy.
    if errors.iter().all(|error| error.starts_with("XFS (") && !error.contains("I/O error")) {
        return Some(
            "the filesystem may be damaged: do not run xfs_repair on the LUN, see `etcd-lun explain mount-failed`".into(),
        );
    }
    Some(match &run.config.backing {
        Backing::Iscsi(_) => format!(
            "the kernel says `{said}`: check {place} at the target (its log, the free space of its pool) and the network to it, \
             then run this again"
        ),
        Backing::Device(_) => {
            format!("the kernel says `{said}`: check {place} where the disk comes from, then run this again")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_full_filesystem_has_a_cure_wherever_it_is_in_the_chain() {
        let of = |kind: io::ErrorKind| {
            no_room(&Err::<(), _>(io::Error::new(kind, "/var/lib/x")).context("writing").unwrap_err())
        };
        assert!(of(io::ErrorKind::StorageFull).unwrap().contains("make room"));
        assert_eq!(of(io::ErrorKind::ReadOnlyFilesystem), None);
    }
}

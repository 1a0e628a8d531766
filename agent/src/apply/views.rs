//! Mounts of the LUN in other mount namespaces than PID 1's. A debug pod that was opened while the LUN was mounted has such a
//! mount, and an unmount on the node does not reach it. The preflight refuses while there is one; this is for a pod that was
//! opened after it.

use crate::host::{Host, mountinfo};

/// Unmounts a filesystem in the mount namespaces that keep it after PID 1 has unmounted it: not in PID 1's own, where a
/// person may have mounted it a second time, and not in this process's. The kernel refuses that where a process uses it (`EBUSY`). Returns what is left: which process, where, and why.
///
/// The data was proven to be on the local disk, so nobody needs the LUN. The caller has checked that nobody has anything
/// open on it.
pub fn unmount_elsewhere(host: &Host, device: (u32, u32)) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for holder in mountinfo::private_holders(host, device)? {
        match mountinfo::unmount_in_namespace_of(host, holder.pid, device) {
            Ok(places) => places.iter().for_each(|place| {
                tracing::info!(
                    "unmounted the LUN at {place} in the mount namespace of {} (pid {})",
                    holder.comm,
                    holder.pid
                );
            }),
            Err(why) => left.push(format!("{} (pid {}): {why}", holder.comm, holder.pid)),
        }
    }
    Ok(left)
}

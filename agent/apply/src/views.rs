//! Mounts of the LUN in other mount namespaces than PID 1's. A pod has such a mount that was started while the LUN was mounted and
//! sees the node's `/` without propagation, as a debug pod and many agents do. An unmount on the node does not reach it, and
//! the next pod of a DaemonSet has it again. So it is unmounted there, where no process uses it.

use host::{
    Host,
    mountinfo::{self, Holder},
};

/// Unmounts a filesystem in the mount namespaces that keep it after PID 1 has unmounted it: not in PID 1's own, where a
/// person may have mounted it a second time, and not in this process's. The kernel refuses that where a process uses it (`EBUSY`). Returns what is left: which process, where, and why.
///
/// The data was proven to be on the local disk, so nobody needs the LUN. The caller has checked that nobody has anything
/// open on it.
pub fn unmount_elsewhere(host: &Host, device: (u32, u32)) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for holder in mountinfo::private_holders(host, device)? {
        if let Err(why) = unmount_at(host, &holder, device) {
            left.push(format!("{} (pid {}): {why}", holder.comm, holder.pid));
        }
    }
    Ok(left)
}

/// Unmounts a filesystem in the mount namespace of one process, unless some process uses it there (`EBUSY`). Says where, for a
/// person; the journal has it too.
pub fn unmount_at(host: &Host, holder: &Holder, device: (u32, u32)) -> std::io::Result<Vec<String>> {
    let mut said = Vec::new();
    for place in mountinfo::unmount_in_namespace_of(host, holder.pid, device)? {
        let line = format!(
            "unmounted the LUN at {place} in the mount namespace of {} (pid {})",
            holder.comm, holder.pid
        );
        tracing::info!("{line}");
        said.push(line);
    }
    Ok(said)
}

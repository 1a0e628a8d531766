//! Who uses the disks of a session.

use std::io;

use host::{
    Host, block,
    mountinfo::{self, Everywhere},
};
use terms::Session;

/// The disks of a session that are in use: mounted in any mount namespace, swapped on, or held by another device.
pub fn session_users(host: &Host, session: &Session) -> io::Result<Vec<String>> {
    users_of(host, session, &Everywhere::new(host))
}

/// Uses mounts that were read before.
pub fn users_of(host: &Host, session: &Session, mounts: &Everywhere<'_>) -> io::Result<Vec<String>> {
    let mut used = Vec::new();
    for name in block::disks_of_host(host, session.host_no)? {
        let Some(disk) = block::disk(host, &name)? else { continue };
        let parts = disk.partitions.iter().filter_map(|part| block::disk(host, part).transpose());
        for part in std::iter::once(Ok(disk.clone())).chain(parts) {
            let part = part?;
            let mounted = !mounts.holders(part.major, part.minor)?.is_empty();
            if mounted || !part.holders.is_empty() || is_swap(host, &part.name)? {
                used.push(name.clone());
                break;
            }
        }
    }
    Ok(used)
}

/// True if the kernel swaps on this disk.
pub fn is_swap(host: &Host, name: &str) -> io::Result<bool> {
    let node = format!("/dev/{name}");
    Ok(mountinfo::swaps(host)?.contains(&node))
}

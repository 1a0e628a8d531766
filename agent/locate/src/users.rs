//! Who uses the disks of a session.

use std::io;

use host::{
    Host,
    block::{self, Disk},
    mountinfo::{self, Everywhere},
};
use terms::Session;

/// The disks of a session that are in use: mounted in any mount namespace, swapped on, or held by another device. multipathd makes
/// its map by itself: that holds a path only where somebody uses the map.
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
            if is_used(host, &part, mounts)? {
                used.push(name.clone());
                break;
            }
        }
    }
    Ok(used)
}

fn is_used(host: &Host, disk: &Disk, mounts: &Everywhere<'_>) -> io::Result<bool> {
    if !mounts.holders(disk.major, disk.minor)?.is_empty() || is_swap(host, &disk.name)? {
        return Ok(true);
    }
    match (disk.holders.as_slice(), block::multipath_of(disk)) {
        ([], _) => Ok(false),
        ([_], Some(map)) => match block::disk(host, &map.name)? {
            Some(map) if map.holders.is_empty() => is_used(host, &map, mounts),
            Some(_) => Ok(true),
            None => Ok(false),
        },
        _ => Ok(true),
    }
}

/// True if the kernel swaps on this disk.
pub fn is_swap(host: &Host, name: &str) -> io::Result<bool> {
    let node = format!("/dev/{name}");
    Ok(mountinfo::swaps(host)?.contains(&node))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test makes a machine of files")]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::NoTools};

    const TARGET: &str = "iqn.2024-02.com.example:etcd";

    /// multipathd makes a map over every path. It is a use of the session where somebody uses the map.
    #[test]
    fn a_map_that_nobody_uses_holds_no_session() {
        let files = Files::new("idle-map");
        files.session(1, TARGET, "etcd-lun");
        files.lun(1, 1, "naa.60014050000000000000000000000001", "sda");
        files.disk("sda", "8:0", 1 << 21);
        files.disk("dm-0", "253:0", 1 << 21);
        files.process(1, "90 22 8:9 / /mnt rw - xfs /dev/sdj rw\n");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        let used = || {
            let all = host::iscsi::sessions(&host).unwrap();
            !session_users(&host, &all[0]).unwrap().is_empty()
        };
        assert!(!used());
        files.dir("sys/class/block/sda/holders/dm-0");
        files.put("sys/class/block/dm-0/dm/uuid", "mpath-36001405");
        assert!(!used(), "the map is idle");
        files.dir("sys/class/block/dm-0/holders/dm-1");
        assert!(used(), "somebody has put another device on it");
        std::fs::remove_dir_all(files.0.join("sys/class/block/dm-0/holders")).unwrap();
        files.process(1, "90 22 253:0 / /var/lib/etcd rw - xfs /dev/dm-0 rw\n");
        assert!(used(), "it is mounted");
        files.process(1, "90 22 8:9 / /mnt rw - xfs /dev/sdj rw\n");
        assert!(!used());
        files.dir("sys/class/block/sda/holders/dm-2");
        assert!(used(), "another device holds the path itself");
    }
}

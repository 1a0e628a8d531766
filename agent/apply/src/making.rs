//! Making the filesystem on a blank LUN, and clearing one that an interrupted mkfs left: this process, or for the confined service
//! its [`hands`](hands). The service itself writes to no disk.

use hands::{Request, ask, is_confined};
use host::{Host, block, xfs};
use std::time::Duration;
use terms::{FsLabel, FsUuid};

/// mkfs.xfs zeroes the log, which takes minutes on a slow thin LUN.
const FORMAT_LIMIT: Duration = Duration::from_secs(900);

/// Makes an XFS on a disk (kernel name): see [`xfs::make_filesystem`].
pub fn filesystem(host: &Host, disk: &str, uuid: &FsUuid, label: &FsLabel) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::Format { disk: disk.into(), uuid: *uuid, label: label.clone() }),
        false => filesystem_here(host, disk, uuid, label),
    }
}

/// The same by this process.
pub fn filesystem_here(host: &Host, disk: &str, uuid: &FsUuid, label: &FsLabel) -> anyhow::Result<()> {
    Ok(xfs::make_filesystem(host, &block::node(disk)?, uuid, label, FORMAT_LIMIT)?)
}

/// Clears what an interrupted mkfs left on a disk (kernel name): see [`block::clear_unfinished`].
pub fn clear_unfinished(host: &Host, disk: &str, uuid: &FsUuid) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::ClearUnfinished { disk: disk.into(), uuid: *uuid }),
        false => Ok(block::clear_unfinished(host, disk, uuid)?),
    }
}

//! Is it the right LUN, and free? Nothing here looks at what it holds.

use super::{Refusal, Sight, require};
use crate::{
    config::Backing,
    node::{Content, Fact, Lun, Multipath},
    terms::{Bytes, Wwid},
};

/// The LUN's WWID, when the LUN is the one that is wanted, whole, writable and free.
///
/// A shown LUN number proves nothing: numbers are reused, and a stale mapping shows somebody
/// else's volume (OSSA-2023-003). Only the WWID does.
pub(super) fn usable<'a>(sight: &Sight<'_>, lun: &'a Lun) -> Result<&'a Wwid, Refusal> {
    let place = || sight.config.backing.place();
    let whence = sight.config.backing.whence();
    match lun.multipath {
        Multipath::Mapped => {}
        Multipath::Claimed => {
            return Err(Refusal::MultipathPending { lun: place(), paths: lun.paths.join(", ") });
        }
        Multipath::Unclaimed if lun.paths.len() > 1 => {
            return Err(Refusal::SeveralPaths { lun: place(), paths: lun.paths.join(", ") });
        }
        Multipath::Unclaimed => {}
    }
    let wwid = require("the LUN's WWID", &lun.wwid)?;
    let expected =
        [("the config wants", sight.config.node.wwid.as_ref()), ("the record names", recorded(sight))];
    for (source_of_wish, wanted) in expected {
        if let Some(wanted) = wanted
            && wanted != wwid
        {
            return Err(wrong(sight, wwid, source_of_wish, wanted));
        }
    }
    if lun.read_only {
        return Err(Refusal::ReadOnly { wwid: wwid.clone(), whence });
    }
    if !lun.holders.is_empty() {
        return Err(Refusal::Held { wwid: wwid.clone(), holders: lun.holders.join(", ") });
    }
    if let Some(user) = require("who uses the LUN", &lun.users)?.first() {
        return Err(Refusal::InUse { wwid: wwid.clone(), user: user.clone() });
    }
    if !lun.partitions.is_empty() {
        // The probe of the medium has the better words where it has any: a boot sector passes for a table.
        let what = match &lun.content {
            Fact::Known(Content::Foreign { found }) => found.as_str(),
            Fact::Known(_) | Fact::Unknown(_) => "a partition table",
        };
        let found = format!("{what} (partitions {})", lun.partitions.join(", "));
        return Err(Refusal::ForeignContent { wwid: wwid.clone(), found });
    }
    if lun.size < sight.config.lun.min_size {
        let (found, wanted) = (lun.size, sight.config.lun.min_size);
        return Err(Refusal::TooSmall { wwid: wwid.clone(), found, wanted, whence });
    }
    Ok(wwid)
}

/// What is there is another than `wanted`.
pub(super) fn wrong(sight: &Sight<'_>, found: &Wwid, source_of_wish: &'static str, wanted: &Wwid) -> Refusal {
    let (found, wanted) = (found.clone(), wanted.clone());
    match &sight.config.backing {
        Backing::Iscsi(iscsi) => Refusal::WrongLun { lun: iscsi.lun.0, found, source_of_wish, wanted },
        Backing::Device(device) => {
            Refusal::WrongDisk { path: device.path.to_string(), found, source_of_wish, wanted }
        }
    }
}

/// What etcd needs beside its data, on either disk: XFS's own log and metadata, and etcd's next WAL file and snapshot
/// (64 MiB each at least, `server/storage/wal/wal.go`).
pub(super) const ROOM: u64 = 256 << 20;

/// The LUN must hold the data with some room.
pub(super) fn holds(sight: &Sight<'_>, lun: &Lun, wwid: &Wwid, data: Option<Bytes>) -> Result<(), Refusal> {
    match data {
        Some(data) if lun.size.0 < data.0.saturating_add(ROOM) => {
            let wanted = Bytes(data.0.saturating_add(ROOM));
            Err(Refusal::NoRoom {
                wwid: wwid.clone(),
                found: lun.size,
                wanted,
                whence: sight.config.backing.whence(),
            })
        }
        Some(_) | None => Ok(()),
    }
}

/// A mount by label must not be able to lead elsewhere.
pub(super) fn label_is_unique(sight: &Sight<'_>, lun: &Lun) -> Result<(), Refusal> {
    let others = require("which devices carry the label", &lun.same_label)?;
    if others.is_empty() {
        return Ok(());
    }
    Err(Refusal::SameLabel { devices: others.join(", "), label: sight.config.lun.label.to_string() })
}

/// The record binds to a LUN only once the data is there; before, the config may name another.
fn recorded<'a>(sight: &Sight<'a>) -> Option<&'a Wwid> {
    use crate::node::authority::Authority;
    sight.record.filter(|record| record.authority == Authority::Lun).map(|record| &record.wwid)
}

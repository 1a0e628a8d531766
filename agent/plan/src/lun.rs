//! Whether this is the right LUN, and free. What it holds is not looked at here.

use super::{
    input::{PlanInput, require},
    recorded::order_of,
    refusal::Refusal,
};
use config::Backing;
use node::{
    Content, Fact, Lun, LunView, Multipath, Order,
    authority::{Authority, Stamp},
};
use terms::{Bytes, Wwid};

/// The way out, where the LUN holds data that cannot be this node's.
pub(super) const CLEAR: &str = "If nobody needs that, clear the whole LUN by hand (`blkdiscard -z`)";

/// The LUN's WWID. Refuses unless the LUN is the wanted one, writable and not in use.
///
/// A LUN number proves nothing: targets reuse numbers, and a stale mapping leads to another volume (OSSA-2023-003). Only the
/// WWID identifies the LUN.
pub(super) fn usable_wwid<'a>(input: &PlanInput<'_>, lun: &'a Lun) -> Result<&'a Wwid, Refusal> {
    usable(input, lun, recorded_wwid(input))
}

/// The same, where the record is to name `recorded`, or nothing.
pub(super) fn usable<'a>(
    input: &PlanInput<'_>,
    lun: &'a Lun,
    recorded: Option<&Wwid>,
) -> Result<&'a Wwid, Refusal> {
    let place = || input.config.backing.place();
    let where_to_fix = input.config.backing.where_to_fix();
    match lun.multipath {
        Multipath::Mapped => {}
        Multipath::Claimed => {
            return Err(Refusal::MultipathPending { lun: place(), paths: lun.paths.join(", ") });
        }
        Multipath::Unclaimed if lun.paths.len() > 1 || wants_map(input) => {
            return Err(Refusal::SeveralPaths { lun: place(), paths: lun.paths.join(", ") });
        }
        Multipath::Unclaimed => {}
    }
    let wwid = require("the LUN's WWID", &lun.wwid)?;
    let expected = [(FROM_CONFIG, input.config.node.wwid.as_ref()), (FROM_RECORD, recorded)];
    for (source_of_wish, wanted) in expected {
        if let Some(wanted) = wanted
            && wanted != wwid
        {
            return Err(wrong_lun(input, lun, wwid, source_of_wish, wanted));
        }
    }
    if lun.read_only {
        return Err(Refusal::ReadOnly { wwid: wwid.clone(), where_to_fix });
    }
    if !lun.holders.is_empty() {
        return Err(Refusal::Held { wwid: wwid.clone(), holders: lun.holders.join(", ") });
    }
    if let Some(user) = require("who uses the LUN", &lun.users)?.first() {
        return Err(Refusal::InUse { wwid: wwid.clone(), user: user.clone() });
    }
    if !lun.partitions.is_empty() {
        // A boot sector can look like a partition table. If the probe of the content found something, it says so better.
        let what = match &lun.content {
            Fact::Known(Content::Foreign { found }) => found.as_str(),
            Fact::Known(_) | Fact::Unknown(_) => "a partition table",
        };
        let found = format!("{what} (partitions {})", lun.partitions.join(", "));
        return Err(Refusal::ForeignContent { wwid: wwid.clone(), found, cure: CLEAR });
    }
    Ok(wwid)
}

/// Refuses to move data to a LUN that would get no map, though the config wants one.
pub(super) fn check_multipathd(input: &PlanInput<'_>) -> Result<(), Refusal> {
    let runs = &input.node.initiator.multipathd_active;
    if wants_map(input) && !*require("whether multipathd runs", runs)? {
        return Err(Refusal::NoMultipathd);
    }
    Ok(())
}

/// Refuses a LUN that must have a multipath map and has none. Once the data is there, etcd on one path is better than
/// no etcd, so a boot mounts the LUN all the same, and `health` reports the missing map.
fn wants_map(input: &PlanInput<'_>) -> bool {
    let is_wanted = input.config.backing.iscsi().is_some_and(|iscsi| iscsi.target.multipath);
    is_wanted && !input.record.is_some_and(|record| record.authority == Authority::Lun)
}

/// Who asks for a WWID, in a refusal.
const FROM_CONFIG: &str = "the config wants";
pub(super) const FROM_RECORD: &str = "the record names";

/// The refusal of a LUN that is not `wanted`.
pub(super) fn wrong_lun(
    input: &PlanInput<'_>,
    lun: &Lun,
    found: &Wwid,
    source_of_wish: &'static str,
    wanted: &Wwid,
) -> Refusal {
    let cure = match &input.config.backing {
        _ if source_of_wish == FROM_RECORD && is_renamed(input, lun) => {
            "it holds the very filesystem of the record. If the array has given the LUN this WWID, or its blocks were copied here, see that no computer uses the other one, and run `etcd-lun claim` (after a reboot, if the LUN is mounted)"
        }
        Backing::Iscsi(_) => "correct the mapping at the target, or `node.lun` and `node.wwid` in the config",
        Backing::Device(_) => {
            "attach that disk so that the link leads to it, or correct `device.path` and `node.wwid` in the config"
        }
    };
    let (place, found, wanted) = (input.config.backing.place(), found.clone(), wanted.clone());
    Refusal::WrongLun { lun: place, found, source_of_wish, wanted, cure }
}

/// True if the LUN has this node's filesystem under another WWID. UUID, owner and use say more about a LUN than its WWID: an array
/// may change that, and blocks may be copied to another array.
pub(super) fn is_renamed(input: &PlanInput<'_>, lun: &Lun) -> bool {
    let (Some(Content::Xfs { uuid, stamp, .. }), Some(record)) = (lun.content.known(), input.record) else {
        return false;
    };
    let is_ours =
        |stamp: &Stamp| matches!(order_of(input, Some(*uuid), stamp), Order::Same { .. } | Order::Older);
    *uuid == record.uuid
        && lun.wwid.known().is_some_and(|wwid| *wwid != record.wwid)
        && matches!(stamp.known(), Some(Some(stamp)) if is_ours(stamp))
}

/// Space that either disk needs beside etcd's data: XFS's own log and metadata, and etcd's next WAL file and snapshot
/// (64 MiB each at least, `server/storage/wal/wal.go`).
pub(super) const SPARE_SPACE: u64 = 256 << 20;

/// Space beside two databases at the quota, of which a defragmentation writes the second: etcd's log (its last 100,000 writes,
/// and five files of 64 MiB: `--snapshot-count` and `--max-wals` of etcd 3.5), its snapshots, and XFS's own.
const ROOM: u64 = 1 << 30;

/// Warns of a LUN that a defragmentation can fill before etcd's quota stops writes.
pub(super) fn warn_of_quota(input: &PlanInput<'_>) -> Option<String> {
    let (Some(LunView::Seen(lun)), Some(quota)) = (input.node.lun.known(), input.node.quota.known()) else {
        return None;
    };
    let wanted = Bytes(quota.0.saturating_mul(2).saturating_add(ROOM));
    (lun.size < wanted).then(|| {
        format!(
            "the LUN has {}, and etcd's quota of {quota} needs {wanted}: a defragmentation of a larger database fills the LUN, and etcd ends; grow it {}",
            lun.size,
            input.config.backing.where_to_fix()
        )
    })
}

/// Refuses a LUN that is smaller than it must be, before data is moved to it: it cannot hold etcd's quota or the data, with the
/// spare space. A LUN that holds the data is used all the same, because etcd stays down without it.
pub(super) fn check_capacity(
    input: &PlanInput<'_>,
    lun: &Lun,
    wwid: &Wwid,
    data: Option<Bytes>,
) -> Result<(), Refusal> {
    let (found, where_to_fix) = (lun.size, input.config.backing.where_to_fix());
    let too_small = |wanted, asks: String, instead| {
        Err(Refusal::TooSmall { wwid: wwid.clone(), found, wanted, asks, where_to_fix, instead })
    };
    if found < input.config.lun.min_size {
        return too_small(input.config.lun.min_size, "the config wants".into(), "`lun.min_size`");
    }
    if let Some(quota) = input.node.quota.known()
        && found.0 < quota.0.saturating_add(SPARE_SPACE)
    {
        let asks = format!("etcd's quota of {quota}, its log and XFS need");
        return too_small(Bytes(quota.0.saturating_add(SPARE_SPACE)), asks, "etcd's `--quota-backend-bytes`");
    }
    match data {
        Some(data) if lun.size.0 < data.0.saturating_add(SPARE_SPACE) => {
            let wanted = Bytes(data.0.saturating_add(SPARE_SPACE));
            Err(Refusal::NoRoom { wwid: wwid.clone(), found, wanted, where_to_fix })
        }
        Some(_) | None => Ok(()),
    }
}

/// The WWID that the record names. The record binds the node to a LUN only once the data is there; before that the config may
/// name another LUN.
pub(super) fn recorded_wwid<'a>(input: &PlanInput<'a>) -> Option<&'a Wwid> {
    input.record.filter(|record| record.authority == Authority::Lun).map(|record| &record.wwid)
}

impl Refusal {
    /// True if it depends on what the kernel read from the LUN at login and keeps: identity, size, and whether it is read-only
    /// (`drivers/scsi/sd.c`, `sd_revalidate_disk`); or on what cannot be read, such as a disk without its label.
    pub fn depends_on_login(&self) -> bool {
        matches!(
            self,
            Self::Unknown { .. }
                | Self::WrongLun { .. }
                | Self::ReadOnly { .. }
                | Self::TooSmall { .. }
                | Self::NoRoom { .. }
                | Self::Shrunk { .. }
        )
    }
}

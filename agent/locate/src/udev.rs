//! What udev and multipath have made of a disk.

use std::io;

use host::{
    Host,
    block::{self, Disk},
    udev::UdevRecord,
};
use terms::FsLabel;

/// True if udev has finished with a disk, and with its multipath map if it belongs to one.
pub fn is_settled(host: &Host, name: &str) -> io::Result<bool> {
    let Some(disk) = block::disk(host, name)? else { return Ok(false) };
    if disk.udev.as_ref().is_none_or(UdevRecord::is_in_work) {
        return Ok(false);
    }
    match block::multipath_of(&disk) {
        Some(map) => Ok(block::disk(host, &map.name)?.is_some_and(|map| is_ready(&map))),
        None => Ok(!is_claimed(&disk)),
    }
}

/// True if a multipath map is over the disk.
pub fn has_map(host: &Host, name: &str) -> io::Result<bool> {
    Ok(block::disk(host, name)?.is_some_and(|disk| block::multipath_of(&disk).is_some()))
}

/// True if udev has processed a map that has its paths. A map is made in several steps. At the first event it has no paths
/// yet, and udev sets a flag that stops all other rules, also the one that labels it (lvm2, 10-dm.rules).
fn is_ready(map: &Disk) -> bool {
    let is_set = |name, value: &str| {
        map.udev.as_ref().and_then(|udev| udev.properties.get(name)).is_some_and(|found| found == value)
    };
    map.udev.as_ref().is_some_and(|udev| !udev.is_in_work())
        && !is_set("DM_UDEV_DISABLE_OTHER_RULES_FLAG", "1")
        && !is_set("DM_SUSPENDED", "1")
}

/// True if multipath uses the disk. udev marks it before the map exists (multipath-tools `libmultipath/uevent.h`,
/// 11-dm-mpath.rules).
pub fn is_claimed(disk: &Disk) -> bool {
    let property = disk.udev.as_ref().and_then(|udev| udev.properties.get("DM_MULTIPATH_DEVICE_PATH"));
    property.is_some_and(|value| value == "1")
}

/// True if udev has finished with the device, and has seen a filesystem with this label on it.
pub fn carries_label(host: &Host, device: &str, label: &FsLabel) -> io::Result<bool> {
    let udev = block::disk(host, device)?.and_then(|disk| disk.udev);
    Ok(udev.is_some_and(|udev| {
        !udev.is_in_work() && udev.properties.get("ID_FS_LABEL").is_some_and(|text| text == label.as_str())
    }))
}

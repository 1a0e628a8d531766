//! Disks: what the kernel reports about them ([`disk`]) and what is on them ([`content`]).
//!
//! A disk is named by its kernel name (`sdb`, `dm-3`), as in `/sys/class/block`. That name may change at any time: the
//! disk's identity is its [`Wwid`].

mod activity;
mod blkid;
pub mod content;
mod luns;
mod medium;
mod name;
mod places;
#[cfg(test)]
mod tests;
mod xfs_root;

pub use activity::is_silent;
pub use content::{ClearError, Content, clear_unfinished, filesystem_at, open_xfs, probe, xfs_on};
pub use luns::{ShownLun, drop_lun, luns_of};
pub use xfs_root::{InPlace, in_place, trusted_attribute_of_root};

use super::{
    Host,
    udev::{self, UdevRecord},
};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};
use terms::{AbsPath, Bytes, Wwid};

/// The facts that the kernel and udev have about a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Kernel name.
    pub name: String,
    /// Device number, major.
    pub major: u32,
    /// Device number, minor.
    pub minor: u32,
    /// World wide identifier, or the serial number of a virtio disk; none if the disk has none that [`Wwid`] accepts.
    pub wwid: Option<Wwid>,
    /// Serial number: VPD page 0x80; virtio and NVMe have an attribute for it.
    pub serial: Option<String>,
    /// Size.
    pub size: Bytes,
    /// True if the kernel refuses writes.
    pub read_only: bool,
    /// Devices that are stacked upon it.
    pub holders: Vec<Holder>,
    /// Kernel names of its partitions.
    pub partitions: Vec<String>,
    /// `write back` or `write through`; a partition has none.
    pub write_cache: Option<String>,
    /// True if the disk accepts writes with FUA. A partition doesn't report it.
    pub fua: Option<bool>,
    /// Vendor of a SCSI disk.
    pub vendor: Option<String>,
    /// Model of a SCSI or NVMe disk.
    pub model: Option<String>,
    /// The properties that udev has found; none if udev has not applied its rules to the disk (yet): then its device
    /// node has no label of ours.
    pub udev: Option<UdevRecord>,
}

/// A device that is stacked upon a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Kernel name.
    pub name: String,
    /// UUID of a device-mapper device, such as `mpath-3600…`, `LVM-…` or `CRYPT-…`.
    pub dm_uuid: Option<String>,
    /// Name of a device-mapper device.
    pub dm_name: Option<String>,
}

/// The facts of a disk or partition; none if there is no such device.
pub fn disk(host: &Host, name: &str) -> io::Result<Option<Disk>> {
    let dir = sys_dir(name)?;
    let text = |file: &str| {
        attribute(host, &format!("{dir}/{file}")).map(|bytes| bytes.map(|bytes| printable(&bytes)))
    };
    // The disk may disappear between two reads. Then it counts as absent.
    let (Some(number), Some(sectors), Some(read_only)) = (text("dev")?, text("size")?, text("ro")?) else {
        return Ok(None);
    };
    let wrong = |file: &str, said: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{dir}/{file}: unexpected `{said}`"))
    };
    let (major, minor) = parse_device_number(&number).ok_or_else(|| wrong("dev", &number))?;
    let dm_uuid = text("dm/uuid")?;
    let wwid = match dm_uuid.as_deref().map(|uuid| uuid.strip_prefix(MULTIPATH)) {
        Some(multipath) => multipath.map(str::to_owned),
        None => name::of_scsi(host, &format!("{dir}/device"))?.or(text("wwid")?),
    };
    let sequence = text("diskseq")?;
    let own_serial = text("serial")?;
    // The serial number is the only permanent name of a virtio disk. The kernel names these disks `vd`
    // (`drivers/block/virtio_blk.c`).
    let virtio = own_serial.as_ref().filter(|serial| name.starts_with("vd") && !serial.is_empty());
    let wwid = wwid.or(virtio.map(|serial| format!("virtio.{serial}")));
    let serial = match attribute(host, &format!("{dir}/device/vpd_pg80"))? {
        Some(page) => parse_unit_serial(&page).ok_or_else(|| wrong("device/vpd_pg80", "bytes"))?,
        None => own_serial.or(text("device/serial")?),
    };
    Ok(Some(Disk {
        name: name.to_owned(),
        major,
        minor,
        wwid: wwid.and_then(|wwid| wwid.parse().ok()),
        serial,
        size: parse_sectors(&sectors).ok_or_else(|| wrong("size", &sectors))?,
        read_only: parse_flag(&read_only).ok_or_else(|| wrong("ro", &read_only))?,
        holders: holders(host, &dir)?,
        partitions: partitions(host, &dir)?,
        write_cache: text("queue/write_cache")?,
        fua: text("queue/fua")?
            .map(|fua| parse_flag(&fua).ok_or_else(|| wrong("queue/fua", &fua)))
            .transpose()?,
        vendor: text("device/vendor")?,
        model: text("device/model")?,
        udev: udev::record(host, major, minor)?.filter(|record| is_of(record, sequence.as_deref())),
    }))
}

/// False if the record is that of an earlier disk with the same number, which udev has not forgotten yet: the kernel never gives a
/// disk sequence number twice (`Documentation/ABI/stable/sysfs-block`, `diskseq`; since Linux 5.15).
fn is_of(record: &UdevRecord, sequence: Option<&str>) -> bool {
    match (record.sequence(), sequence.and_then(|text| text.parse::<u64>().ok())) {
        (Some(recorded), Some(now)) => recorded == now,
        (None, _) | (_, None) => true,
    }
}

/// The beginning of the UUID of a multipath map (multipath-tools `libmultipath/devmapper.h`, `UUID_PREFIX`).
const MULTIPATH: &str = "mpath-";

/// The multipath map, if this disk is one of its paths.
pub fn multipath_of(disk: &Disk) -> Option<&Holder> {
    disk.holders.iter().find(|holder| holder.dm_uuid.as_ref().is_some_and(|uuid| uuid.starts_with(MULTIPATH)))
}

/// Kernel names of all disks of a SCSI host. With iSCSI over TCP each session is a host of its own
/// (kernel `drivers/scsi/iscsi_tcp.c`, `iscsi_sw_tcp_session_create`).
pub fn disks_of_host(host: &Host, host_no: u32) -> io::Result<Vec<String>> {
    const DEVICES: &str = "/sys/bus/scsi/devices";
    let prefix = format!("{host_no}:");
    let mut disks = Vec::new();
    for address in host.root.list_opt(DEVICES)?.unwrap_or_default() {
        if address.starts_with(&prefix) {
            disks.extend(host.root.list_opt(format!("{DEVICES}/{address}/block"))?.unwrap_or_default());
        }
    }
    Ok(disks)
}

/// The SCSI layer's report about a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scsi {
    /// `running`, `blocked`, `transport-offline`, `offline` and others.
    pub state: String,
    /// Commands that timed out. Kernels before 6.2 don't count them.
    pub timeouts: Option<u64>,
    /// Commands that ended with an error.
    pub errors: Option<u64>,
    /// The write cache as the target reports it: `write back`, `write through` and others (kernel `drivers/scsi/sd.c`).
    pub cache_type: Option<String>,
}

/// The SCSI facts of a disk; none if there is no such disk (any more).
pub fn scsi(host: &Host, name: &str) -> io::Result<Option<Scsi>> {
    let dir = format!("{}/device", sys_dir(name)?);
    let text = |file: &str| -> io::Result<Option<String>> {
        Ok(attribute(host, &format!("{dir}/{file}"))?.map(|bytes| printable(&bytes)))
    };
    let counter = |file: &str| -> io::Result<Option<u64>> {
        let Some(text) = text(file)? else { return Ok(None) };
        let wrong =
            |_| io::Error::new(io::ErrorKind::InvalidData, format!("{dir}/{file}: unexpected `{text}`"));
        u64::from_str_radix(text.trim_start_matches("0x"), 16).map(Some).map_err(wrong)
    };
    let Some(state) = text("state")? else { return Ok(None) };
    let cache_type = match scsi_address(host, name)? {
        Some(address) => text(&format!("scsi_disk/{address}/cache_type"))?,
        None => None,
    };
    Ok(Some(Scsi { state, timeouts: counter("iotmo_cnt")?, errors: counter("ioerr_cnt")?, cache_type }))
}

/// The address of a SCSI disk, such as `2:0:0:1`; none if it is no SCSI disk.
pub fn scsi_address(host: &Host, name: &str) -> io::Result<Option<String>> {
    let dir = format!("{}/device/scsi_disk", sys_dir(name)?);
    Ok(host.root.list_opt(dir)?.unwrap_or_default().into_iter().next())
}

/// The name of a device-mapper device; none if it is none.
pub fn map_name(host: &Host, name: &str) -> io::Result<Option<String>> {
    Ok(attribute(host, &format!("{}/dm/name", sys_dir(name)?))?.map(|bytes| printable(&bytes)))
}

/// Kernel name of the disk with this number; none if there is no such disk.
pub fn of_number(host: &Host, (major, minor): (u32, u32)) -> io::Result<Option<String>> {
    let path = host.root.read_link(format!("/sys/dev/block/{major}:{minor}"))?;
    Ok(path.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())))
}

/// True if the SCSI layer sends commands to the disk, or if it is no SCSI disk.
pub fn is_running(host: &Host, name: &str) -> io::Result<bool> {
    Ok(scsi(host, name)?.is_none_or(|scsi| scsi.state == "running"))
}

/// Kernel name of the device to which a link below `/dev` leads; none if there is no such link.
pub fn led_to(host: &Host, link: &str) -> io::Result<Option<String>> {
    let path = host.root.resolve(link)?;
    Ok(path.map(|path| path.strip_prefix("/dev").unwrap_or(&path).to_string_lossy().replace('/', "!")))
}

/// Kernel names of the disks of a multipath map; none if the device is not a multipath map.
pub fn paths_of_map(host: &Host, name: &str) -> io::Result<Option<Vec<String>>> {
    let dir = sys_dir(name)?;
    let uuid = attribute(host, &format!("{dir}/dm/uuid"))?;
    if !uuid.is_some_and(|uuid| uuid.starts_with(MULTIPATH.as_bytes())) {
        return Ok(None);
    }
    host.root.list_opt(format!("{dir}/slaves"))
}

/// Tells the kernel to read the identity and size of a SCSI disk again (`device/rescan`, kernel
/// `drivers/scsi/scsi_sysfs.c`). The kernel caches them when the disk appears. NVMe and virtio disks report a change
/// themselves.
pub fn rescan(host: &Host, name: &str) -> io::Result<()> {
    if is_scsi(host, name)? {
        host.root.poke(format!("{}/device/rescan", sys_dir(name)?), "1")
    } else {
        Ok(())
    }
}

/// True for a SCSI disk.
pub fn is_scsi(host: &Host, name: &str) -> io::Result<bool> {
    Ok(attribute(host, &format!("{}/device/scsi_level", sys_dir(name)?))?.is_some())
}

/// True if nobody has the disk open exclusively: no mount in any namespace (also a lazily detached one), no swap, no
/// stacked device. `open(2)`: `O_EXCL` without `O_CREAT` on a block device fails with EBUSY if the system uses the
/// device. The disk is opened for reading only, so that udev doesn't process it again.
pub fn nobody_holds(host: &Host, name: &str) -> io::Result<bool> {
    let path = node(name)?;
    let opened =
        OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(host.root.locate(path.as_path()));
    match opened {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(error) => Err(super::root::at(path.as_path(), &error)),
    }
}

/// Reads the first block of a disk from the disk itself, past the page cache. An error says that a path to it does not work: over
/// a standby path of an array the kernel knows a LUN, and no read of it succeeds. [`io::ErrorKind::ResourceBusy`] means that another
/// computer has reserved it for itself alone.
///
/// Over a session that has lost its connection this waits until the kernel gives up (the session's replacement timeout).
pub fn try_read(host: &Host, name: &str) -> io::Result<()> {
    let path = node(name)?;
    let disk = medium::Medium::open(&host.root.locate(path.as_path()));
    let read = disk.and_then(|disk| disk.read(0, medium::BLOCK as usize));
    read.map(drop).map_err(|error| super::root::at(path.as_path(), &error))
}

/// Has the kernel remove a SCSI disk, even one in use. Pending I/O fails (`drivers/scsi/scsi_sysfs.c`). A scan attaches
/// the disk again.
pub fn remove(host: &Host, name: &str) -> io::Result<()> {
    host.root.poke(format!("/sys/class/block/{name}/device/delete"), "1")
}

/// Has the kernel announce a disk as a new one, as systemd-udev-trigger.service does at each boot, so that udev processes it again
/// (`Documentation/ABI/testing/sysfs-uevent`). For a change udev would set no label (systemd `src/udev/udev-event.c`).
pub fn announce(host: &Host, name: &str) -> io::Result<()> {
    host.root.poke(format!("{}/uevent", sys_dir(name)?), "add")
}

/// The device node of a disk, which the kernel itself makes in /dev, and no other name beside it: in the kernel's name of a disk
/// whose node is in a directory `!` stands for `/`, and udev makes links in directories. No disk that has a LUN has such a name.
pub fn node(name: &str) -> io::Result<AbsPath> {
    if name.contains('!') {
        return Err(not_a_disk(name));
    }
    sys_dir(name)?;
    format!("/dev/{name}").parse().map_err(io::Error::other)
}

fn sys_dir(name: &str) -> io::Result<String> {
    let is_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_!".contains(&byte);
    match !name.is_empty() && name.bytes().all(is_of_a_name) {
        true => Ok(format!("/sys/class/block/{name}")),
        false => Err(not_a_disk(name)),
    }
}

fn not_a_disk(name: &str) -> io::Error {
    let said = format!("`{}` is not the kernel name of a disk in /dev", name.escape_debug());
    io::Error::new(io::ErrorKind::InvalidInput, said)
}

fn holders(host: &Host, dir: &str) -> io::Result<Vec<Holder>> {
    let mut holders = Vec::new();
    for name in host.root.list_opt(format!("{dir}/holders"))?.unwrap_or_default() {
        let text = |file: &str| {
            attribute(host, &format!("/sys/class/block/{name}/dm/{file}"))
                .map(|bytes| bytes.map(|bytes| printable(&bytes)))
        };
        holders.push(Holder { dm_uuid: text("uuid")?, dm_name: text("name")?, name: name.clone() });
    }
    Ok(holders)
}

fn partitions(host: &Host, dir: &str) -> io::Result<Vec<String>> {
    let mut partitions = Vec::new();
    for name in host.root.list_opt(dir)?.unwrap_or_default() {
        if attribute(host, &format!("{dir}/{name}/partition"))?.is_some() {
            partitions.push(name);
        }
    }
    Ok(partitions)
}

/// The bytes of an attribute; none if the disk has no such attribute. Then it is absent, or the kernel answers ENXIO or
/// EINVAL (`drivers/scsi/scsi_lib.c`, `scsi_vpd_lun_id`: no page, no designator).
fn attribute(host: &Host, path: &str) -> io::Result<Option<Vec<u8>>> {
    use nix::libc::{EINVAL, ENOENT, ENOTDIR, ENXIO};
    match fs::read(host.root.locate(path)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ENOTDIR | ENXIO | EINVAL)) => Ok(None),
        Err(error) => Err(super::root::at(Path::new(path), &error)),
    }
}

/// The trimmed text. A target may return any bytes, so those that are not printable are escaped.
fn printable(bytes: &[u8]) -> String {
    bytes.trim_ascii().escape_ascii().to_string()
}

fn parse_device_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `size` counts units of 512 bytes, whatever the size of the disk's sectors is (kernel
/// `Documentation/ABI/stable/sysfs-block`).
fn parse_sectors(text: &str) -> Option<Bytes> {
    text.parse::<u64>().ok()?.checked_mul(512).map(Bytes)
}

fn parse_flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// SPC-4, 7.8.15: page code in byte 1, length of the serial number in bytes 2 and 3. The outer option is none if this
/// is no such page. The inner option is none if the disk has left the number blank.
#[allow(clippy::option_option)]
fn parse_unit_serial(page: &[u8]) -> Option<Option<String>> {
    let length = u16::from_be_bytes(page.get(2..4)?.try_into().ok()?);
    let serial = page.get(4..4 + usize::from(length)).filter(|_| page.get(1) == Some(&0x80))?;
    let serial = printable(serial);
    Some((!serial.is_empty()).then_some(serial))
}

//! The LUNs that the kernel knows of a session.
//!
//! ```text
//! /sys/bus/scsi/devices/HOST:0:TARGET:LUN/{type,wwid,block/sdb}
//! ```

use super::{attribute, name, parse_sectors, printable};
use crate::Host;
use std::{fmt, io};
use terms::{Bytes, LunAddress, Wwid};

const DEVICES: &str = "/sys/bus/scsi/devices";

/// A LUN of a session, as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownLun {
    /// Its address, which the array has reported.
    pub address: LunAddress,
    /// Its WWID; none if it has none that [`Wwid`] accepts.
    pub wwid: Option<Wwid>,
    /// The kernel name of its disk. The kernel makes the disk a moment after it knows the LUN (drivers/scsi/sd.c, asynchronous
    /// probe). A LUN that is no disk, such as a controller, has none.
    pub disk: Option<String>,
    /// The size of the disk; none before the kernel has read it.
    pub size: Option<Bytes>,
    /// True if it is a disk (SCSI device type 0).
    pub is_disk: bool,
}

/// The number as the array says it, then what it is.
impl fmt::Display for ShownLun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address.number() {
            Some(number) => write!(f, "LUN {number}")?,
            None => f.write_str("a LUN without a number")?,
        }
        match &self.wwid {
            Some(wwid) => write!(f, " ({wwid}")?,
            None => f.write_str(" (without a WWID")?,
        }
        if let Some(size) = self.size {
            write!(f, ", {size}")?;
        }
        write!(f, ", {} addressing, {} in the kernel)", self.address.method(), self.address)
    }
}

/// All LUNs that the kernel knows of a session, in the order of their addresses. iSCSI has one channel, 0.
pub fn luns_of(host: &Host, host_no: u32, target_id: u32) -> io::Result<Vec<ShownLun>> {
    let prefix = format!("{host_no}:0:{target_id}:");
    let mut found = Vec::new();
    for name in host.root.list_opt(DEVICES)?.unwrap_or_default() {
        let Some(address) = name.strip_prefix(&prefix).and_then(|lun| lun.parse().ok()) else { continue };
        found.push(lun(host, &name, LunAddress(address))?);
    }
    found.sort_by_key(|lun| lun.address);
    Ok(found)
}

fn lun(host: &Host, name: &str, address: LunAddress) -> io::Result<ShownLun> {
    let dir = format!("{DEVICES}/{name}");
    let text = |path: &str| attribute(host, path).map(|bytes| bytes.map(|bytes| printable(&bytes)));
    let mut disks = host.root.list_opt(format!("{dir}/block"))?.unwrap_or_default();
    if disks.len() > 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{dir}/block: more than one disk: {}", disks.join(", ")),
        ));
    }
    let disk = disks.pop();
    let size = match &disk {
        Some(disk) => text(&format!("/sys/class/block/{disk}/size"))?.as_deref().and_then(parse_sectors),
        None => None,
    };
    Ok(ShownLun {
        address,
        wwid: name::of_scsi(host, &dir)?.and_then(|wwid| wwid.parse().ok()),
        disk,
        size,
        is_disk: text(&format!("{dir}/type"))?.as_deref() == Some("0"),
    })
}

/// Tells the kernel to forget a LUN of a session, even one in use. The next scan finds it again.
pub fn drop_lun(host: &Host, host_no: u32, target_id: u32, address: LunAddress) -> io::Result<()> {
    host.root.poke(format!("{DEVICES}/{host_no}:0:{target_id}:{address}/delete"), "1")
}

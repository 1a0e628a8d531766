//! What udev knows about a block device, and messages about changes.
//!
//! udev's library can't be linked into a static program, so this module reads what the library reads: the record that
//! udevd keeps of each device (here) and the messages that it sends ([`Monitor`]). Both formats are internal to udevd,
//! but they have been the same for over ten years. A test compares this module with the library (`tests/root/udev-oracle`).
//!
//! A record, `/run/udev/data/b8:16` (systemd `src/libsystemd/sd-device/device-private.c`):
//!
//! ```text
//! S:disk/by-label/etcd-lun
//! I:18344723
//! E:ID_FS_LABEL=etcd-lun
//! G:systemd
//! ```

mod monitor;

pub use monitor::Monitor;

use super::Host;
use std::{collections::BTreeMap, io};

/// The properties that udev has found of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UdevRecord {
    /// Symbolic links that it made, relative to `/dev`, sorted.
    pub links: Vec<String>,
    /// Properties such as `ID_FS_LABEL`. Without those that the kernel sets, such as `DEVNAME`.
    pub properties: BTreeMap<String, String>,
}

impl UdevRecord {
    /// True while udev processes a later event of the device, or the programs of its rules still run. Versions of systemd before
    /// 256 do not say so (systemd pull request 30138).
    pub fn is_in_work(&self) -> bool {
        self.properties.get("ID_PROCESSING").is_some_and(|value| value == "1")
    }

    /// The disk sequence number that the links of the record name, if they name one (systemd
    /// `rules.d/60-persistent-storage.rules`).
    pub fn sequence(&self) -> Option<u64> {
        self.links.iter().find_map(|link| link.strip_prefix("disk/by-diskseq/")?.parse().ok())
    }
}

/// The record of a block device; none if udev has not applied its rules to the device (yet). Until it has, the device node has
/// neither its links nor its SELinux label: udev sets both before it writes the record (systemd `src/udev/udev-event.c`,
/// `udev_event_execute_rules`).
pub fn record(host: &Host, major: u32, minor: u32) -> io::Result<Option<UdevRecord>> {
    let path = format!("/run/udev/data/b{major}:{minor}");
    let Some(text) = host.root.read_opt(&path)? else { return Ok(None) };
    parse_record(&text).map_err(|line| {
        let line = line.escape_debug();
        io::Error::new(io::ErrorKind::InvalidData, format!("{path}: no udev record: `{line}`"))
    })
}

/// The record, or the first line that is not valid. udevd replaces records by renaming, so nobody reads an incomplete
/// record.
fn parse_record(text: &str) -> Result<Option<UdevRecord>, &str> {
    let mut record = UdevRecord::default();
    let mut initialized = false;
    for line in text.lines() {
        let (kind, value) = line.split_once(':').ok_or(line)?;
        match kind {
            "S" => record.links.push(value.to_owned()),
            "E" => {
                let (key, value) = value.split_once('=').ok_or(line)?;
                record.properties.insert(key.to_owned(), value.to_owned());
            }
            "I" => initialized = value.parse::<u64>().map_err(|_| line)? > 0,
            _ => {} // priority of links, tags, version: not needed here
        }
    }
    record.links.sort();
    Ok(initialized.then_some(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    // udevd 252, an XFS image on a loop device.
    const RECORDED: &str = "\
S:disk/by-uuid/0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b
S:disk/by-label/etcd-lun
S:disk/by-diskseq/14
I:1234567890
E:ID_FS_LABEL=etcd-lun
E:ID_FS_LABEL_ENC=etcd-lun
E:ID_FS_UUID=0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b
E:ID_FS_TYPE=xfs
E:ID_FS_USAGE=filesystem
G:systemd
Q:systemd
V:1
";

    #[test]
    fn recorded() {
        let record = parse_record(RECORDED).unwrap().unwrap();
        assert_eq!(record.properties.get("ID_FS_LABEL").unwrap(), "etcd-lun");
        assert_eq!(record.properties.len(), 5);
        assert_eq!(record.links.len(), 3);
        assert!(record.links.contains(&"disk/by-label/etcd-lun".to_owned()));
        assert_eq!(record.sequence(), Some(14));
    }

    #[test]
    fn unfinished_is_nothing() {
        for text in ["", "E:ID_FS_TYPE=xfs\n", "I:0\nE:A=b\n", "E:ID_PROCESSING=1\n"] {
            assert_eq!(parse_record(text), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn a_later_event_leaves_the_record() {
        let in_work = parse_record("I:12\nE:ID_PROCESSING=1\nE:ID_FS_TYPE=xfs\n").unwrap().unwrap();
        assert!(in_work.is_in_work());
        assert!(!parse_record(RECORDED).unwrap().unwrap().is_in_work());
    }

    #[test]
    fn odd_but_legal() {
        let record = parse_record("I:1\nE:A=\nE:B=c=d:e\nX:new kind of line\n").unwrap().unwrap();
        assert_eq!(record.properties.get("A").unwrap(), "");
        assert_eq!(record.properties.get("B").unwrap(), "c=d:e");
    }

    #[test]
    fn hostile_is_an_error() {
        for text in ["I:1\nE:NOVALUE\n", "I:x\n", "I:1\n\u{1}\n", "I:1\n\n", "I:-5\n"] {
            assert!(parse_record(text).is_err(), "{text:?}");
        }
    }
}

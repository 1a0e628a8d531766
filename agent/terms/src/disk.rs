//! The link by which a local or cloud disk is found.

use super::{error::TermError, file::AbsPath};
use std::{fmt, str::FromStr};

/// A link to a whole disk in `/dev/disk/by-id` or `/dev/disk/by-path`. udev makes it from the disk's identity, or from where
/// the disk is attached. The kernel's own names (`/dev/sdb`) follow the order in which the kernel finds disks, and that
/// differs from boot to boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskLink(AbsPath);

pub(super) const LINK_FORM: &str = "a link to a whole disk in /dev/disk/by-id or /dev/disk/by-path, such as \"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0\": \
    kernel names such as /dev/sdb change from boot to boot, and /dev/mapper/mpatha is another disk on another node; \
    `ls -l /dev/disk/by-id` on the node lists the links, and that of a multipath map begins with dm-uuid-mpath-";

impl DiskLink {
    /// The link's path.
    pub fn path(&self) -> &AbsPath {
        &self.0
    }

    /// The name that udev's rules use: without `/dev/`.
    pub fn in_udev(&self) -> &str {
        self.0.as_str().strip_prefix("/dev/").unwrap_or(self.0.as_str())
    }
}

impl FromStr for DiskLink {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError::new(text, LINK_FORM);
        let path: AbsPath = text.parse().map_err(|_| wrong())?;
        let stable = ["/dev/disk/by-id", "/dev/disk/by-path"].contains(&path.parent().as_str());
        // Only characters that udev doesn't escape in a name (systemd `src/basic/utf8.c`, `allow_listed_char_for_devnode`), and
        // that aren't special in a match of udev's rules, as `*`, `?`, `[`, `|` and `\` are (udev(7)).
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"#+-.:=@_".contains(&b);
        if stable && path.name().bytes().all(plain) && !is_of_partition(path.name()) {
            Ok(Self(path))
        } else {
            Err(wrong())
        }
    }
}

/// udev's rules end the name of a partition's link with `-partN` (`60-persistent-storage.rules`).
fn is_of_partition(name: &str) -> bool {
    name.rsplit_once("-part")
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

impl fmt::Display for DiskLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        for text in [
            "/dev/disk/by-id/virtio-etcd0",
            "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0",
            "/dev/disk/by-id/wwn-0x60022480d8e4a3bd5a94f3f9a1a2b3c4",
            "/dev/disk/by-path/pci-0000:00:1f.0-nvme-1",
            "/dev/disk/by-path/acpi-VMBUS:00-vmbus-f8b3781b1e824818a1c363d806ec15bb-lun-0",
        ] {
            let link: DiskLink = text.parse().unwrap();
            assert_eq!((link.to_string(), format!("/dev/{}", link.in_udev())), (text.into(), text.into()));
        }
    }

    #[test]
    fn refused() {
        for text in [
            "",
            "sdb",
            "/dev/sdb",
            "/dev/nvme1n1",
            "/dev/disk/by-label/etcd",
            "/dev/disk/by-id",
            "/dev/disk/by-id/",
            "/dev/disk/by-id/a/b",
            "/dev/disk/by-id/../../sdb",
            "/dev/disk/by-id/virtio-*",
            "/dev/disk/by-id/virtio-a|b",
            "/dev/disk/by-id/virtio-\"",
            "/dev/disk/by-id/virtio-a\\x20b",
            "/dev/disk/by-id/virtio-etcd0-part1",
        ] {
            let said = text.parse::<DiskLink>().unwrap_err().to_string();
            assert!(said.contains("change from boot to boot"), "{text}: {said}");
        }
    }
}

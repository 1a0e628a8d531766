//! Facts of disks, from trees like those of the kernel (`Documentation/ABI/stable/sysfs-block`, `Documentation/scsi`),
//! with the values of a Linux target's LUN.

use super::*;

fn tree(files: &[(&str, &str)]) -> Bench {
    let tree = Bench::scripted(1, 2, "");
    for (path, text) in files {
        tree.put(path, text.as_bytes());
    }
    tree
}

impl Bench {
    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.base.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

const LUN: &[(&str, &str)] = &[
    ("sys/class/block/sdb/dev", "8:16\n"),
    ("sys/class/block/sdb/size", "16777216\n"),
    ("sys/class/block/sdb/ro", "0\n"),
    ("sys/class/block/sdb/queue/write_cache", "write back\n"),
    ("sys/class/block/sdb/queue/fua", "1\n"),
    ("sys/class/block/sdb/device/wwid", "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\n"),
    ("sys/class/block/sdb/device/vendor", "LIO-ORG \n"),
    ("sys/class/block/sdb/device/model", "etcd\x07            \n"),
    ("sys/class/block/sdb/sdb1/partition", "1\n"),
    ("sys/class/block/sdb/sdb2/partition", "2\n"),
];

fn lun() -> Bench {
    let tree = tree(LUN);
    tree.put("sys/class/block/sdb/device/vpd_pg80", b"\0\x80\0\x171d8e4a3b-d5a9-4f3f-9a1a");
    fs::create_dir_all(tree.base.join("sys/class/block/sdb/holders")).unwrap();
    tree
}

#[test]
fn a_lun() {
    let tree = lun();
    tree.put("run/udev/data/b8:16", b"S:disk/by-id/scsi-360014051\nI:1\nE:ID_SERIAL=360014051\n");
    let disk = disk(&tree.host, "sdb").unwrap().unwrap();
    assert_eq!((disk.major, disk.minor, disk.size), (8, 16, Bytes(8 << 30)));
    assert_eq!(disk.wwid.as_ref().unwrap().as_str(), "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4");
    assert_eq!(disk.serial.as_deref(), Some("1d8e4a3b-d5a9-4f3f-9a1a"));
    assert_eq!((disk.read_only, disk.fua), (false, Some(true)));
    assert_eq!(disk.write_cache.as_deref(), Some("write back"));
    assert_eq!((disk.vendor.as_deref(), disk.model.as_deref()), (Some("LIO-ORG"), Some("etcd\\x07")));
    assert_eq!(disk.partitions, ["sdb1", "sdb2"]);
    assert_eq!(disk.udev.as_ref().unwrap().links, ["disk/by-id/scsi-360014051"]);
    assert!(disk.holders.is_empty());
    assert_eq!(multipath_of(&disk), None);
}

#[test]
fn a_path_and_its_map() {
    let tree = lun();
    tree.put("sys/class/block/sdb/holders/dm-0/.keep", b"");
    tree.put("sys/class/block/dm-0/dm/uuid", b"mpath-360014051d8e4a3bd5a94f3f9a1a2b3c4\n");
    tree.put("sys/class/block/dm-0/dm/name", b"mpatha\n");
    for (file, text) in [("dev", "253:0"), ("size", "16777216"), ("ro", "1")] {
        tree.put(&format!("sys/class/block/dm-0/{file}"), text.as_bytes());
    }
    let path = disk(&tree.host, "sdb").unwrap().unwrap();
    let map = multipath_of(&path).unwrap();
    assert_eq!((map.name.as_str(), map.dm_name.as_deref()), ("dm-0", Some("mpatha")));
    let map = disk(&tree.host, "dm-0").unwrap().unwrap();
    assert_eq!(map.wwid, path.wwid);
    assert_eq!((map.serial, map.fua, map.read_only), (None, None, true));
    tree.put("sys/class/block/dm-0/dm/uuid", b"LVM-abc\n");
    assert_eq!(disk(&tree.host, "dm-0").unwrap().unwrap().wwid, None);
    assert_eq!(multipath_of(&disk(&tree.host, "sdb").unwrap().unwrap()), None);
}

/// The values of QEMU's disks and of an EBS volume.
#[test]
fn names_for_life_of_other_disks() {
    const EBS: &str = "nvme.1d0f-766f6c3031-416d617a6f6e-00000001";
    for (name, files, wwid, serial) in [
        ("vdb", vec![("serial", "etcd0\n")], Some("virtio.etcd0"), Some("etcd0")),
        ("vdb", vec![("serial", "")], None, Some("")),
        ("vdb", vec![], None, None),
        ("nvme1n1", vec![("wwid", EBS), ("device/serial", "vol01 \n")], Some(EBS), Some("vol01")),
        ("nvme1n1", vec![("wwid", "eui.0025388b710116a1\n")], Some("eui.0025388b710116a1"), None),
        // This identifier names the disk's model only, not one disk.
        ("nvme1n1", vec![("wwid", "nvme.1b36--51454d55-00000001\n")], None, None),
        ("xvdb", vec![("serial", "x\n")], None, Some("x")),
    ] {
        let tree = Bench::scripted(1, 2, "");
        let common = [("dev", "252:16"), ("size", "16777216"), ("ro", "0")];
        for (file, text) in common.iter().chain(&files) {
            tree.put(&format!("sys/class/block/{name}/{file}"), text.as_bytes());
        }
        let found = disk(&tree.host, name).unwrap().unwrap();
        assert_eq!(found.wwid.as_ref().map(Wwid::as_str), wwid, "{name}, {files:?}");
        assert_eq!(found.serial.as_deref(), serial, "{name}, {files:?}");
        // Attributes that only SCSI disks have are not read.
        rescan(&tree.host, name).unwrap();
    }
}

#[test]
fn where_a_link_leads() {
    let tree = lun();
    let link = "/dev/disk/by-id/wwn-0x60014051";
    assert_eq!(led_to(&tree.host, link).unwrap(), None);
    tree.put("dev/dm-0", b"");
    tree.put("dev/disk/by-id/.keep", b"");
    std::os::unix::fs::symlink("../../dm-0", tree.base.join(&link[1..])).unwrap();
    assert_eq!(led_to(&tree.host, link).unwrap().as_deref(), Some("dm-0"));
    assert_eq!(paths_of_map(&tree.host, "sdb").unwrap(), None);
    tree.put("sys/class/block/dm-0/slaves/sdb/.keep", b"");
    tree.put("sys/class/block/dm-0/dm/uuid", b"LVM-abc\n");
    assert_eq!(paths_of_map(&tree.host, "dm-0").unwrap(), None);
    tree.put("sys/class/block/dm-0/dm/uuid", b"mpath-360014051d8e4a3bd5a94f3f9a1a2b3c4\n");
    assert_eq!(paths_of_map(&tree.host, "dm-0").unwrap(), Some(vec!["sdb".into()]));
}

#[test]
fn absent_and_wrong() {
    let tree = lun();
    assert_eq!(disk(&tree.host, "sdz").unwrap(), None);
    assert!(disk(&tree.host, "../sdb").is_err());
    for (file, wrong) in [
        ("dev", "8"),
        ("size", "-1"),
        ("size", "99999999999999999999"),
        ("size", "36028797018963968"), // times 512 is more than 64 bits
        ("ro", "2"),
        ("queue/fua", ""),
        ("device/vpd_pg80", "\0\u{0}\0\0"),
        ("device/vpd_pg80", "\0"),
    ] {
        let tree = lun();
        tree.put(&format!("sys/class/block/sdb/{file}"), wrong.as_bytes());
        assert!(disk(&tree.host, "sdb").is_err(), "{file}: {wrong:?}");
    }
    // A page that is shorter than its length says, and a serial number of blanks.
    assert_eq!(parse_unit_serial(b"\0\x80\0\x09short"), None);
    assert_eq!(parse_unit_serial(b"\0\x80\0\x04    "), Some(None));
    assert_eq!(parse_unit_serial(b"\0\x80\0\x02a\xffrest"), Some(Some("a\\xff".into())));
}

#[test]
fn sessions() {
    // tgt with LUN 44 and 300: a controller, peripheral and flat addressing. The disk of the last one is not made yet.
    let tree = tree(&[
        ("sys/bus/scsi/devices/2:0:0:0/type", "12\n"),
        ("sys/bus/scsi/devices/2:0:0:44/type", "0\n"),
        ("sys/bus/scsi/devices/2:0:0:44/wwid", "naa.60000000000000000bed000000000044\n"),
        ("sys/bus/scsi/devices/2:0:0:44/block/sdc/dev", "8:32"),
        ("sys/class/block/sdc/size", "2097152\n"),
        ("sys/bus/scsi/devices/2:0:0:16684/type", "0\n"),
        ("sys/bus/scsi/devices/2:0:1:1/type", "0\n"),
        ("sys/bus/scsi/devices/22:0:0:1/type", "0\n"),
        ("sys/bus/scsi/devices/target2:0:0/x", ""),
    ]);
    let shown = luns_of(&tree.host, 2, 0).unwrap();
    let facts: Vec<_> = shown.iter().map(|lun| (lun.address.0, lun.disk.as_deref(), lun.is_disk)).collect();
    assert_eq!(facts, [(0, None, false), (44, Some("sdc"), true), (16_684, None, true)]);
    assert_eq!(
        shown[1].to_string(),
        "LUN 44 (naa.60000000000000000bed000000000044, 1GiB, peripheral addressing, 44 in the kernel)"
    );
    assert_eq!(shown[2].to_string(), "LUN 300 (without a WWID, flat addressing, 16684 in the kernel)");
    assert_eq!(luns_of(&tree.host, 3, 0).unwrap(), []);
    tree.put("sys/bus/scsi/devices/2:0:0:16684/delete", b"");
    drop_lun(&tree.host, 2, 0, shown[2].address).unwrap();
    assert_eq!(tree.host.root.read("/sys/bus/scsi/devices/2:0:0:16684/delete").unwrap(), "1");
    tree.put("sys/bus/scsi/devices/2:0:0:44/block/sdd/dev", b"8:48");
    assert!(luns_of(&tree.host, 2, 0).is_err());
}

#[test]
fn nodes_and_links() {
    let tree = tree(&[("sys/class/block/sdc/dev", "8:32\n"), ("dev/sdc", "")]);
    fs::create_dir_all(tree.base.join("dev/disk/by-id")).unwrap();
    std::os::unix::fs::symlink("../../sdc", tree.base.join("dev/disk/by-id/disk")).unwrap();
    assert_eq!(led_to(&tree.host, "/dev/disk/by-id/disk").unwrap().as_deref(), Some("sdc"));
    fs::remove_file(tree.base.join("dev/sdc")).unwrap();
    assert_eq!(led_to(&tree.host, "/dev/disk/by-id/disk").unwrap(), None);
    assert_eq!(node("dm-0").unwrap().as_str(), "/dev/dm-0");
    // A name that leads into a directory of /dev, where udev makes links, is none.
    for name in ["cciss!c0d0", "disk!by-label!pvdata", "../sda", "sda/x", "", ".", "s a"] {
        assert!(node(name).is_err(), "{name}");
    }
}

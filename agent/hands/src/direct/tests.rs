//! What is done and what is refused, on a machine of files. There is no bus, so a request that reaches systemd ends there.
#![allow(clippy::disallowed_methods)] // the fixture of a test

use super::*;
use crate::socket::answer;
use host::{
    Root,
    files::Files,
    transcript::{NoTools, Transcript},
};
use node::layout::RECORD;
use std::fs;
use terms::Nonce;

const TARGET: &str = "iqn.2024-02.com.example:etcd";
const WWID: &str = "naa.60014050123456789abcdef012345678";
const OTHER: &str = "naa.600140500000000000000000000000ff";
const MANIFEST: &str = "etc/kubernetes/manifests/etcd-pod.yaml";
const PARKED: &str = "etc/kubernetes/etcd-lun-parked/etcd-pod.yaml";
const UUID: FsUuid = FsUuid([7; 16]);
const NO_BUS: &str = "connecting to the system bus";

struct Node {
    files: Files,
    host: Host,
    direct: Direct,
}

impl Node {
    fn new(name: &str, runtime: Runtime) -> Self {
        let files = Files::new(name);
        files.put("proc/1/mountinfo", "");
        for (sid, target) in [(1, TARGET), (2, "iqn.2024-02.com.example:other")] {
            files.session(sid, target, "etcd-lun");
            files.put(&format!("sys/class/scsi_host/host{sid}/scan"), "");
        }
        for (sid, number, wwid, disk, devno) in [(1, 5, WWID, "sdb", "8:16"), (2, 5, OTHER, "sdc", "8:32")] {
            files.lun(sid, number, wwid, disk);
            files.put(&format!("sys/bus/scsi/devices/{sid}:0:0:{number}/delete"), "");
            files.disk(disk, devno, 40_960);
            let device = format!("sys/class/block/{disk}/device");
            files.put(&format!("{device}/wwid"), wwid);
            for file in ["scsi_level", "rescan", "delete"] {
                files.put(&format!("{device}/{file}"), "");
            }
            files.put(&format!("sys/class/block/{disk}/uevent"), "");
            files.link(&format!("../../devices/x/{disk}"), &format!("sys/dev/block/{devno}"));
            files.put(&format!("dev/{disk}"), "");
            let image = fs::File::create(files.0.join(format!("dev/{disk}"))).unwrap();
            image.set_len(20 << 20).unwrap();
        }
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        let direct = Direct {
            requester: Requester::Service,
            target: Some(TARGET.parse().unwrap()),
            data_dir: "/var/lib/etcd".parse().unwrap(),
            mount_options: vec!["prjquota".into()],
            runtime,
        };
        Self { files, host, direct }
    }

    fn pod(name: &str) -> Self {
        let node = Self::new(name, Runtime::StaticPod { manifest: format!("/{MANIFEST}").parse().unwrap() });
        node.files.put(MANIFEST, "kind: Pod\n");
        node
    }

    fn unit(name: &str) -> Self {
        Self::new(name, Runtime::Systemd { unit: "etcd.service".into() })
    }

    /// The error; none if the request was done.
    fn asked(&self, request: &str) -> Option<String> {
        answer(&self.host, &self.direct, request).err().map(|error| format!("{error:#}"))
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.files.0.join(path)).ok()
    }

    fn fenced(&self) {
        let _ = fs::remove_dir_all(self.files.0.join("var/lib/etcd"));
        self.files.put("var/lib/etcd/member", "");
    }

    fn mounted(&self, devno: &str) {
        let line = format!("36 25 {devno} / /var/lib/etcd rw - xfs /dev/sdx rw\n");
        self.files.put("proc/1/mountinfo", &line);
    }

    /// Puts the superblock of an XFS on the LUN.
    fn has_xfs(&self, uuid: FsUuid) {
        let image = fs::OpenOptions::new().write(true).open(self.files.0.join("dev/sdb")).unwrap();
        // The superblock of an XFS: kernel `fs/xfs/libxfs/xfs_format.h`, `struct xfs_dsb`.
        let mut sector = [0_u8; 512];
        sector[..4].copy_from_slice(b"XFSB");
        sector[4..8].copy_from_slice(&4096_u32.to_be_bytes());
        sector[8..16].copy_from_slice(&(5_u64 << 10).to_be_bytes());
        sector[32..48].copy_from_slice(&uuid.0);
        sector[84..88].copy_from_slice(&1280_u32.to_be_bytes());
        sector[88..92].copy_from_slice(&4_u32.to_be_bytes());
        sector[100..102].copy_from_slice(&5_u16.to_be_bytes());
        sector[102..104].copy_from_slice(&512_u16.to_be_bytes());
        std::os::unix::fs::FileExt::write_all_at(&image, &sector, 0).unwrap();
    }

    fn record(&self, wwid: &str, is_lun: bool) {
        let begun =
            Record::begin(1, UUID, wwid.parse().unwrap(), self.direct.data_dir.clone(), Nonce([1; 16]));
        let record = if is_lun { begun.commit(None) } else { begun };
        self.files.put(RECORD.trim_start_matches('/'), &record.to_text().unwrap());
    }
}

#[test]
fn a_session_to_the_target_and_no_other() {
    let node = Node::unit("hands-session");
    let scan = |sid| format!("sys/class/scsi_host/host{sid}/scan");
    assert_eq!(node.asked(r#"{"scan":{"session":1}}"#), None);
    assert_eq!(node.text(&scan(1)).unwrap(), "0 0 -");
    assert_eq!(node.asked(r#"{"set-timeout":{"session":1,"seconds":3600}}"#), None);
    assert_eq!(node.text("sys/class/iscsi_session/session1/recovery_tmo").unwrap(), "3600");
    assert_eq!(node.asked(r#"{"forget":{"session":1,"lun":5}}"#), None);
    assert_eq!(node.text("sys/bus/scsi/devices/1:0:0:5/delete").unwrap(), "1");
    for request in [
        r#"{"scan":{"session":2}}"#,
        r#"{"set-timeout":{"session":2,"seconds":1}}"#,
        r#"{"forget":{"session":2,"lun":5}}"#,
    ] {
        let why = node.asked(request).unwrap();
        assert!(why.starts_with("session 2 is none of etcd-lun's to iqn"), "{why}");
    }
    assert_eq!(node.text(&scan(2)).unwrap(), "");
    assert_eq!(node.text("sys/bus/scsi/devices/2:0:0:5/delete").unwrap(), "");
}

#[test]
fn names_of_disks_are_no_paths() {
    let node = Node::unit("hands-names");
    assert_eq!(node.asked(r#"{"rescan":{"disk":"sdb"}}"#), None);
    assert_eq!(node.text("sys/class/block/sdb/device/rescan").unwrap(), "1");
    assert_eq!(node.asked(r#"{"announce":{"disk":"sdb"}}"#), None);
    assert_eq!(node.text("sys/class/block/sdb/uevent").unwrap(), "add");
    for name in ["../block/sdc", "..", "", "sdc/../sdc"] {
        for what in ["rescan", "announce", "stage", "inspect"] {
            assert!(node.asked(&format!(r#"{{"{what}":{{"disk":"{name}"}}}}"#)).is_some(), "{name}");
        }
    }
    assert_eq!(node.text("sys/class/block/sdc/device/rescan").unwrap(), "");
    assert_eq!(node.text("sys/class/block/sdc/uevent").unwrap(), "");
}

/// A person has a member stopped that serves, and etcd is started by hand as it is by the service: never over another mount.
#[test]
fn a_person_parks_the_manifest_of_a_member_that_serves() {
    let mut node = Node::pod("hands-person-parks");
    node.direct.requester = Requester::Person;
    node.files.put("var/lib/etcd/member/snap/db", "");
    assert_eq!(node.asked("\"park\""), None);
    assert_eq!((node.text(MANIFEST), node.text(PARKED).unwrap().as_str()), (None, "kind: Pod\n"));
    node.mounted("8:32");
    node.record(WWID, true);
    assert!(node.asked("\"put-back\"").unwrap().starts_with("sdc is mounted, and is not the LUN"));
    node.files.put("proc/1/mountinfo", "");
    assert_eq!(node.asked("\"put-back\""), None);
    assert_eq!((node.text(MANIFEST).unwrap().as_str(), node.text(PARKED)), ("kind: Pod\n", None));
}

#[test]
fn only_an_absent_manifest_is_a_wrong_key() {
    let node = Node::pod("no-manifest");
    fs::remove_file(node.files.0.join(MANIFEST)).unwrap();
    node.fenced();
    let said = node.asked("\"park\"").unwrap();
    assert_eq!(said, format!("there is no /{MANIFEST}: correct `etcd.manifest` in the config"));
    let other = io::Error::new(io::ErrorKind::NotFound, "opening x");
    assert_eq!(manifest_error(other).to_string(), "opening x");
}

/// Asks first if the system shuts down.
#[test]
fn nothing_is_removed_from_a_node_that_stays_up() {
    let node = Node::unit("hands-up");
    for request in [r#"{"remove":{"disk":"sdb"}}"#, r#"{"stop-queueing":{"map":"dm-0"}}"#] {
        assert!(node.asked(request).unwrap().starts_with(NO_BUS));
    }
    assert_eq!(node.text("sys/class/block/sdb/device/delete").unwrap(), "");
}

/// The disk is mounted for etcd, the record says LUN, and the disk has another filesystem than the record's.
#[test]
fn another_volume_is_removed_from_beneath_the_mount() {
    let node = Node::unit("hands-other");
    let asked = || node.asked(r#"{"remove-other":{"disk":"sdb"}}"#);
    for (devno, is_lun, has_record, why) in [
        ("8:16", false, false, "the record says that the local copy is authoritative"),
        ("8:32", true, false, "sdb is not mounted on /var/lib/etcd, or holds filesystem 07070707-"),
        ("8:16", true, true, "sdb is not mounted on /var/lib/etcd, or holds filesystem 07070707-"),
    ] {
        node.mounted(devno);
        node.record(WWID, is_lun);
        node.has_xfs(if has_record { UUID } else { FsUuid([8; 16]) });
        let said = asked().unwrap();
        assert!(said.starts_with(why), "{said}");
    }
    assert_eq!(node.text("sys/class/block/sdb/device/delete").unwrap(), "");
    node.has_xfs(FsUuid([8; 16]));
    assert_eq!(asked(), None);
    assert_eq!(node.text("sys/class/block/sdb/device/delete").unwrap(), "1");
}

/// If no path of it has the right volume, and the map can be told to fail what it keeps.
#[test]
fn another_volume_beneath_a_map() {
    let mut node = Node::unit("hands-other-map");
    node.files.put("sys/class/block/dm-0/dm/uuid", "mpath-36001405");
    node.files.put("sys/class/block/dm-0/dm/name", "mpatha");
    node.files.put("sys/class/block/dm-0/slaves/sdb", "");
    node.files.link("../../devices/x/dm-0", "sys/dev/block/253:0");
    node.mounted("253:0");
    node.record(WWID, true);
    let asked = |node: &Node| node.asked(r#"{"remove-other":{"disk":"dm-0"}}"#);
    node.has_xfs(UUID);
    assert!(asked(&node).unwrap().starts_with("dm-0 is not mounted on /var/lib/etcd, or holds filesystem"));
    node.has_xfs(FsUuid([8; 16]));
    let calls = Transcript::default().on("dmsetup message mpatha 0 fail_if_no_path", 1, "", "open failed");
    node.host = Host::fixture(Root::new(&node.files.0), Box::new(calls)).unwrap();
    assert!(asked(&node).unwrap().contains("open failed"));
    assert_eq!(node.text("sys/class/block/sdb/device/delete").unwrap(), "");
}

#[test]
fn the_manifest_goes_aside_unless_a_member_serves() {
    let node = Node::pod("hands-manifest");
    // A member serves from the local disk.
    node.files.put("var/lib/etcd/member/snap/db", "");
    let stays = "/var/lib/etcd is not fenced: /etc/kubernetes/manifests/etcd-pod.yaml stays";
    assert_eq!(node.asked("\"park\"").unwrap(), stays);
    node.fenced();
    assert_eq!(node.asked("\"park\""), None);
    assert_eq!((node.text(MANIFEST), node.text(PARKED).unwrap().as_str()), (None, "kind: Pod\n"));
    // The LUN is mounted for it now.
    node.mounted("8:16");
    node.record(WWID, true);
    assert_eq!(node.asked("\"put-back\""), None);
    assert_eq!((node.text(MANIFEST).unwrap().as_str(), node.text(PARKED)), ("kind: Pod\n", None));
    assert_eq!(node.asked("\"park\"").unwrap(), stays);
    assert!(
        Node::unit("hands-no-pod").asked("\"park\"").unwrap().contains("is etcd.service and no static pod")
    );
}

/// Where the filesystem has shut down it is stopped: `beside/logged-out-under-etcd` on a node.
#[test]
fn an_etcd_that_can_serve_is_not_stopped() {
    let (pod, mut unit) = (Node::pod("hands-stop-pod"), Node::unit("hands-stop"));
    unit.mounted("8:16");
    unit.record(WWID, true);
    unit.files.put("var/lib/etcd/member/snap/db", "");
    let goes_on = "the filesystem at /var/lib/etcd has not shut down: etcd.service goes on";
    assert_eq!(unit.asked("\"stop-etcd\"").unwrap(), goes_on);
    unit.direct.requester = Requester::Person;
    assert!(unit.asked("\"stop-etcd\"").unwrap().starts_with(NO_BUS));
    assert_eq!(pod.asked("\"stop-etcd\"").unwrap(), "etcd is a static pod and no unit");
}

#[test]
fn etcd_is_started_on_nothing_that_is_mounted_and_not_the_lun() {
    let (pod, unit) = (Node::pod("hands-start"), Node::unit("hands-start-unit"));
    pod.fenced();
    assert_eq!(pod.asked("\"park\""), None);
    for (devno, wwid, is_lun, why) in [
        ("8:32", WWID, true, "sdc is mounted, and is not the LUN naa.60014050123456789abcdef012345678"),
        ("8:16", WWID, false, "the record says that the local copy is authoritative"),
    ] {
        for (node, request) in [(&pod, "\"put-back\""), (&unit, r#"{"start-etcd":{"wait":false}}"#)] {
            node.mounted(devno);
            node.record(wwid, is_lun);
            assert_eq!(node.asked(request).unwrap(), why);
        }
    }
    assert_eq!(pod.text(MANIFEST), None);
    // The LUN itself, and an empty place: systemd is asked.
    unit.record(WWID, true);
    assert!(unit.asked(r#"{"start-etcd":{"wait":true}}"#).unwrap().starts_with(NO_BUS));
    unit.files.put("proc/1/mountinfo", "");
    assert!(unit.asked(r#"{"start-etcd":{"wait":true}}"#).unwrap().starts_with(NO_BUS));
    assert_eq!(pod.asked(r#"{"start-etcd":{"wait":true}}"#).unwrap(), "etcd is a static pod and no unit");
}

#[test]
fn only_the_lun_of_the_record_is_mounted() {
    let node = Node::unit("hands-mount");
    let refused = |disk: &str, why: &str| {
        let found = node.asked(&format!(r#"{{"expose":{{"disk":"{disk}"}}}}"#)).unwrap();
        assert!(found.starts_with(why), "{found}");
    };
    refused("sdz", "sdz has gone");
    refused("../sdb", "`../sdb` is not the kernel name of a disk");
    refused("sdb", "the record is gone");
    node.record(WWID, false);
    refused("sdb", "the record says that the local copy is authoritative");
    node.record(OTHER, true);
    refused("sdb", "sdb is not the LUN naa.6001405000");
    node.record(WWID, true);
    refused("sdb", "LUN naa.60014050123456789abcdef012345678 does not hold filesystem");
    for request in [r#"{"stage":{"disk":"sdb"}}"#, r#"{"inspect":{"disk":"sdb"}}"#] {
        assert_eq!(node.asked(request).unwrap(), "sdb holds no XFS");
    }
}

/// Only what the record announces is made or cleared, and only where nothing of etcd's can be.
#[test]
fn nothing_is_written_to_a_disk_but_what_the_record_announces() {
    let node = Node::unit("hands-format");
    let uuid = UUID.to_string();
    let format = |disk: &str, uuid: &str| {
        node.asked(&format!(r#"{{"format":{{"disk":"{disk}","uuid":"{uuid}","label":"etcd-lun"}}}}"#))
    };
    let clear = |disk: &str, uuid: &str| {
        node.asked(&format!(r#"{{"clear-unfinished":{{"disk":"{disk}","uuid":"{uuid}"}}}}"#))
    };
    let other = FsUuid([8; 16]).to_string();
    for (record, disk, uuid, why) in [
        (None, "sdb", &uuid, "the record is gone"),
        (
            Some((WWID, true)),
            "sdb",
            &uuid,
            "the record says that the LUN's copy is authoritative: nothing is",
        ),
        (Some((OTHER, false)), "sdb", &uuid, "sdb is not the LUN naa.6001405000"),
        (Some((WWID, false)), "sdc", &uuid, "sdc is not the LUN naa.60014050123456789abcdef012345678"),
        (Some((WWID, false)), "sdb", &other, "the record names filesystem 07070707-"),
        (Some((WWID, false)), "sdz", &uuid, "sdz has gone"),
        (Some((WWID, false)), "../sdb", &uuid, "`../sdb` is not the kernel name of a disk"),
    ] {
        if let Some((wwid, is_lun)) = record {
            node.record(wwid, is_lun);
        }
        for found in [format(disk, uuid), clear(disk, uuid)] {
            assert!(found.as_ref().is_some_and(|found| found.starts_with(why)), "{found:?}");
        }
    }
    node.record(WWID, false);
    // The content of the disk is looked at here too: blkid, which is not on this machine, would be asked first.
    assert!(format("sdb", &uuid).unwrap().contains("blkid"));
    assert_eq!(clear("sdb", &uuid), None);
    node.files.put("dev/sdb", &"something else".repeat(5_000));
    let found = clear("sdb", &uuid).unwrap();
    assert!(found.contains("something else at offset"), "{found}");
    assert!(node.text("dev/sdb").unwrap().starts_with("something else"));
    assert!(format("sdb", &uuid).is_some());
    assert!(
        node.asked(r#"{"format":{"disk":"sdb","uuid":"x","label":"etcd-lun"}}"#)
            .unwrap()
            .contains("another form")
    );
}

/// The names are those of the hands' unit and of a list. What PID 1 does not answer is said of each unit by itself.
#[test]
fn the_state_of_few_units() {
    let node = Node::unit("hands-units");
    let request = r#"{"units":["etcd",{"known":"kubelet.service"}]}"#;
    let Said::Units(said) = answer(&node.host, &node.direct, request).unwrap().0 else { panic!() };
    let names: Vec<_> = said.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["etcd.service", "kubelet.service"]);
    assert!(said.iter().all(|one| one.said.as_ref().is_err_and(|why| why.starts_with(NO_BUS))), "{said:?}");
    assert!(node.asked("\"is-stopping\"").unwrap().starts_with(NO_BUS));
    let found = node.asked(r#"{"units":[{"known":"sshd.service"}]}"#).unwrap();
    assert!(found.starts_with("the request has another form"), "{found}");
    let pod = Node::pod("hands-units-pod");
    let Said::Units(said) = answer(&pod.host, &pod.direct, r#"{"units":["etcd"]}"#).unwrap().0 else {
        panic!()
    };
    assert_eq!(said[0].name, "a static pod");
}

/// The LUN is mounted by mount(8), with what systemd has to know of it, and only where nothing is mounted.
#[test]
fn the_lun_is_mounted_where_nothing_is() {
    let mut node = Node::unit("hands-expose");
    node.record(WWID, true);
    let expose = r#"{"expose":{"disk":"sdb"}}"#;
    let why = node.asked(expose).unwrap();
    assert!(why.contains("does not hold filesystem"), "{why}");
    node.has_xfs(UUID);
    let mount = "mount -i -t xfs -o _netdev,prjquota,nodev,nosuid,noexec -- /dev/sdb /var/lib/etcd";
    let runner = Transcript::default().on(mount, 0, "", "").on("umount -i -- /var/lib/etcd", 0, "", "");
    node.host = Host::fixture(Root::new(&node.files.0), Box::new(runner)).unwrap();
    assert_eq!(node.asked(expose), None);
    assert_eq!(node.asked("\"take-back\""), None);
    node.mounted("8:32");
    assert_eq!(node.asked(expose).unwrap(), "/dev/sdx is mounted on /var/lib/etcd now");
}

#[test]
fn another_text_is_refused() {
    let node = Node::unit("hands-text");
    for text in ["", "\"run\"", "park", r#"{"scan":{"session":1,"x":1}}"#, "\"park\"\n\"park\""] {
        let why = node.asked(text).unwrap();
        assert!(why.starts_with("the request has another form: it is of another version"), "{why}");
    }
}

/// Needs root, for a look beneath mounts.
#[test]
fn the_data_directory_is_exchanged_for_nothing_but_what_keeps_etcd_out() {
    if std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) != 0 {
        println!("not run: needs root");
        return;
    }
    let node = Node::unit("hands-exchange");
    let request = r#"{"exchange":{"with":{"retired":2}}}"#;
    let (data, retired) = ("var/lib/etcd/member/snap/db", "var/lib/etcd-lun/retired/2");
    assert_eq!(
        node.asked(r#""make-data-dir""#).as_deref(),
        Some("/var/lib: No such file or directory (os error 2)")
    );
    node.files.put(&format!("{retired}/member/snap/db"), "older");
    assert_eq!(node.asked(r#""make-data-dir""#), None);
    assert_eq!(node.asked(request), None);
    assert_eq!(node.text(data).as_deref(), Some("older"));
    // Now nothing keeps etcd out there.
    assert_eq!(
        node.asked(request).unwrap(),
        "neither /var/lib/etcd nor /var/lib/etcd-lun/retired/2 holds only the file `member`, which keeps etcd out: neither is moved"
    );
    node.files.put(&format!("{retired}/member"), "");
    node.mounted("8:16");
    assert_eq!(node.asked(request).unwrap(), "/dev/sdx is mounted on /var/lib/etcd now");
    node.files.put("proc/1/mountinfo", "");
    assert_eq!(node.asked(request), None);
    assert_eq!((node.text("var/lib/etcd/member").as_deref(), node.text(data)), (Some(""), None));
    assert_eq!(node.text(&format!("{retired}/member/snap/db")).as_deref(), Some("older"));
}

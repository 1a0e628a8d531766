//! Each guard on a node that is a directory: sysfs, /proc, and a disk that is a file. It passes on a node as it should be, and
//! fails for each single thing that is wrong.
#![allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm)] // the fixture of a test

mod moments;

use super::*;
use crate::watcher::Silent;
use config::{Config, Source};
use host::{ExecError, Invocation, Output, Root, Runner, Tool, files::Files};
use node::{Identity, authority::LunUse, layout::RECORD};
use observe::secrets::Secrets;
use std::{
    fs::{self, File, OpenOptions},
    ops::Deref,
    os::unix::fs::FileExt,
    path::PathBuf,
};
use terms::Nonce;

const MACHINE: &str = "0123456789abcdef0123456789abcdef";
const TARGET: &str = "iqn.2024-02.com.example:etcd";
const WWID: &str = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4";
const OTHER: &str = "naa.60014051d8e4a3bd5a94f3f9ffffffff";
const OURS: FsUuid = FsUuid([1; 16]);
const FOREIGN: FsUuid = FsUuid([3; 16]);
const SIZE: u64 = 64 << 20;

/// Answers for the tools: what blkid finds on the disk that is a file, and which paths of a map the kernel uses.
#[derive(Debug)]
struct Tools {
    image: PathBuf,
    active: &'static str,
}

impl Runner for Tools {
    fn run(&self, what: &Invocation, _: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
        let output = |code, stdout: &str| Ok(Output { code, stdout: stdout.into(), ..Output::default() });
        match what.tool {
            Tool::Blkid => {
                let mut magic = [0; 4];
                File::open(&self.image).unwrap().read_exact_at(&mut magic, 0).unwrap();
                if &magic == b"XFSB" { output(0, "TYPE=xfs\nUSAGE=filesystem\n") } else { output(2, "") }
            }
            Tool::Dmsetup => output(0, self.active),
            _ => Err(ExecError::Missing(what.tool)),
        }
    }

    fn has(&self, _: Tool) -> bool {
        true
    }
}

/// A node that is a directory.
struct Node {
    files: Files,
    host: Host,
    config: Config,
}

impl Deref for Node {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Node {
    /// With a blank disk of its own, which nobody uses.
    fn with_device() -> Self {
        let node = Self::with("[device]\npath = \"/dev/disk/by-id/virtio-etcd0\"\n", "A");
        node.whole_disk("img", "8:16");
        node.link("../../img", "dev/disk/by-id/virtio-etcd0");
        let image = File::create(node.files.0.join("dev/img")).unwrap();
        image.set_len(SIZE).unwrap();
        node
    }

    /// With two sessions, each with one path of a multipath map.
    fn with_paths(active: &'static str) -> Self {
        let node = Self::with(
            &format!(
                "[target]\niqn = \"{TARGET}\"\nportals = [\"10.0.0.1\", \"10.0.0.2\"]\n\
                 [[node]]\nhostname = \"master-0\"\ninitiator = \"iqn.1994-05.com.redhat:node\"\nlun = 1\n"
            ),
            active,
        );
        for (sid, disk) in [(1, "sda"), (2, "sdb")] {
            node.path(sid, disk);
        }
        node.disk("dm-0", "253:0", SIZE / 512);
        node.put("sys/class/block/dm-0/dm/uuid", &format!("mpath-{WWID}\n"));
        node.put("sys/class/block/dm-0/dm/name", "mpatha\n");
        node
    }

    fn with(backing: &str, active: &'static str) -> Self {
        let files = Files::new("guard");
        let base = &files.0;
        fs::create_dir_all(base.join("dev")).unwrap();
        let tools = Tools { image: base.join("dev/img"), active };
        let host = Host::fixture(Root::new(base), Box::new(tools)).unwrap();
        let text = format!("{backing}[etcd]\nruntime = \"systemd\"\n");
        let source = Source { path: "config.toml".into(), text };
        let config = Config::load(&[source], MACHINE, "master-0").unwrap();
        let node = Self { files, host, config };
        node.process(1, "");
        node.record(&record().commit(None));
        node
    }

    /// A session of ours with one path of the map.
    fn path(&self, sid: u32, disk: &str) {
        self.session(sid, TARGET, "etcd-lun");
        let connection = format!("connection{sid}:0");
        self.dir(&format!("sys/devices/platform/host{sid}/session{sid}/{connection}"));
        for name in ["persistent_address", "address"] {
            self.put(&format!("sys/class/iscsi_connection/{connection}/{name}"), &format!("10.0.0.{sid}"));
        }
        for name in ["persistent_port", "port"] {
            self.put(&format!("sys/class/iscsi_connection/{connection}/{name}"), "3260");
        }
        self.lun(sid, 1, WWID, disk);
        self.whole_disk(disk, &format!("8:{}", sid * 16));
        self.put(&format!("sys/class/block/{disk}/device/state"), "running\n");
        self.dir(&format!("sys/class/block/{disk}/holders/dm-0"));
    }

    fn whole_disk(&self, name: &str, number: &str) {
        self.disk(name, number, SIZE / 512);
        self.put(&format!("sys/class/block/{name}/device/wwid"), WWID);
    }

    fn record(&self, record: &Record) {
        self.put(RECORD.trim_start_matches('/'), &record.to_text().unwrap());
    }

    fn changed(&self, change: fn(&mut Record)) {
        let mut record = self.look(|run| machine::record(run)).unwrap();
        change(&mut record);
        self.record(&record);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let image = OpenOptions::new().write(true).open(self.files.0.join("dev/img")).unwrap();
        image.write_all_at(bytes, at).unwrap();
    }

    /// Writes the superblock of an XFS: kernel `fs/xfs/libxfs/xfs_format.h`, `struct xfs_dsb`.
    fn format(&self, uuid: FsUuid, in_progress: bool) {
        let mut sector = [0_u8; 512];
        sector[..4].copy_from_slice(b"XFSB");
        sector[4..8].copy_from_slice(&4096_u32.to_be_bytes());
        sector[8..16].copy_from_slice(&(SIZE / 4096).to_be_bytes());
        sector[32..48].copy_from_slice(&uuid.0);
        sector[84..88].copy_from_slice(&4096_u32.to_be_bytes());
        sector[88..92].copy_from_slice(&4_u32.to_be_bytes());
        sector[100..102].copy_from_slice(&5_u16.to_be_bytes());
        sector[102..104].copy_from_slice(&512_u16.to_be_bytes());
        sector[126] = in_progress.into();
        self.write(0, &sector);
    }

    fn look<T>(&self, guard: impl FnOnce(&Run<'_>) -> anyhow::Result<T>) -> Result<T, String> {
        let identity = Identity {
            machine_id: MACHINE.into(),
            hostname: "master-0".into(),
            former_name: None,
            joined_host_namespace: false,
        };
        let (secrets, mut silent) = (Secrets::default(), Silent);
        let hands = Box::new(hands::Direct::by_hand(&self.config));
        let door = hands::Door::to(&self.host, hands::Requester::Person, hands);
        let run = Run::new(&door, &self.config, &secrets, &identity, &mut silent);
        guard(&run).map_err(|error| format!("{error:#}"))
    }
}

fn wwid() -> Wwid {
    WWID.parse().unwrap()
}

fn record() -> Record {
    Record::begin(1, OURS, wwid(), "/var/lib/etcd".parse().unwrap(), Nonce([0; 16]))
}

/// A change of a node, and what the guard says then.
type Row = (fn(&Node), &'static str);

/// The guard passes on the node, and fails after each of these changes of it.
fn fails_for_each<T: std::fmt::Debug>(
    new: impl Fn() -> Node,
    guard: impl Fn(&Run<'_>) -> anyhow::Result<T>,
    rows: &[Row],
) {
    new().look(&guard).unwrap();
    for (change, says) in rows {
        let node = new();
        change(&node);
        match node.look(&guard) {
            Ok(passed) => panic!("passes instead of \"{says}\": {passed:?}"),
            Err(error) => assert!(error.contains(says), "{error}, not \"{says}\""),
        }
    }
}

/// The faults that make a LUN unfit for every step.
const UNFIT: [Row; 9] = [
    (|node| node.put("sys/class/block/img/device/wwid", OTHER), "another LUN has taken its place"),
    (
        |node| fs::remove_file(node.files.0.join("sys/class/block/img/device/wwid")).unwrap(),
        "cannot be determined",
    ),
    (|node| node.put("sys/class/block/img/ro", "1"), "is read-only now"),
    (|node| node.dir("sys/class/block/img/holders/dm-3"), "is held by dm-3"),
    (
        |node| node.process(7, "90 22 8:16 / /mnt rw - xfs /dev/img rw\n"),
        "is in use at /mnt by pause (pid 7)",
    ),
    (
        |node| node.put("proc/swaps", "Filename Type Size Used Priority\n/dev/img partition 1 0 -2\n"),
        "in use at swap",
    ),
    (|node| node.process(7, "no mount\n"), "users cannot be determined"),
    (|node| fs::remove_file(node.files.0.join("dev/disk/by-id/virtio-etcd0")).unwrap(), "has gone"),
    (|node| fs::remove_dir_all(node.files.0.join("sys/class/block/img")).unwrap(), "has gone"),
];

#[test]
fn only_the_lun_itself_unused_and_writable_passes() {
    fails_for_each(Node::with_device, |run| lun(run, &wwid()), &UNFIT);
}

/// While this run has it mounted, its own process is no user of it.
#[test]
fn this_process_is_a_user_where_it_has_not_staged_the_lun() {
    let node = Node::with_device();
    node.process(std::process::id(), "90 22 8:16 / /mnt rw - xfs /dev/img rw\n");
    assert!(node.look(|run| lun(run, &wwid())).unwrap_err().contains("is in use at /mnt"));
}

/// Whatever a plan says, nothing is done with a LUN that the node's entry does not name.
#[test]
fn only_a_lun_of_the_entry_passes() {
    let [this, other] = [wwid(), OTHER.parse().unwrap()];
    for (named, passes) in [(None, true), (Some(&this), true), (Some(&other), false)] {
        let mut node = Node::with_device();
        node.config.node.wwid = named.cloned();
        match node.look(|run| blank_lun(run, &this)) {
            Ok(_) => assert!(passes, "{:?}", node.config.node),
            Err(said) => assert!(!passes && said.contains("the entry of this node does not name"), "{said}"),
        }
    }
}

#[test]
fn only_a_blank_lun_is_formatted() {
    let rows: [Row; 4] = [
        (|node| node.format(FOREIGN, false), "holds an XFS with UUID"),
        (|node| node.write(4096, b"data"), "holds bytes that no tool recognises"),
        (|node| node.write(SIZE - 512, b"data"), "holds bytes that no tool recognises"),
        (
            |node| {
                node.record(&record());
                node.format(OURS, true);
            },
            "parts of the unfinished filesystem",
        ),
    ];
    fails_for_each(Node::with_device, |run| blank_lun(run, &wwid()), &[&UNFIT[..], &rows].concat());
}

#[test]
fn only_the_filesystem_that_is_named_is_mounted() {
    let formatted = || {
        let node = Node::with_device();
        node.format(OURS, false);
        node
    };
    let rows: [Row; 3] = [
        (|node| node.format(FOREIGN, false), "holds filesystem"),
        (|node| node.write(0, &[0; 512]), "does not hold filesystem"),
        (|node| node.format(OURS, true), "does not hold filesystem"),
    ];
    let rows = [&UNFIT[..], &rows].concat();
    fails_for_each(formatted, |run| lun_holds(run, &wwid(), &OURS), &rows);
    let of_record: [Row; 2] = [
        (|node| node.changed(|record| record.uuid = FOREIGN), "the record names filesystem"),
        (
            |node| fs::remove_file(node.files.0.join(RECORD.trim_start_matches('/'))).unwrap(),
            "the record is gone",
        ),
    ];
    fails_for_each(formatted, |run| lun_of_ours(run, &wwid(), &OURS), &[&rows[..], &of_record].concat());
}

#[test]
fn data_is_on_the_lun_only_if_this_lun_is_mounted_there_once() {
    const MOUNT: &str = "90 22 8:16 / /var/lib/etcd rw - xfs /dev/img rw\n";
    let mounted = || {
        let node = Node::with_device();
        node.process(1, MOUNT);
        node
    };
    let data_dir: AbsPath = "/var/lib/etcd".parse().unwrap();
    fails_for_each(
        mounted,
        |run| data_is_on_lun(run, &data_dir),
        &[
            (|node| node.record(&record()), "the local copy is authoritative"),
            (|node| node.changed(|record| record.wwid = OTHER.parse().unwrap()), "the record names"),
            (|node| node.process(1, ""), "is not mounted"),
            (|node| node.process(1, &MOUNT.replace("/var/lib/etcd", "/mnt")), "is not mounted"),
            (|node| node.process(1, &MOUNT.repeat(2)), "more than once"),
            (|node| node.process(1, &MOUNT.replace("8:16", "8:32")), "is on device 8:32"),
            (|node| node.put("sys/class/block/img/device/wwid", OTHER), "the record names"),
            (|node| fs::remove_file(node.files.0.join("dev/disk/by-id/virtio-etcd0")).unwrap(), "has gone"),
        ],
    );
}

#[test]
fn a_session_in_use_is_not_logged_out() {
    let rows: [Row; 5] = [
        (|node| node.process(7, "90 22 8:16 / /mnt rw - xfs /dev/sda rw\n"), "session 1 is in use"),
        (|node| node.dir("sys/class/block/sda/holders/dm-3"), "session 1 is in use"),
        (|node| node.process(7, "90 22 253:0 / /mnt rw - xfs /dev/dm-0 rw\n"), "session 1 is in use"),
        (|node| node.dir("sys/class/block/dm-0/holders/dm-3"), "session 1 is in use"),
        (|node| node.process(7, "no mount\n"), "looking for users"),
    ];
    // The map of multipathd alone is no use.
    fails_for_each(|| Node::with_paths(BOTH_WORK), |run| session_is_free(run.host, 1), &rows);
    // It has gone by itself.
    let used = Node::with_paths(BOTH_WORK);
    rows[0].0(&used);
    used.look(|run| session_is_free(run.host, 5)).unwrap();
}

#[test]
fn only_a_free_path_of_the_same_lun_is_added() {
    let step = AddPath { map: "dm-0".into(), path: "sdc".into(), wwid: wwid() };
    let free = || {
        let node = Node::with_paths(BOTH_WORK);
        node.whole_disk("sdc", "8:48");
        node
    };
    let rows: [Row; 3] = [
        (|node| node.put("sys/class/block/sdc/device/wwid", OTHER), "stays out of dm-0"),
        (|node| node.dir("sys/class/block/sdc/holders/dm-7"), "stays out"),
        (|node| fs::remove_dir_all(node.files.0.join("sys/class/block/sdc")).unwrap(), "stays out of dm-0"),
    ];
    fails_for_each(free, |run| path_is_free(run.host, &step), &rows);
}

/// A map of two paths, as `dmsetup status` prints it. `sda` is to be removed, and `sdb` must work.
const BOTH_WORK: &str = "0 131072 multipath 2 0 1 0 1 1 A 0 2 0 8:16 A 0 8:32 A 0\n";
const SDB_FAILED: &str = "0 131072 multipath 2 0 1 0 1 1 A 0 2 0 8:16 A 0 8:32 F 1\n";

#[test]
fn a_path_leaves_its_map_only_if_another_one_works() {
    let step = RemovePath { map: "dm-0".into(), path: "sda".into(), sid: 1 };
    let guard = |run: &Run<'_>| another_path_works(run, &step);
    assert_eq!(Node::with_paths(BOTH_WORK).look(guard), Ok("sdb".into()));
    let rows: [Row; 9] = [
        (|node| node.put("sys/class/block/sdb/device/state", "transport-offline\n"), "sdb does not work"),
        (|node| node.put("sys/class/block/sdb/device/wwid", OTHER), "sdb does not work"),
        (|node| node.put("sys/class/block/sdb/size", "2048"), "sdb does not work"),
        (
            |node| fs::remove_dir_all(node.files.0.join("sys/class/block/sdb/holders")).unwrap(),
            "sdb does not work",
        ),
        (|node| node.put("sys/class/block/sdb/stat", "0 0 0 0 0 0 0 0 3 0 0\n"), "sdb does not work"),
        (|node| node.put("sys/class/iscsi_session/session2/state", "FAILED"), "has no other path that works"),
        (
            |node| {
                for name in ["persistent_address", "address"] {
                    node.put(&format!("sys/class/iscsi_connection/connection2:0/{name}"), "10.0.0.9");
                }
            },
            "has no other path that works",
        ),
        (|node| node.dir("sys/class/block/sda/holders/dm-7"), "so it stays"),
        (|node| fs::remove_dir_all(node.files.0.join("sys/class/block/dm-0")).unwrap(), "so it stays"),
    ];
    fails_for_each(|| Node::with_paths(BOTH_WORK), guard, &rows);
    let failed = Node::with_paths(SDB_FAILED).look(guard).unwrap_err();
    assert!(failed.contains("sdb does not work"), "{failed}");
}

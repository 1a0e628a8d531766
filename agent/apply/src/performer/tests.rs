//! The record, the bar and the fence on a `/var` that is full to its last block, and after a power cut. Needs root.
#![allow(clippy::disallowed_methods)] // the fixture of a test

use super::*;
use crate::{
    steps::{commit, retire},
    watcher::Silent,
};
use config::Config;
use host::{Host, Root, files::Files, namespace, transcript::NoTools};
use node::authority::LunUse;
use observe::secrets::Secrets;
use std::{
    fs::{self, File},
    io::ErrorKind,
    process::Command,
};
use terms::Nonce;

const MACHINE: &str = "0123456789abcdef0123456789abcdef";
const WWID: &str = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4";
const CONFIG: &str = "[device]\npath = \"/dev/disk/by-id/virtio-etcd0\"\n[etcd]\nruntime = \"systemd\"\n";
const AT: &str = "/var/lib/etcd";
/// More blocks than any of these needs.
const MANY: u32 = 500;

/// A node whose `/var` is a small filesystem of its own, with etcd's data.
struct Node {
    files: Files,
    host: Host,
}

impl Node {
    fn new(kind: &str) -> Self {
        let files = Files::new("full");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        files.put("proc/1/mountinfo", "");
        let node = Self { files, host };
        let made = format!(
            "truncate --size 300M image && mkfs.{kind} -q image && mkdir var && mount -o loop image var \
             && mkdir -p var/lib/etcd/member/snap var/lib/etcd-lun && echo data >var/lib/etcd/member/snap/db"
        );
        node.sh(&made);
        node
    }

    fn sh(&self, line: &str) {
        let done = Command::new("sh").args(["-ec", line]).current_dir(&self.files.0).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Takes every block that is left.
    fn fill(&self) {
        self.sh(
            "fallocate -o $(stat -c %s var/filler || echo 0) -l $(($(stat -f -c '%a * %S' var) - 1048576)) var/filler || true
             for size in 64k 4k 512; do dd if=/dev/zero of=var/filler bs=$size oflag=append conv=notrunc,fsync || true; done
             sync -f var",
        );
        assert!(self.host.root.write_durably(&"/var/more".parse().unwrap(), "x", 0o600).is_err());
    }

    fn run<T>(&self, act: impl FnOnce(&mut Run<'_>) -> T) -> T {
        let source = config::Source { path: "config.toml".into(), text: CONFIG.into() };
        let config = Config::load(&[source], MACHINE, "master-0").unwrap();
        let (machine_id, hostname) = (MACHINE.into(), "master-0".into());
        let identity = Identity { machine_id, hostname, former_name: None, joined_host_namespace: false };
        let hands = Box::new(hands::Direct::by_hand(&config));
        let door = hands::Door::to(&self.host, hands::Requester::Person, hands);
        act(&mut Run::new(&door, &config, &Secrets::default(), &identity, &mut Silent))
    }

    /// Tries on the full disk, and with one block more until it is done; each time the power is cut right after it, and then this
    /// must hold. Returns how many blocks it needed.
    fn until_done(&self, act: impl Fn(&mut Run<'_>) -> anyhow::Result<String>, holds: impl Fn(bool)) -> u32 {
        self.fill();
        for blocks in 0..MANY {
            let done = self.run(&act);
            self.sh("xfs_io -x -c shutdown var && umount var && mount -o loop image var");
            holds(done.is_ok());
            if done.is_ok() {
                return blocks;
            }
            self.sh("truncate --size -4096 var/filler && sync -f var");
        }
        panic!("not done with {MANY} blocks: {:?}", self.run(&act));
    }

    /// Until the record is written it is the one of before. Returns how many blocks that needed.
    fn written(&self, before: Option<&Record>, record: &Record) -> u32 {
        let write = |run: &mut Run<'_>| commit::write(run, record.clone());
        self.until_done(write, |done| {
            let found = self.run(|run| Machine::record(run)).unwrap();
            assert_eq!(found.as_ref(), if done { Some(record) } else { before });
        })
    }

    /// What an etcd gets that opens its database, or makes one.
    fn opened(&self, data: &str) -> Result<String, ErrorKind> {
        let db = self.host.root.locate(data).join(node::DATABASE);
        let open = File::options().write(true).create(true).truncate(false).open(&db);
        open.map(|_| fs::read_to_string(&db).unwrap()).map_err(|error| error.kind())
    }

    /// The data directory is fenced, and the data lies aside, whole.
    fn is_fenced(&self, aside: Aside) {
        assert_eq!(self.opened(AT), Err(ErrorKind::NotADirectory));
        let new = fs::create_dir(self.host.root.locate(AT).join("new")).unwrap_err();
        assert_eq!(new.kind(), ErrorKind::PermissionDenied);
        assert_eq!(self.opened(&aside.path()).as_deref(), Ok("data\n"));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.sh("umount var");
    }
}

/// On XFS and on ext4.
fn on_each(act: impl Fn(&Node)) {
    let has = |tool: &str| Command::new(tool).arg("-V").output().is_ok();
    if !nix::unistd::geteuid().is_root() || !["mkfs.xfs", "xfs_io", "mkfs.ext4"].into_iter().all(has) {
        println!("not run: needs root, xfsprogs and e2fsprogs");
        return;
    }
    namespace::private_mounts().unwrap();
    for kind in ["xfs", "ext4"] {
        println!("{kind}");
        act(&Node::new(kind));
    }
}

fn begun(generation: u64) -> Record {
    Record::begin(generation, FsUuid([1; 16]), WWID.parse().unwrap(), AT.parse().unwrap(), Nonce([0; 16]))
}

fn put_aside(aside: Aside) -> impl Fn(&mut Run<'_>) -> anyhow::Result<String> {
    move |run| {
        let at = AT.parse()?;
        retire::put_aside(run, &at, aside, |_| Ok(()))?;
        fence::fence(run, &at)
    }
}

#[test]
fn a_record_is_the_one_or_the_other() {
    on_each(|node| {
        let [first, second] = [1, 2].map(begun);
        assert_ne!(node.written(None, &first), 0);
        assert_eq!(node.written(Some(&first), &second), 0);
        assert_eq!(node.written(Some(&second), &first), 0);
        // One of an earlier release has no spare.
        fs::remove_file(node.host.root.locate("/var/lib/etcd-lun/.authority.json.spare")).unwrap();
        assert_ne!(node.written(Some(&first), &second), 0);
    });
}

#[test]
fn data_that_is_out_of_date_keeps_etcd_out_while_the_disk_is_full() {
    on_each(|node| {
        let needed = node.until_done(put_aside(Aside::Barred), |done| match done {
            true => node.is_fenced(Aside::Barred),
            false => assert_eq!(node.opened(AT), Err(ErrorKind::PermissionDenied)),
        });
        assert_ne!(needed, 0);
    });
}

/// A commit that can't be written leaves etcd on the local disk. After one that is written, the LUN can serve.
#[test]
fn what_comes_after_the_commit_needs_no_block() {
    on_each(|node| {
        let (begun, mut record) = (begun(1), begun(1).commit(None));
        node.written(None, &begun);
        assert_ne!(node.written(Some(&begun), &record), 0);
        assert_eq!(node.opened(AT).as_deref(), Ok("data\n"));
        let aside = Aside::Retired { generation: 1 };
        assert_eq!(node.until_done(put_aside(aside), |_| node.is_fenced(aside)), 0);
        // A boot, and a `mark` much later.
        for activations in [1, 1_000_000] {
            assert_eq!(node.until_done(|run| fence::fence(run, &AT.parse()?), |_| node.is_fenced(aside)), 0);
            let (before, next) = (record.clone(), LunUse { activations, nonce: Nonce([7; 16]) });
            record.announced = Some(next);
            assert_eq!(node.written(Some(&before), &record), 0);
            let announced = record.clone();
            record = record.used(next);
            assert_eq!(node.written(Some(&announced), &record), 0);
        }
    });
}

//! Room on the LUN: a real etcd on a real XFS, with its database at the quota, is defragmented.
//!
//! Needs root, etcd (Debian: etcd-server), curl and xfsprogs. Without them the test prints that and does nothing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use health::Outcome;
use host::{Host, staging, tree, xfs};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use node::{Content, Etcd, EtcdState, Fact, LocalDir, LunView, Node, PodState};
use plan::{Goal, Occasion, Refusal};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use support::{attached, config, config_for, data_mount, etcd as etcd_unit, health_facts, known, migrated};
use terms::{AbsPath, Bytes};

const MIB: u64 = 1 << 20;
const QUOTA: u64 = 256 * MIB;
/// The smallest LUN that is accepted without a warning, and the smallest that is accepted.
const ROOMY: u64 = 2 * QUOTA + 1024 * MIB;
const SMALLEST: u64 = QUOTA + 256 * MIB;
const URL: &str = "http://127.0.0.1:23979";
const LIMIT: Duration = Duration::from_secs(60);

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// An XFS as the program makes it, of this size, in a mount namespace of the test's own, and an etcd on it.
struct Lun {
    host: Host,
    dir: PathBuf,
    device: AbsPath,
    etcd: Option<Child>,
}

impl Lun {
    fn new(size: u64) -> Self {
        let host = Host::machine().unwrap();
        let dir = PathBuf::from(format!("/var/tmp/etcd-lun-room-{}", std::process::id()));
        fs::create_dir_all(dir.join("data")).unwrap();
        File::create(dir.join("image")).unwrap().set_len(size).unwrap();
        let device = run("losetup", &["-f", "--show", dir.join("image").to_str().unwrap()]).parse().unwrap();
        let mut made = Self { host, dir, device, etcd: None };
        let uuid = support::OURS;
        xfs::make_filesystem(&made.host, &made.device, &uuid, &"etcd-lun".parse().unwrap(), LIMIT).unwrap();
        run("mount", &[made.device.as_str(), made.data().as_str()]);
        made.start();
        made
    }

    fn data(&self) -> AbsPath {
        self.dir.join("data").to_str().unwrap().parse().unwrap()
    }

    /// Starts etcd. Returns false if it ends by itself.
    fn start(&mut self) -> bool {
        let mut etcd = Command::new("etcd");
        // Kubernetes writes small objects. Here are few large ones, and the log keeps as many as are not in a snapshot.
        etcd.args(["--log-level", "error", "--snapshot-count", "20", "--data-dir", self.data().as_str()]);
        etcd.args(["--listen-client-urls", URL, "--advertise-client-urls", URL]);
        etcd.args(["--listen-peer-urls", "http://127.0.0.1:23980"]);
        let child = etcd.env("ETCD_QUOTA_BACKEND_BYTES", QUOTA.to_string()).stderr(Stdio::null()).spawn();
        self.etcd = Some(child.unwrap());
        let begun = Instant::now();
        while !self.ask("kv/range", "{\"key\": \"YQ==\"}").contains("header") {
            if self.etcd.as_mut().unwrap().try_wait().unwrap().is_some() {
                return false;
            }
            assert!(begun.elapsed() < LIMIT, "etcd does not answer");
            sleep(Duration::from_millis(200));
        }
        true
    }

    fn ask(&self, what: &str, question: &str) -> String {
        let file = self.dir.join("question");
        fs::write(&file, question).unwrap();
        let (url, data) = (format!("{URL}/v3/{what}"), format!("@{}", file.display()));
        let output = Command::new("curl").args(["-s", "-m", "60", "-d", &data, &url]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes until the quota is reached. Returns the answer.
    fn fill(&self) -> String {
        let value = "A".repeat(1_400_000);
        for key in 0..2000 {
            let said = self.ask("kv/put", &format!("{{\"key\": \"{key:08}\", \"value\": \"{value}\"}}"));
            if !said.contains("revision") {
                return said;
            }
        }
        panic!("2,000 keys are below the quota");
    }

    /// Returns what etcd says if it fails.
    fn defragment(&self) -> Option<String> {
        Some(self.ask("maintenance/defragment", "{}"))
            .filter(|said| !said.starts_with("{}") && !said.starts_with("{\"header"))
    }

    fn free(&self) -> (Bytes, Bytes) {
        let space = staging::space(tree::open(self.data().as_path()).unwrap()).unwrap();
        (space.free, space.size)
    }

    /// What health says of it.
    fn verdict(&self) -> Outcome {
        let database = self.host.root.size(node::database(&self.data()).as_path()).ok();
        let mount = node::DataMount { free: Some(self.free()), database, ..data_mount("8:16") };
        let node = Node { mount: Fact::Known(Some(mount)), ..migrated() };
        let report = health::assess(&config(), &node, &health_facts());
        report.rows.into_iter().find(|row| row.check == "free-space").unwrap().outcome
    }
}

impl Drop for Lun {
    fn drop(&mut self) {
        if let Some(etcd) = &mut self.etcd {
            let _ended = etcd.kill().and_then(|()| etcd.wait());
        }
        let _unmounted = Command::new("umount").arg(self.dir.join("data")).status();
        let _detached = Command::new("losetup").args(["-d", self.device.as_str()]).status();
        let _removed = fs::remove_dir_all(&self.dir);
    }
}

/// The plan of a move to a LUN of this size, with the quota as it was read: its warnings.
fn planned(quota: &Fact<Bytes>, size: u64) -> Result<usize, Refusal> {
    let mut config = config();
    config.lun.min_size = Bytes(300 * MIB);
    let mut node =
        Node { quota: quota.clone(), local: Fact::Known(LocalDir::Absent), ..attached(Content::Blank) };
    let LunView::Seen(lun) = known(&mut node.lun) else { panic!() };
    (lun.size, lun.path_size) = (Bytes(size), Bytes(size));
    Goal::Lun(Occasion::ByHand).plan(&config, &node).map(|plan| plan.warnings.len())
}

/// The first step by hand when etcd is down for want of room, and the LUN has grown at the target.
fn way_out(full: &Lun, runtime: &str, etcd: Etcd) -> &'static str {
    let mount = node::DataMount { free: Some(full.free()), ..data_mount("8:16") };
    let mut node = Node { mount: Fact::Known(Some(mount)), etcd: Fact::Known(etcd), ..migrated() };
    let LunView::Seen(lun) = known(&mut node.lun) else { panic!() };
    (lun.size, lun.path_size) = (Bytes(2 * ROOMY), Bytes(2 * ROOMY));
    Goal::Lun(Occasion::ByHand).plan(&config_for(runtime), &node).unwrap().steps[0].id()
}

#[test]
fn a_database_at_its_quota_is_defragmented_where_nothing_warned() {
    let has = |tool: &str| Command::new(tool).arg("-V").output().is_ok();
    if !nix::unistd::geteuid().is_root() || !["etcd", "curl", "mkfs.xfs"].into_iter().all(has) {
        eprintln!("not run: needs root, etcd, curl and xfsprogs");
        return;
    }
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
    let mut lun = Lun::new(ROOMY);
    let quota = observe::quota(&lun.host, &lun.data());
    assert_eq!(quota, Fact::Known(Bytes(QUOTA)));
    assert!(matches!(planned(&quota, SMALLEST - 1), Err(Refusal::TooSmall { .. })));
    assert_eq!([SMALLEST, ROOMY - 1, ROOMY].map(|size| planned(&quota, size).unwrap()), [1, 1, 0]);

    let said = lun.fill();
    assert!(said.contains("database space exceeded"), "{said}");
    // etcd removes files of its log that it needs no more every 30 s (`server/etcdserver/server.go`).
    let filled = Instant::now();
    while !matches!(lun.verdict(), Outcome::Ok(_)) && filled.elapsed() < LIMIT {
        sleep(Duration::from_secs(1));
    }
    let Outcome::Ok(said) = lun.verdict() else { panic!("{:?}", lun.verdict()) };
    println!("at the quota, after {} s: {said}", filled.elapsed().as_secs());
    assert_eq!(lun.defragment(), None);

    // Somebody has put other files on it.
    let database = lun.host.root.size(node::database(&lun.data()).as_path()).unwrap();
    let other = (lun.free().0.0 - database.0 / 2).to_string();
    run("fallocate", &["-l", &other, lun.dir.join("data/other").to_str().unwrap()]);
    let Outcome::Found(said) = lun.verdict() else { panic!("{:?}", lun.verdict()) };
    println!("{said}");
    let said = lun.defragment().unwrap();
    assert!(said.contains("no space left on device"), "{said}");
    let rest = |lun: &Lun| {
        let names = fs::read_dir(lun.dir.join("data/member/snap")).unwrap();
        names
            .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with("db.tmp"))
            .count()
    };
    println!("after it: {} free, {} db.tmp", lun.free().0, rest(&lun));
    assert_eq!(rest(&lun), 1);
    let mut etcd = lun.etcd.take().unwrap();
    etcd.kill().and_then(|()| etcd.wait()).unwrap();

    // The way out: the LUN grows, XFS with it, and etcd starts.
    assert_eq!(way_out(&lun, "systemd", etcd_unit("failed")), "grow");
    let pod = Etcd { state: EtcdState::Pod(PodState::WaitingForKubelet), ..etcd_unit("failed") };
    assert_eq!(way_out(&lun, "static-pod", pod), "grow");
    File::options().write(true).open(lun.dir.join("image")).unwrap().set_len(2 * ROOMY).unwrap();
    run("losetup", &["-c", lun.device.as_str()]);
    xfs::grow(&lun.host, &lun.data(), LIMIT).unwrap();
    assert!(lun.start());
    assert_eq!(rest(&lun), 0);
    assert_eq!(lun.defragment(), None);
    assert!(matches!(lun.verdict(), Outcome::Ok(_)));
}

//! Trees, rsync, staging and inodes on a real XFS behind a loop device.
//!
//! Needs root; says so and does nothing without. Each test has a mount namespace of its own, so
//! that nothing it mounts is seen elsewhere or left behind.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use etcd_lun::{
    host::{
        Host, Interrupt,
        inode::{self, ExchangeError},
        rsync::{self, Cause, Pass, RsyncError},
        staging::{self, Access, Staging, StagingError},
        tree::{self, TreeError},
    },
    terms::AbsPath,
};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, openat, utimensat};
use std::{
    error::Error,
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: usize = 1 << 20;

/// A directory of its own, and in it XFS images behind loop devices.
struct Bench {
    dir: PathBuf,
    devices: Vec<PathBuf>,
    host: Host,
}

impl Bench {
    /// A bench for the test, or nothing where it can't run.
    fn new(test: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("{test}: not run: needs root");
            return None;
        }
        if Command::new("losetup").arg("-f").output().is_ok_and(|output| !output.status.success()) {
            eprintln!("{test}: not run: needs loop devices");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        let dir = PathBuf::from(format!("/var/tmp/etcd-lun-rooted-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Some(Self { dir, devices: Vec::new(), host: Host::machine().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn abs(&self, name: &str) -> AbsPath {
        self.path(name).to_str().unwrap().parse().unwrap()
    }

    fn image(&self) -> PathBuf {
        self.path("image")
    }

    /// Attaches an image so that reads go to the file's medium: a loop device would else have
    /// pages of its own.
    fn attach(&mut self, image: &Path) -> PathBuf {
        let image = image.to_str().unwrap();
        let device: PathBuf = run("losetup", &["-f", "--show", "--direct-io=on", image]).trim().into();
        self.devices.push(device.clone());
        device
    }

    /// A new XFS.
    fn xfs(&mut self) -> PathBuf {
        let image = self.image();
        File::create(&image).unwrap().set_len(320 << 20).unwrap();
        run("mkfs.xfs", &["-q", image.to_str().unwrap()]);
        self.attach(&image)
    }

    fn stage(&self, device: &Path, access: Access) -> Staging {
        Staging::mount(&self.host, device, &self.abs("staging"), access).unwrap()
    }

    fn copy(&self, pass: Pass) -> Result<(), RsyncError> {
        rsync::copy(&self.host, &self.path("source"), &self.path("staging"), pass, LIMIT, &mut |_| {})
    }

    /// Compares `source` with what is mounted.
    fn proof(&self, staging: &Staging) -> Result<tree::Summary, TreeError> {
        let source = tree::open(&self.path("source")).unwrap();
        tree::compare(source, staging.root().unwrap(), &Interrupt::never(), &mut |_| {})
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _unmounted = umount2(&self.path("staging"), MntFlags::MNT_DETACH);
        for device in &self.devices {
            let _detached = Command::new("losetup").arg("-d").arg(device).status();
        }
        let _removed = fs::remove_dir_all(&self.dir);
    }
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The whole chain of an error on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn set_time(path: &Path, nanoseconds: i64) {
    let time = Timespec { tv_sec: 1_700_000_000, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A tree like etcd's, with a marker in the database that is nowhere else on the disk.
fn fill(root: &Path) {
    fs::create_dir_all(root.join("member/snap")).unwrap();
    fs::create_dir_all(root.join("member/wal")).unwrap();
    let mut content: Vec<u8> = (0..5 * MIB + 123).map(|at| (at % 251) as u8).collect();
    content[3 * MIB..3 * MIB + MARKER.len()].copy_from_slice(MARKER);
    fs::write(root.join("member/snap/db"), content).unwrap();
    let wal = File::create(root.join("member/wal/0.wal")).unwrap();
    wal.set_len(64 * MIB as u64).unwrap();
    wal.write_all_at(b"entries", 0).unwrap();
    fs::write(root.join("member/wal/other"), "owned").unwrap();
    fs::hard_link(root.join("member/wal/other"), root.join("member/wal/another")).unwrap();
    chown(root.join("member/wal/other"), Some(12_345), Some(54_321)).unwrap();
    fs::set_permissions(root.join("member/wal/other"), fs::Permissions::from_mode(0o4750)).unwrap();
    symlink("snap/db", root.join("member/db")).unwrap();
    set_time(&root.join("member/db"), 7);
    fs::set_permissions(root, fs::Permissions::from_mode(0o700)).unwrap();
}

const MARKER: &[u8] = b"these bytes are in the database and nowhere else on this medium";

fn find(image: &Path, wanted: &[u8]) -> u64 {
    let mut file = File::open(image).unwrap();
    let mut buffer = vec![0; MIB];
    for at in (0..).step_by(MIB / 2) {
        file.seek(SeekFrom::Start(at)).unwrap();
        let count = file.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "the marker is not on the medium");
        if let Some(found) = buffer[..count].windows(wanted.len()).position(|piece| piece == wanted) {
            return at + found as u64;
        }
    }
    unreachable!()
}

fn hash(path: &Path) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).unwrap()).unwrap();
    hasher.finalize()
}

#[test]
fn the_proof_reads_the_device() {
    let Some(mut bench) = Bench::new("device") else { return };
    fill(&bench.path("source"));
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    bench.copy(Pass::Fill).unwrap();
    let fresh = bench.proof(&staging).unwrap();
    staging.sync().unwrap();

    // One bit of the medium turns behind the filesystem's back.
    let at = find(&bench.image(), MARKER);
    let image = OpenOptions::new().write(true).open(bench.image()).unwrap();
    image.write_all_at(&[MARKER[0] ^ 1], at).unwrap();
    image.sync_all().unwrap();
    // The page cache knows nothing of it, which is why a proof must not read from there.
    assert_eq!(bench.proof(&staging).unwrap(), fresh);
    staging.unmount().unwrap();
    let staging = bench.stage(&device, Access::ReadOnly);
    assert!(File::create(bench.path("staging/x")).is_err());
    let error = bench.proof(&staging).unwrap_err();
    assert_eq!(error.to_string(), "member/snap/db: content differs from byte 3145728 on");
    staging.unmount().unwrap();

    image.write_all_at(&MARKER[..1], at).unwrap();
    image.sync_all().unwrap();
    let staging = bench.stage(&device, Access::ReadOnly);
    assert_eq!(bench.proof(&staging).unwrap(), fresh);
    staging.unmount().unwrap();
    let root = staging::inspect(&bench.host, &device).unwrap();
    assert_eq!(tree::fingerprint(root, &Interrupt::never(), &mut |_| {}).unwrap(), fresh);
}

#[test]
fn a_second_pass_finds_every_change() {
    let Some(mut bench) = Bench::new("passes") else { return };
    let source = bench.path("source");
    fill(&source);
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let mut last = 0;
    rsync::copy(&bench.host, &source, &bench.path("staging"), Pass::Fill, LIMIT, &mut |done| last = done)
        .unwrap();
    let summary = bench.proof(&staging).unwrap();
    assert_eq!(last, summary.bytes.0);
    // Holes stay holes, though the medium is smaller than the sum of what is to come.
    let wal = || fs::metadata(bench.path("staging/member/wal/0.wal")).unwrap().blocks() * 512;
    assert!(wal() < MIB as u64, "{}", wal());

    for pass in [Pass::Update, Pass::Fill] {
        // Changed in the middle, same size and same time: etcd writes its database in place.
        let db = source.join("member/snap/db");
        let before = fs::metadata(&db).unwrap();
        let file = OpenOptions::new().write(true).open(&db).unwrap();
        file.write_all_at(format!("{pass:?}").as_bytes(), 4 * MIB as u64).unwrap();
        drop(file);
        let time = Timespec { tv_sec: before.mtime(), tv_nsec: before.mtime_nsec() };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, &db, &times, AtFlags::empty()).unwrap();
        // Appended within preallocated space, beyond what was a hole.
        let file = OpenOptions::new().write(true).open(source.join("member/wal/0.wal")).unwrap();
        file.write_all_at(format!("more {pass:?}").as_bytes(), 40_000_001).unwrap();
        drop(file);
        // Times that differ in nanoseconds, of a directory and of a file without change.
        set_time(&source.join("member/wal/other"), 1 + pass as i64);
        set_time(&source.join("member/wal"), 1 + pass as i64);
        // Gone, new, shorter, of another type, and not ours.
        fs::write(source.join(format!("new {pass:?}")), "new").unwrap();
        fs::write(bench.path("staging/member/leftover"), "old").unwrap();
        fs::create_dir_all(bench.path("staging/lost/deep")).unwrap();
        fs::write(bench.path("staging/lost/deep/file"), "old").unwrap();
        fs::remove_file(source.join("member/db")).unwrap();
        fs::create_dir(source.join("member/db")).unwrap();
        assert!(bench.proof(&staging).is_err());
        bench.copy(pass).unwrap();
        bench.proof(&staging).unwrap();
        assert!(wal() < 2 * MIB as u64, "{pass:?} {}", wal());
        fs::remove_dir(source.join("member/db")).unwrap();
        symlink("snap", source.join("member/db")).unwrap();
        // Not of this second: rsync 3.1.3 leaves a link that it just made its own nanoseconds then.
        set_time(&source.join("member/db"), 8);
    }
    // Data becomes zeros, and a file shrinks.
    File::options().write(true).open(source.join("member/snap/db")).unwrap().set_len(4096).unwrap();
    File::options().write(true).open(source.join("member/snap/db")).unwrap().set_len(3 << 20).unwrap();
    for pass in [Pass::Update, Pass::Fill] {
        bench.copy(pass).unwrap();
        bench.proof(&staging).unwrap();
    }
    staging.unmount().unwrap();
}

#[test]
fn a_full_disk_is_said_to_be_full() {
    let Some(mut bench) = Bench::new("full") else { return };
    fill(&bench.path("source"));
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let filler = File::create(bench.path("staging/filler")).unwrap();
    let free = staging::space(&filler).unwrap().free.0;
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&filler, flags, 0, free - (3 << 20)).unwrap();
    drop(filler);
    assert!(staging::space(staging.root().unwrap()).unwrap().free.0 <= 3 << 20);
    let to = bench.path("staging/below");
    for pass in [Pass::Fill, Pass::Update] {
        let error =
            rsync::copy(&bench.host, &bench.path("source"), &to, pass, LIMIT, &mut |_| {}).unwrap_err();
        assert!(matches!(error, RsyncError::Failed { cause: Cause::Full, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("member/snap") && text.contains("No space left on device"), "{text}");
    }
    staging.unmount().unwrap();
    let gone =
        rsync::copy(&bench.host, &bench.path("absent"), &bench.path("to"), Pass::Fill, LIMIT, &mut |_| {});
    assert!(chain(&gone.unwrap_err()).contains("absent"));
}

#[test]
fn what_a_copy_would_lose() {
    let Some(mut bench) = Bench::new("lose") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let root = bench.path("staging");
    fill(&root);
    let check = || tree::unsupported(staging.root().unwrap(), &Interrupt::never());
    check().unwrap();
    let db = root.join("member/snap/db");
    let path = db.to_str().unwrap();
    let wal = root.join("member/wal");
    let link = root.join("member/db");
    let null = root.join("null");
    let (wal, link, null) = (wal.to_str().unwrap(), link.to_str().unwrap(), null.to_str().unwrap());
    let cases: &[(&[&str], &[&str], &str)] = &[
        (
            &["setfacl", "-m", "u:7:r", path],
            &["setfacl", "-b", path],
            "member/snap/db has an access control list",
        ),
        (
            &["setfacl", "-d", "-m", "u:7:r", wal],
            &["setfacl", "-b", wal],
            "member/wal has an access control list",
        ),
        (
            &["setcap", "cap_net_admin+ep", path],
            &["setcap", "-r", path],
            "member/snap/db has file capabilities",
        ),
        (
            &["setfattr", "-h", "-n", "trusted.note", "-v", "x", link],
            &["setfattr", "-h", "-x", "trusted.note", link],
            "member/db has the extended attribute trusted.note",
        ),
        (
            &["setfattr", "-n", "trusted.note", "-v", "x", path],
            &["setfattr", "-x", "trusted.note", path],
            "member/snap/db has the extended attribute trusted.note",
        ),
        (&["chattr", "+i", path], &["chattr", "-i", path], "member/snap/db is immutable"),
        (&["chattr", "+a", wal], &["chattr", "-a", wal], "member/wal is append-only"),
        (
            &["xfs_io", "-c", "chattr +P", wal],
            &["xfs_io", "-c", "chattr -P", wal],
            "member/wal belongs to a quota project",
        ),
        (&["mknod", null, "c", "1", "3"], &["rm", null], "null is a device node"),
    ];
    for (make, undo, expected) in cases {
        run(make[0], &make[1..]);
        let error = check().unwrap_err();
        assert!(matches!(error, TreeError::Unsupported { .. }), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error}");
        run(undo[0], &undo[1..]);
        check().unwrap();
    }
    // Made by the kernel, or by policy.
    run("setfattr", &["-n", "security.selinux", "-v", "system_u:object_r:etc_t:s0", path]);
    check().unwrap();
    // Another filesystem, and another place of this one, below: no link was followed, no device number differs.
    fs::create_dir(root.join("below")).unwrap();
    mount(Some("none"), &root.join("below"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    assert!(matches!(check(), Err(TreeError::Mounted { .. })));
    umount2(&root.join("below"), MntFlags::empty()).unwrap();
    mount(Some(&root.join("member")), &root.join("below"), None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .unwrap();
    assert_eq!(check().unwrap_err().to_string(), "below is a mount point: unmount what is there");
    umount2(&root.join("below"), MntFlags::empty()).unwrap();
    check().unwrap();
    staging.unmount().unwrap();
}

#[test]
fn a_refused_mount_says_why() {
    let Some(mut bench) = Bench::new("refused") else { return };
    let device = bench.xfs();
    let copy = bench.path("copy");
    fs::copy(bench.image(), &copy).unwrap();
    let twin = bench.attach(&copy);
    let staging = bench.stage(&device, Access::ReadWrite);
    let at = |name: &str| bench.abs(name);
    let mount_error = |device: &Path, name: &str| {
        Staging::mount(&bench.host, device, &at(name), Access::ReadWrite).unwrap_err()
    };
    let error = mount_error(&device, "staging");
    assert!(matches!(error, StagingError::Occupied(_)), "{error:?}");
    symlink(bench.path("staging"), bench.path("link")).unwrap();
    let error = mount_error(&device, "link");
    assert!(matches!(error, StagingError::NotDirectory(_)), "{error:?}");

    let error = chain(&mount_error(&twin, "twin"));
    assert!(error.contains("duplicate UUID") && error.starts_with("mounting /dev/loop"), "{error}");
    assert!(error.ends_with("Invalid argument (os error 22)"), "{error}");
    let error = chain(&staging::inspect(&bench.host, &twin).unwrap_err());
    assert!(error.contains("duplicate UUID"), "{error}");
    // The same filesystem, mounted for writing.
    assert!(chain(&staging::inspect(&bench.host, &device).unwrap_err()).contains("(os error 16)"));

    OpenOptions::new().write(true).open(&copy).unwrap().write_all_at(b"damaged!", 96).unwrap();
    let error = chain(&mount_error(&twin, "twin"));
    assert!(error.contains("xfs_repair -n") && error.contains("CRC error"), "{error}");
    eprintln!("{error}");
    let error = chain(&mount_error(Path::new("/dev/null"), "twin"));
    assert!(error.contains("Block device required"), "{error}");
    let error = chain(&mount_error(Path::new("/dev/absent"), "twin"));
    assert!(error.contains("/dev/absent") && error.contains("No such file"), "{error}");
    staging.unmount().unwrap();
}

#[test]
fn inspecting_writes_nothing() {
    let Some(mut bench) = Bench::new("inspect") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    fill(&bench.path("staging"));
    staging.sync().unwrap();
    // What is only in the log when the power fails.
    fs::write(bench.path("staging/late"), "late").unwrap();
    inode::set_attribute(staging.root().unwrap(), c"trusted.stamp", b"late").unwrap();
    let unclean = bench.path("unclean");
    fs::copy(bench.image(), &unclean).unwrap();
    staging.unmount().unwrap();

    let device = bench.attach(&unclean);
    let before = hash(&unclean);
    let root = staging::inspect(&bench.host, &device).unwrap();
    let seen = inode::attribute(&root, c"trusted.stamp").unwrap();
    let space = staging::space(&root).unwrap();
    assert!(space.size.0 > 200 << 20 && space.free < space.size && space.free_inodes > 0, "{space:?}");
    assert!(openat(&root, c"x", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).is_err());
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(device.to_str().unwrap()));
    drop(root);
    assert_eq!(hash(&unclean), before, "inspecting wrote to the device");
    // Not seen, though it was synced: it is in the log.
    assert_eq!(seen, None);

    let staging = bench.stage(&device, Access::ReadOnly);
    assert_eq!(inode::attribute(staging.root().unwrap(), c"trusted.stamp").unwrap().unwrap(), b"late");
    staging.unmount().unwrap();
    let replayed = hash(&unclean);
    assert_ne!(replayed, before, "a read-only mount replays the log");
    drop(staging::inspect(&bench.host, &device).unwrap());
    assert_eq!(hash(&unclean), replayed, "inspecting wrote to the device");
}

#[test]
fn unmounting_is_not_done_while_held() {
    let Some(mut bench) = Bench::new("held") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let held = staging.root().unwrap();
    let error = staging.unmount().unwrap_err();
    assert!(error.to_string().contains("busy"), "{error}");
    drop(held);
    // Dropped by the error, it was at least detached.
    assert!(Staging::mount(&bench.host, &device, &bench.abs("staging"), Access::ReadWrite).is_ok());

    // A copy of the namespace keeps a mount of its own, which `umount` doesn't see.
    let staging = bench.stage(&device, Access::ReadWrite);
    let mut other = Command::new("unshare").args(["-m", "sleep", "60"]).spawn().unwrap();
    let comm = format!("/proc/{}/comm", other.id());
    while fs::read_to_string(&comm).unwrap().trim() != "sleep" {
        std::thread::sleep(Duration::from_millis(10));
    }
    let result = staging.unmount();
    other.kill().unwrap();
    other.wait().unwrap();
    let error = result.unwrap_err().to_string();
    assert!(error.contains("mounted elsewhere"), "{error}");
}

#[test]
fn beneath_a_mount() {
    let Some(mut bench) = Bench::new("beneath") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let base = bench.path("staging");
    fs::create_dir_all(base.join("data/member")).unwrap();
    fs::create_dir_all(base.join("retired")).unwrap();
    fs::set_permissions(base.join("data"), fs::Permissions::from_mode(0o700)).unwrap();
    chown(base.join("data"), Some(7), Some(8)).unwrap();
    mount(Some("none"), &base.join("data"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();

    let hidden = inode::beneath(&bench.host, &bench.abs("staging/data")).unwrap().unwrap();
    assert!(!inode::is_empty(&hidden).unwrap());
    assert!(inode::is_empty(tree::open(&base.join("data")).unwrap()).unwrap(), "the tmpfs is on top");
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), mounts);
    assert!(inode::beneath(&bench.host, &bench.abs("staging/absent")).unwrap().is_none());
    assert!(inode::beneath(&bench.host, &bench.abs("absent/absent")).unwrap().is_none());
    symlink("data", base.join("link")).unwrap();
    assert!(inode::beneath(&bench.host, &bench.abs("staging/link")).is_err());
    drop(hidden);

    // Two clones are two mounts; one that holds both names does it.
    let staged = inode::beneath(&bench.host, &bench.abs("staging/retired")).unwrap().unwrap();
    let parent = inode::beneath(&bench.host, &bench.abs("staging/data")).unwrap().unwrap();
    assert_ne!(inode::mount_id(&staged).unwrap(), inode::mount_id(&parent).unwrap());
    let apart = inode::exchange(&staged, "x", &parent, "member");
    assert!(matches!(apart, Err(ExchangeError::Apart)), "{apart:?}");
    drop(staged);
    drop(parent);
    umount2(&base.join("data"), MntFlags::empty()).unwrap();
    let root = staging.root().unwrap();
    let data = tree::open(&base.join("data")).unwrap();
    inode::set_attribute(&data, c"security.selinux", b"system_u:object_r:container_var_lib_t:s0\0").unwrap();
    let fence = inode::make_empty_dir_like(&root, "fence", &data).unwrap();
    assert_eq!(
        inode::attribute(&fence, c"security.selinux").unwrap(),
        inode::attribute(&data, c"security.selinux").unwrap()
    );
    inode::exchange(&root, "fence", &root, "data").unwrap();
    let found = fs::metadata(base.join("data")).unwrap();
    assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o700, 7, 8));
    assert!(base.join("fence/member").exists());

    mount(Some("none"), &base.join("data"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    let hidden = inode::beneath(&bench.host, &bench.abs("staging/data")).unwrap().unwrap();
    assert_eq!(inode::is_immutable(&hidden).unwrap(), Some(false));
    inode::set_immutable(&hidden, true).unwrap();
    assert_eq!(inode::is_immutable(&hidden).unwrap(), Some(true));
    drop(hidden);
    umount2(&base.join("data"), MntFlags::empty()).unwrap();
    let refused = fs::write(base.join("data/member"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(fs::rename(base.join("data"), base.join("moved")).is_err());
    inode::set_immutable(tree::open(&base.join("data")).unwrap(), false).unwrap();
    fs::write(base.join("data/member"), "x").unwrap();

    assert_eq!(inode::attribute(&root, c"trusted.stamp").unwrap(), None);
    inode::set_attribute(&root, c"trusted.stamp", b"one").unwrap();
    inode::set_attribute(&root, c"trusted.stamp", b"two").unwrap();
    assert_eq!(inode::attribute(&root, c"trusted.stamp").unwrap().unwrap(), b"two");
    let long = rustix::fs::fsetxattr(&root, c"trusted.stamp", &[1; 5000], rustix::fs::XattrFlags::empty());
    long.unwrap();
    assert!(inode::attribute(&root, c"trusted.stamp").unwrap_err().to_string().contains("longer than 4096"));
    inode::remove_attribute(&root, c"trusted.stamp").unwrap();
    drop((root, data, fence));
    staging.unmount().unwrap();
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let Some(mut bench) = Bench::new("eio") else { return };
    fill(&bench.path("source"));
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    bench.copy(Pass::Fill).unwrap();
    staging.unmount().unwrap();
    // The medium ends in the middle of the file's data.
    let at = find(&bench.image(), MARKER);
    let staging = bench.stage(&device, Access::ReadOnly);
    OpenOptions::new().write(true).open(bench.image()).unwrap().set_len(at / 4096 * 4096).unwrap();
    let error = chain(&bench.proof(&staging).unwrap_err());
    assert_eq!(error, "reading member/snap/db on the copy: Input/output error (os error 5)");
}

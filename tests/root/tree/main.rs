//! Trees, rsync, staging and inodes on a real XFS on a loop device.
//!
//! Needs root. Without root the tests print that and do nothing. Each test has a mount namespace of its own,
//! so its mounts are not visible elsewhere and end with it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

mod copying;
mod mounting;
mod settling;
mod updating;

use host::{
    Host, Interrupt, inode,
    rsync::{self, Pass, RsyncError},
    staging::{self, Access, Staging, StagingError},
    tree::{self, TreeError},
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
    os::fd::OwnedFd,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use terms::{AbsPath, Hasher};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: usize = 1 << 20;

/// A directory of the test's own, with XFS images on loop devices.
struct Bench {
    dir: PathBuf,
    devices: Vec<PathBuf>,
    host: Host,
}

impl Bench {
    /// Returns `None` where the test cannot run.
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

    /// Attaches an image with direct I/O, so that reads reach the file's medium. Otherwise the loop device
    /// would have pages of its own.
    fn attach(&mut self, image: &Path) -> PathBuf {
        let image = image.to_str().unwrap();
        let device: PathBuf = run("losetup", &["-f", "--show", "--direct-io=on", image]).trim().into();
        self.devices.push(device.clone());
        device
    }

    /// Makes a new XFS.
    fn xfs(&mut self) -> PathBuf {
        self.xfs_in(&self.image(), &[])
    }

    /// Makes a new XFS in this image, with more options of mkfs.xfs.
    fn xfs_in(&mut self, image: &Path, more: &[&str]) -> PathBuf {
        File::create(image).unwrap().set_len(500 << 20).unwrap();
        run("mkfs.xfs", &[&["-q", image.to_str().unwrap()], more].concat());
        self.attach(image)
    }

    fn stage(&self, device: &Path, access: Access) -> Staging {
        self.try_to_stage(device, "staging", access).unwrap()
    }

    fn try_to_stage(&self, device: &Path, name: &str, access: Access) -> Result<Staging, StagingError> {
        let make = || staging::detached(File::open(device)?, access, "");
        Staging::attach(&self.host, device, &self.abs(name), &[], make)
    }

    fn inspect(&self, device: &Path) -> Result<OwnedFd, StagingError> {
        let make = || staging::detached(File::open(device)?, Access::ReadOnly, "norecovery");
        staging::inspect(&self.host, device, make)
    }

    fn copy(&self, pass: Pass) -> Result<(), RsyncError> {
        rsync::copy(&self.host, &self.path("source"), &self.path("staging"), pass, LIMIT, &mut |_| {})
    }

    /// Compares `source` with the mounted copy.
    fn proof(&self, staging: &Staging) -> Result<tree::Summary, TreeError> {
        self.proof_like(staging, 0)
    }

    /// The same, with the seed of a fingerprint to compare with.
    fn proof_like(&self, staging: &Staging, seed: u64) -> Result<tree::Summary, TreeError> {
        let read = |root| tree::fingerprint(root, seed, &Interrupt::never(), &mut |_| {});
        let source = read(tree::open(&self.path("source")).unwrap())?;
        let copy = read(staging.root().unwrap())?;
        // It knows no hash.
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference"]).arg(self.path("source")).arg(self.path("staging"));
        let diff = diff.output().unwrap();
        match source == copy {
            true => assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout)),
            false => {
                return Err(TreeError::Different { file: "the copy".into(), found: format!("{copy:?}") });
            }
        }
        Ok(copy)
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

/// The whole chain of an error, on one line.
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

/// Makes a tree like etcd's. Its database has a marker that is nowhere else on the disk.
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

fn hash(path: &Path) -> [u8; 16] {
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; MIB]);
    let mut file = File::open(path).unwrap();
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => return hasher.finish(),
            count => hasher.update(&buffer[..count]),
        }
    }
}

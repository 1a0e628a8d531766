//! A machine for tests: a directory whose files are what the kernel shows in /proc and /sys.
#![allow(clippy::unwrap_used, reason = "only tests use this")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

/// A directory that stands for a machine. It is removed at the end.
#[derive(Debug)]
pub struct Files(pub PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

impl Files {
    /// In memory if possible, because a test may write thousands of them.
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let memory = PathBuf::from("/dev/shm");
        let dir = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let base = dir.join(format!("etcd-lun-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        Self(base)
    }

    /// Writes a file.
    pub fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes a directory.
    pub fn dir(&self, path: &str) {
        fs::create_dir_all(self.0.join(path)).unwrap();
    }

    /// Makes a link.
    pub fn link(&self, to: &str, at: &str) {
        let at = self.0.join(at);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(to, at).unwrap();
    }

    /// A process in a mount namespace of its own, in the place of an earlier one.
    pub fn process(&self, pid: u32, mounts: &str) {
        let _ = fs::remove_dir_all(self.0.join(format!("proc/{pid}")));
        self.link(&format!("mnt:[{pid}]"), &format!("proc/{pid}/ns/mnt"));
        self.link("/", &format!("proc/{pid}/root"));
        self.put(&format!("proc/{pid}/mountinfo"), mounts);
        self.put(&format!("proc/{pid}/comm"), "pause\n");
    }

    /// A disk that udev has finished with, and to which no command waits.
    pub fn disk(&self, name: &str, number: &str, sectors: u64) {
        let dir = format!("sys/class/block/{name}");
        self.put(&format!("{dir}/dev"), &format!("{number}\n"));
        self.put(&format!("{dir}/size"), &format!("{sectors}\n"));
        self.put(&format!("{dir}/ro"), "0\n");
        self.put(&format!("{dir}/stat"), "0 0 0 0 0 0 0 0 0 0 0\n");
        self.put(&format!("{dir}/diskseq"), "7\n");
        self.put(&format!("run/udev/data/b{number}"), "S:disk/by-diskseq/7\nI:1\n");
    }

    /// A session, on a SCSI host with its own number.
    pub fn session(&self, sid: u32, target: &str, interface: &str) {
        let dir = format!("sys/class/iscsi_session/session{sid}");
        for (name, text) in [
            ("targetname", target),
            ("ifacename", interface),
            ("state", "LOGGED_IN"),
            ("initiatorname", "iqn.1994-05.com.redhat:node"),
            ("target_id", "0"),
            ("tpgt", "1"),
            ("recovery_tmo", "120"),
        ] {
            self.put(&format!("{dir}/{name}"), &format!("{text}\n"));
        }
        let device = format!("sys/devices/platform/host{sid}/session{sid}");
        self.dir(&device);
        self.link(self.0.join(&device).to_str().unwrap(), &format!("{dir}/device"));
    }

    /// A LUN of a session, and its disk.
    pub fn lun(&self, sid: u32, number: u32, wwid: &str, disk: &str) {
        let address = format!("sys/bus/scsi/devices/{sid}:0:0:{number}");
        self.put(&format!("{address}/type"), "0\n");
        self.put(&format!("{address}/wwid"), &format!("{wwid}\n"));
        self.dir(&format!("{address}/block/{disk}"));
    }
}

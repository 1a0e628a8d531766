use super::{file::FileId, *};
use crate::{Host, Root, transcript::NoTools};
use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};
use terms::AbsPath;

/// A machine with a `/proc` of our own. Its links lead to real files, as those of the kernel do.
struct Machine {
    base: PathBuf,
    host: Host,
}

impl Machine {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("etcd-lun-filelock-{}-{count}", std::process::id()));
        fs::create_dir_all(base.join("proc/sys")).unwrap();
        fs::create_dir_all(base.join("data/member")).unwrap();
        fs::write(base.join("data/member/db"), "").unwrap();
        fs::write(base.join("elsewhere"), "").unwrap();
        fs::write(base.join("proc/locks"), "").unwrap();
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        Self { base, host }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    fn process(&self, pid: u32, command: &str) {
        let dir = self.path(&format!("proc/{pid}"));
        fs::create_dir_all(dir.join("fd")).unwrap();
        fs::create_dir_all(dir.join("fdinfo")).unwrap();
        fs::create_dir_all(dir.join(format!("task/{pid}"))).unwrap();
        fs::write(dir.join("comm"), format!("{command}\n")).unwrap();
        fs::write(dir.join("maps"), "1-2 rw-p 00000000 00:00 0    [heap]\n").unwrap();
    }

    fn open(&self, pid: u32, fd: u32, file: &str, info: &str) {
        let dir = self.path(&format!("proc/{pid}"));
        symlink(self.path(file), dir.join(format!("fd/{fd}"))).unwrap();
        fs::write(dir.join(format!("fdinfo/{fd}")), info).unwrap();
    }

    fn lock(&self, line_before: &str, file: &str) {
        let id = FileId::of(&self.path(file)).unwrap().unwrap();
        let (major, minor) = id.device;
        let line = format!("1: {line_before} {major:02x}:{minor:02x}:{} 0 EOF\n", id.inode);
        fs::write(self.path("proc/locks"), line).unwrap();
    }

    fn holders(&self) -> String {
        let found = holders(&self.host, "/data/member/db").unwrap();
        found.iter().map(Holder::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).unwrap();
    }
}

const READ: &str = "pos:\t0\nflags:\t0100000\n";
const WRITE: &str = "pos:\t0\nflags:\t0100002\n";

#[test]
fn by_descriptor() {
    let machine = Machine::new();
    machine.process(7, "etcd");
    machine.process(8, "less");
    machine.process(9, "vi");
    machine.open(7, 10, "data/member/db", WRITE);
    machine.open(8, 3, "data/member/db", READ);
    machine.open(9, 4, "elsewhere", WRITE);
    machine.open(9, 5, "gone", WRITE);
    assert_eq!(machine.holders(), "etcd (pid 7)");
    assert_eq!(holders(&machine.host, "/data/member/absent").unwrap(), []);
    // If one of its parent directories is a file, it is absent too.
    assert_eq!(holders(&machine.host, "/data/member/db/absent").unwrap(), []);
}

#[test]
fn by_lock() {
    let machine = Machine::new();
    machine.process(7, "etcd");
    for (before, holders) in [
        ("FLOCK  ADVISORY  WRITE 7", "etcd (pid 7)"),
        ("POSIX  ADVISORY  READ 7", "etcd (pid 7)"),
        ("-> FLOCK  ADVISORY  WRITE 7", ""),
        ("OFDLCK ADVISORY  WRITE -1", "a process that can't be seen from here"),
        ("FLOCK  ADVISORY  WRITE 0", "a process that can't be seen from here"),
        ("FLOCK  ADVISORY  WRITE 6", "a process that can't be seen from here"),
    ] {
        machine.lock(before, "data/member/db");
        assert_eq!(machine.holders(), holders, "{before}");
        let locked = lock_holders(&machine.host, "/data/member/db").unwrap();
        assert_eq!(locked.first().map(Holder::to_string).unwrap_or_default(), holders, "{before}");
        assert_eq!(lock_holders(&machine.host, "/data/member/absent").unwrap(), []);
    }
    // If a process is known to have the file open, a lock without an owner counts as that process's lock.
    machine.open(7, 10, "data/member/db", &format!("{READ}lock:\t1: OFDLCK ADVISORY  READ -1 0:0:0 0 EOF\n"));
    machine.lock("OFDLCK ADVISORY  WRITE -1", "data/member/db");
    assert_eq!(machine.holders(), "etcd (pid 7)");
    machine.lock("OFDLCK ADVISORY  WRITE -1", "elsewhere");
    assert_eq!(machine.holders(), "etcd (pid 7)");
    assert_eq!(lock_holders(&machine.host, "/data/member/db").unwrap(), []);
    fs::remove_file(machine.path("proc/locks")).unwrap();
    assert!(holders(&machine.host, "/data/member/db").is_err());
}

#[test]
fn by_mapping_and_in_threads() {
    let machine = Machine::new();
    machine.process(7, "etcd");
    let id = FileId::of(&machine.path("data/member/db")).unwrap().unwrap();
    let (major, minor) = id.device;
    let maps = format!("1-2 r--s 00000000 {major:02x}:{minor:02x} {}      /x\n", id.inode);
    // The main thread has ended, so only the other thread's directory lists what is open.
    fs::create_dir_all(machine.path("proc/7/task/9")).unwrap();
    fs::write(machine.path("proc/7/task/9/maps"), &maps).unwrap();
    assert_eq!(machine.holders(), "etcd (pid 7)");
    fs::write(machine.path("proc/7/task/9/maps"), "truncat").unwrap();
    let error = holders(&machine.host, "/data/member/db").unwrap_err();
    assert!(error.to_string().ends_with("task/9/maps holds a line that is not a mapping"), "{error}");
}

#[test]
fn below_a_directory() {
    let machine = Machine::new();
    for pid in 6..=9 {
        machine.process(pid, "sh");
    }
    machine.open(6, 1, "elsewhere", WRITE);
    machine.open(7, 1, "data/member/db", READ);
    symlink(machine.path("data"), machine.path("proc/8/cwd")).unwrap();
    symlink(machine.path("data/member"), machine.path("proc/9/root")).unwrap();
    let found = open_below(&machine.host, "/data").unwrap();
    let pids: Vec<_> = found.iter().map(|open| open.holder.pid).collect();
    // 8 and 9 have nothing else open, so the threads are read, which have no links here.
    assert_eq!(pids, [Some(7)]);
    for pid in [8, 9] {
        machine.open(pid, 2, "elsewhere", READ);
    }
    let found = open_below(&machine.host, "/data").unwrap();
    let paths: Vec<_> = found.iter().map(|open| (open.holder.pid, open.path.clone())).collect();
    let at = |path| machine.path(path);
    assert_eq!(paths, [(Some(7), at("data/member/db")), (Some(8), at("data")), (Some(9), at("data/member"))]);
    assert_eq!(open_below(&machine.host, "/absent").unwrap(), []);
}

#[test]
fn one_lock_at_a_time() {
    let machine = Machine::new();
    let path: AbsPath = "/run/etcd-lun/lock".parse().unwrap();
    let first = Lock::take(&machine.host, &path).unwrap();
    let pid = std::process::id();
    machine.process(pid, "etcd-lun");
    machine.lock(&format!("FLOCK  ADVISORY  WRITE {pid}"), "run/etcd-lun/lock");
    let said = Lock::take(&machine.host, &path).unwrap_err().to_string();
    assert_eq!(
        said,
        format!("locking /run/etcd-lun/lock: etcd-lun (pid {pid}) holds it; try again when that has ended")
    );
    fs::remove_file(machine.path("proc/locks")).unwrap();
    assert!(matches!(
        Lock::take(&machine.host, &path),
        Err(LockError::Held { by: Holder { pid: None, .. }, .. })
    ));
    drop(first);
    drop(Lock::take(&machine.host, &path).unwrap());
    fs::remove_file(machine.path("run/etcd-lun/lock")).unwrap();
    symlink("/etc/passwd", machine.path("run/etcd-lun/lock")).unwrap();
    assert!(matches!(Lock::take(&machine.host, &path), Err(LockError::Io { .. })));
}

/// Uses the real /proc, but only for our own process, because the test may not be allowed to look at others.
#[test]
fn the_kernel_agrees() {
    let machine = Machine::new();
    let path = machine.path("data/member/db");
    let file = fs::OpenOptions::new().read(true).open(&path).unwrap();
    let pid = std::process::id();
    let real = format!("proc/{pid}");
    symlink(format!("/{real}"), machine.path(&real)).unwrap();
    fs::remove_file(machine.path("proc/locks")).unwrap();
    symlink("/proc/locks", machine.path("proc/locks")).unwrap();
    assert_eq!(machine.holders(), "");
    let open = open_below(&machine.host, "/data").unwrap();
    assert_eq!(open.iter().map(|open| open.holder.pid).collect::<Vec<_>>(), [Some(pid)]);
    file.lock().unwrap(); // exclusive, through a descriptor that can only read
    assert!(machine.holders().ends_with(&format!("(pid {pid})")), "{}", machine.holders());
    drop(file);
    // Another test may be starting a program: between fork and exec that process has our descriptors, too.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !machine.holders().is_empty() {
        assert!(std::time::Instant::now() < deadline, "{}", machine.holders());
    }
}

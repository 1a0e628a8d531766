//! One run of the bed: its directory, and a ledger of the processes that it started. Everything ends with the
//! run.
//!
//! The ledger is a file, because a killed run cannot clean up. The next run (or `bed clean`) ends the
//! processes in it. It ends only processes in the ledger, and only if the process number still means the same
//! process.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host;

const ROOT: &str = "/var/tmp/etcd-lun-bed";

/// A run in progress. When this value is dropped, everything that the run started ends.
#[derive(Debug)]
pub struct Run(Arc<Inner>);

/// Ends a run from another thread.
#[derive(Debug)]
pub struct Ender(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    /// Locked while a process is started. So the run cannot end between the start and the ledger's line about
    /// it.
    ended: Mutex<bool>,
}

impl Run {
    /// Cleans up after dead runs and begins a new one.
    pub fn begin() -> Result<Self> {
        let _lock = lock_runs()?;
        sweep_locked()?;
        let dir = Path::new(ROOT).join(std::process::id().to_string());
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        fs::write(dir.join("owner"), Entry::of(std::process::id())?.line("bed"))?;
        Ok(Self(Arc::new(Inner { dir, ended: Mutex::new(false) })))
    }

    /// The directory for disks, sockets and logs of this run.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The name of this run's network namespace.
    pub fn namespace(&self) -> String {
        namespace_of(&self.0.dir)
    }

    /// Starts a program in the background and writes it into the ledger. A ^C on the terminal does not reach
    /// the program: the run ends its programs itself, in order.
    pub fn spawn(&self, command: &mut Command, name: &str) -> Result<Child> {
        let ended = self.0.ended.lock().map_err(|_| anyhow!("a thread of the bed panicked"))?;
        if *ended {
            bail!("the run is over");
        }
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let entry = Entry::of(child.id())?.line(name);
        let ledger = self.0.dir.join("processes");
        fs::OpenOptions::new().create(true).append(true).open(ledger)?.write_all(entry.as_bytes())?;
        Ok(child)
    }

    /// A handle for another thread to end this run.
    pub fn ender(&self) -> Ender {
        Ender(Arc::clone(&self.0))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.ender().end();
    }
}

impl Ender {
    /// Ends everything that the run started. A second call does nothing.
    pub fn end(&self) {
        let mut ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if !*ended {
            *ended = true;
            end(&self.0.dir);
        }
    }
}

/// Ends what dead runs left behind. Returns how many dead runs there were.
pub fn sweep() -> Result<usize> {
    let _lock = lock_runs()?;
    sweep_locked()
}

/// Locks out other runs while a run begins or dead runs are cleaned up. A run that has only just made its
/// directory looks dead.
fn lock_runs() -> Result<Flock<File>> {
    let file = Path::new(ROOT).with_extension("lock");
    let open = File::create(&file).with_context(|| format!("cannot create {}", file.display()))?;
    Flock::lock(open, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

fn sweep_locked() -> Result<usize> {
    let mut swept = 0;
    let Ok(runs) = fs::read_dir(ROOT) else { return Ok(0) };
    for run in runs.flatten() {
        let owner = fs::read_to_string(run.path().join("owner")).unwrap_or_default();
        if !Entry::parse(&owner).is_some_and(|entry| entry.is_alive()) {
            end(&run.path());
            swept += 1;
        }
    }
    Ok(swept)
}

fn end(dir: &Path) {
    let ledger = fs::read_to_string(dir.join("processes")).unwrap_or_default();
    let entries: Vec<Entry> = ledger.lines().filter_map(Entry::parse).collect();
    for entry in entries.iter().filter(|entry| entry.is_alive()) {
        kill(Pid::from_raw(entry.pid), Signal::SIGKILL).ok();
    }
    let gone = || Ok((!entries.iter().any(Entry::is_alive)).then_some(()));
    host::poll(Duration::from_secs(10), Duration::from_millis(20), gone).ok();
    // The run's own namespace, and those of further machines, whose names begin with it.
    let own = namespace_of(dir);
    let further = format!("{own}-");
    let namespaces = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = namespaces.map(|entry| entry.file_name().to_string_lossy().into_owned());
    for name in names.filter(|name| *name == own || name.starts_with(&further)) {
        let mut delete = Command::new("ip");
        host::run(delete.args(["netns", "del", &name]), Duration::from_secs(10)).ok();
    }
    // Only mounts below the run's directory, which a scenario made. The last mount is on top, so it goes
    // first.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for at in mounts
        .lines()
        .rev()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|at| Path::new(at).starts_with(dir))
    {
        host::run(Command::new("umount").arg(at), Duration::from_secs(10)).ok();
    }
    fs::remove_dir_all(dir).ok();
}

fn namespace_of(dir: &Path) -> String {
    let id = dir.file_name().unwrap_or_default().to_string_lossy();
    format!("etcd-lun-bed-{id}")
}

/// A process. The start time distinguishes it from a later process with the same number.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    pid: i32,
    started: u64,
}

impl Entry {
    fn of(pid: u32) -> Result<Self> {
        let pid = i32::try_from(pid)?;
        let (_, started) = stat(pid).with_context(|| format!("process {pid} is gone already"))?;
        Ok(Self { pid, started })
    }

    fn line(&self, name: &str) -> String {
        format!("{} {} {name}\n", self.pid, self.started)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        Some(Self { pid: words.next()?.parse().ok()?, started: words.next()?.parse().ok()? })
    }

    /// Whether the process is alive. A zombie is not: it holds nothing and only waits for its parent.
    fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|(state, started)| state != 'Z' && started == self.started)
    }
}

/// State and start time of a process.
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some((stat_field(&text, 3)?.chars().next()?, stat_field(&text, 22)?.parse().ok()?))
}

/// A field of `/proc/PID/stat` by its number in proc_pid_stat(5), from the third on. The name before it may contain blanks
/// and brackets.
pub fn stat_field(line: &str, number: usize) -> Option<&str> {
    let (_, rest) = line.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_of_the_same_number() {
        let me = Entry::of(std::process::id()).unwrap();
        assert_eq!(Entry::parse(&me.line("me")), Some(Entry { ..me }));
        assert!(me.is_alive());
        assert!(!Entry { started: me.started + 1, ..me }.is_alive());
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = Command::new("true").spawn().unwrap();
        let entry = Entry::of(child.id()).unwrap();
        host::poll(
            Duration::from_secs(5),
            Duration::from_millis(5),
            || Ok((!entry.is_alive()).then_some(())),
        )
        .unwrap()
        .unwrap();
        child.wait().unwrap();
    }
}

//! `bench`: the real binary in a real directory on the build's disk. The measured times depend on this
//! machine and are not checked. What `bench` does and what files it leaves are checked.
//!
//! Needs root. Without root the tests print that and do nothing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// A directory of the test's own, on a disk. `new` returns `None` where the test cannot run.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("{name}: not run: needs root");
            return None;
        }
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Some(Self(path))
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_root-program"));
    command.arg("bench").args(args);
    command
}

fn run(args: &[&str]) -> (i32, String, String) {
    let output = bench(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn what_it_prints_fits_together() {
    let Some(dir) = Dir::new("json") else { return };
    let (code, out, err) = run(&[
        dir.text(),
        "--against",
        env!("CARGO_TARGET_TMPDIR"),
        "--size=8000,2300",
        "--writes=150",
        "--json",
    ]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["version"], 1, "{err}");
    let series = value["bench"]["series"].as_array().unwrap();
    let whose: Vec<_> = series
        .iter()
        .map(|one| (one["path"] == dir.text(), number(&one["block_bytes"]), number(&one["writes"])))
        .collect();
    assert_eq!(whose, [(true, 8000, 150), (true, 2300, 150), (false, 8000, 150), (false, 2300, 150)]);
    for one in series {
        let times: Vec<_> = ["p50", "p90", "p99", "p99_9", "max"]
            .iter()
            .map(|name| number(&one["fdatasync_ns"][name]))
            .collect();
        assert!(times.is_sorted() && times[0] > 0, "{one}");
        let verdict = match times[2] {
            0..2_000_000 => "fast-enough-for-heavy-clusters",
            2_000_000..10_000_000 => "fast-enough",
            _ => "too-slow",
        };
        assert_eq!(one["verdict"], verdict, "{one}");
    }
    let slow = series[..2].iter().any(|one| one["verdict"] == "too-slow");
    assert_eq!(code, if slow { 4 } else { 0 }, "{err}");
    assert_eq!(err.contains("unhealthy: "), slow, "{err}");
    assert!(dir.is_empty());
}

#[test]
fn a_page_for_people() {
    let Some(dir) = Dir::new("page") else { return };
    let (code, out, err) = run(&[dir.text(), "--writes", "100"]);
    assert!([0, 4].contains(&code), "{err}");
    for part in ["WRITES/S", "99.9 %", "SLOWEST", " 100 ", "99 of 100 within", dir.text()] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(dir.is_empty());
}

#[test]
fn what_can_not_be_measured() {
    let Some(dir) = Dir::new("errors") else { return };
    let dir = dir.text();
    let none = format!("{dir}/none");
    for (args, code, said) in [
        (&["/proc"][..], 1, "/proc"),
        (&["/dev/shm"], 1, "memory"),
        (&[&none], 1, "no such directory"),
        (&[dir, "--against", &none], 1, "no such directory"),
        (&["--config", &none], 2, "or name a directory: `etcd-lun bench DIR`"),
        (&[dir, "--against", dir], 2, "is the directory that is measured already"),
        (&[dir, "--against", &format!("{dir}/.")], 2, "is the directory that is measured already"),
        (&[dir, "--writes", "99"], 2, "--writes"),
        (&[dir, "--size", "4096"], 2, "4096"),
        (&[dir, dir], 2, dir),
    ] {
        let (found, out, err) = run(args);
        assert_eq!((found, out.as_str()), (code, ""), "{args:?}: {err}");
        assert!(err.lines().any(|line| line.starts_with("error") && line.contains(said)), "{args:?}: {err}");
    }
}

/// Starts a run and waits until it writes.
fn begun(dir: &Dir) -> Child {
    let mut child = bench(&[dir.text()]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    let is_writing = |child: &Child| {
        let fds = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        fds.filter_map(Result::ok).filter_map(|fd| fs::read_link(fd.path()).ok()).any(|to| {
            let to = to.to_string_lossy().into_owned();
            to.starts_with(dir.text()) && to.ends_with(" (deleted)")
        })
    };
    while !is_writing(&child) {
        assert!(since.elapsed() < Duration::from_secs(20) && child.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(1));
    }
    child
}

fn ended_by(signal: Signal, dir: &Dir) -> (ExitStatus, String) {
    let child = begun(dir);
    assert!(dir.is_empty(), "a file has a name while it is written");
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn nothing_is_left_by_a_kill() {
    let Some(dir) = Dir::new("kill") else { return };
    let (status, _) = ended_by(Signal::SIGKILL, &dir);
    assert_eq!(status.signal(), Some(9));
    assert!(dir.is_empty());
    let (status, err) = ended_by(Signal::SIGINT, &dir);
    assert_eq!(status.code(), Some(1), "{err}");
    assert!(err.contains("error [interrupted]: measuring: interrupted"), "{err}");
    assert!(dir.is_empty());
}

#[test]
fn an_etcd_that_runs_is_named() {
    let (Some(dir), Some(elsewhere)) = (Dir::new("beside"), Dir::new("stand-in")) else { return };
    // A stand-in for etcd: a program with etcd's name that does nothing.
    let stand_in = elsewhere.0.join("etcd");
    assert!(Command::new("cp").arg("/bin/sleep").arg(&stand_in).status().unwrap().success());
    let mut etcd = Command::new(&stand_in).arg("60").spawn().unwrap();
    // `spawn` may return before the child has its new name.
    let comm = format!("/proc/{}/comm", etcd.id());
    while fs::read_to_string(&comm).unwrap() != "etcd\n" {}
    let (_, out, err) = run(&[dir.text(), "--writes=100", "--json"]);
    etcd.kill().unwrap();
    etcd.wait().unwrap();
    assert!(err.contains("etcd is running"), "{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert!(value["bench"]["etcd_pids"].as_array().unwrap().contains(&etcd.id().into()), "{value}");
}

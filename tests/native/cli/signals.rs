//! Ctrl-C, Ctrl-Z and SIGTERM while a config, a secret or standard input is read.

use crate::{Dir, GOOD, tested_program};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, mkfifo},
};
use std::{
    fs,
    io::Read as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

fn pipe(path: &Path) {
    mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
}

/// The state of a process, such as S or T, and the function of the kernel that it waits in.
fn state(child: &Child) -> char {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn within(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// Starts the program in a group of its own and with no signal ignored, as a shell does. The kernel stops no process of a group
/// without a shell, and what runs in the background of a script ignores Ctrl-C.
fn start(args: &[&str]) -> Started {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(tested_program());
    command.args(args).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Started(command.spawn().unwrap())
}

/// Ends with the test, also if that fails.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Whether the program waits in a read, or has ended because this machine lets it do nothing.
fn waits(child: &mut Child) -> bool {
    let begun = Instant::now();
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        // It sleeps for a moment too while it starts. So it has to sleep for longer.
        if state(child) == 'S' && begun.elapsed() > Duration::from_millis(1500) {
            return true;
        }
        sleep(Duration::from_millis(20));
        assert!(begun.elapsed() < Duration::from_secs(20), "it neither waits nor ends");
    }
}

#[test]
fn signals_work_while_something_is_read() {
    let dir = Dir::new("signals");
    let config = dir.0.join("pipe.toml");
    pipe(&config);
    let config = config.to_str().unwrap();
    let secret = dir.0.join("chap.secret");
    pipe(&secret);
    let here = dir.0.to_str().unwrap();
    let from_pipe = dir.config(
        &GOOD.replace("password = \"hunter2hunter2\"", &format!("password_file = \"{}\"", secret.display())),
    );
    let from_pipe = from_pipe.as_str();
    let mut lines: Vec<Vec<&str>> = vec![
        vec!["config", "check", "--config", "-"],
        vec!["config", "check", "--config", from_pipe],
        vec!["config", "check", "--node", "x", "--secrets-from", here, "--config", from_pipe],
        vec!["render", "machineconfig", "--without-program", "--secrets-from", here, "--config", from_pipe],
    ];
    for verb in [
        "config check",
        "render udev",
        "render policy",
        "render machineconfig --without-program",
        "render target",
        "plan",
        "status",
        "health",
        "luns",
        "retired list",
        "retired delete 1",
        "bench",
        "selinux install",
        "selinux status",
        "selinux remove",
        "apply",
        "apply --dry-run",
        "apply --boot",
        "rollback",
        "claim",
        "mark",
        "let-go",
    ] {
        lines.push(verb.split(' ').chain(["--config", config]).collect());
    }
    let mut held = 0;
    let running: Vec<_> = lines.iter().map(|line| start(line)).collect();
    for (line, mut started) in lines.iter().zip(running) {
        let child = &mut started.0;
        if !waits(child) {
            let mut err = String::new();
            child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
            // A container cannot join PID 1's namespace, and others than root may not look at a node.
            assert!(err.contains("namespace") || err.contains("must run as root"), "{line:?}: {err}");
            continue;
        }
        held += 1;
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        kill(pid, Signal::SIGTSTP).unwrap();
        within(&format!("{line:?}: Ctrl-Z does nothing"), || state(child) == 'T');
        kill(pid, Signal::SIGCONT).unwrap();
        let signal = if held % 2 == 0 { Signal::SIGINT } else { Signal::SIGTERM };
        kill(pid, signal).unwrap();
        within(&format!("{line:?}: {signal} does nothing"), || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().signal(), Some(signal as i32), "{line:?}");
    }
    assert!(held >= 9, "{held}");
}

#[test]
fn what_is_neither_file_nor_pipe_is_refused() {
    let dir = Dir::new("kinds");
    let good = dir.config(GOOD);
    for config in ["/dev/zero", "/dev/null", dir.0.to_str().unwrap()] {
        let (code, _, err) = crate::run(&["config", "check", "--config", config]);
        assert_eq!(code, 2, "{config}: {err}");
        assert!(err.contains(config) && err.contains("name a file or a pipe"), "{err}");
    }
    let secret = GOOD.replace("password = \"hunter2hunter2\"", "password_file = \"/dev/zero\"");
    let (code, _, err) = crate::run(&["config", "check", "--config", &dir.config(&secret)]);
    assert!(code == 2 && err.contains("/dev/zero: it is a device"), "{code}: {err}");
    // A pipe is one that a shell makes of `<(…)`.
    let line = format!("{} config check --config <(cat {good})", tested_program().display());
    dir.config(GOOD);
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

//! Runs programs on the host, the machine that runs the bed. Each run has a time limit.

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The result of a program.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// The exit code, or 128 + n when signal n ended the program.
    pub code: i32,
    /// Standard output. Bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error. Bytes that are not UTF-8 are replaced.
    pub stderr: String,
}

impl Output {
    /// Standard output and standard error in one string, to search in.
    pub fn both(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}", self.code)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.trim().is_empty() {
                write!(f, "\n  {name}: {}", text.trim_end().replace('\n', "\n          "))?;
            }
        }
        Ok(())
    }
}

/// Runs a program to its end. Any exit code is accepted.
pub fn run(command: &mut Command, limit: Duration) -> Result<Output> {
    run_with_input(command, &[], limit)
}

/// Runs a program to its end and gives it bytes as standard input.
pub fn run_with_input(command: &mut Command, input: &[u8], limit: Duration) -> Result<Output> {
    let what = describe(command);
    let mut child = command
        .stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{what}`"))?;
    // Each pipe has a thread of its own. Otherwise a program that fills one pipe while we read another would
    // never end.
    let stdin = child.stdin.take();
    let input = input.to_vec();
    let feeder = thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A program may end before it reads all input. Its exit code says more than the broken pipe, so
            // that error is ignored.
            let _ = stdin.write_all(&input);
        }
    });
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let code = wait(&mut child, limit);
    if code.is_none() {
        child.kill().ok();
        child.wait().ok();
    }
    feeder.join().ok();
    let output = Output {
        code: code.unwrap_or(-1),
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    };
    if code.is_none() {
        bail!("`{what}` did not end within {} s: {output}", limit.as_secs());
    }
    Ok(output)
}

/// Runs a program that must succeed. Returns its standard output.
pub fn ok(command: &mut Command, limit: Duration) -> Result<String> {
    let output = run(command, limit)?;
    if output.code != 0 {
        bail!("`{}` failed: {output}", describe(command));
    }
    Ok(output.stdout)
}

/// Copies the file of a disk or a LUN and keeps it sparse.
pub fn copy_sparse(from: &Path, to: &Path) -> Result<()> {
    let mut cp = Command::new("cp");
    let limit = Duration::from_secs(120);
    ok(cp.args(["--sparse=always", "--reflink=auto"]).arg(from).arg(to), limit).map(drop)
}

/// Whether a program of this name is on the search path.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        // A user's PATH often lacks these two directories, but tools for root are there.
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(program).is_file())
}

/// Calls `attempt` until it returns a value or the time limit is over.
pub fn poll<T>(
    limit: Duration,
    pause: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = attempt()? {
            return Ok(Some(value));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        thread::sleep(pause);
    }
}

/// Waits for a child process to end. Returns `None` when the time limit is over.
pub fn wait(child: &mut Child, limit: Duration) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                let signal = status.signal().map(|signal| 128 + signal);
                return status.code().or(signal).or(Some(-1));
            }
            Ok(None) if Instant::now() < end => thread::sleep(pause),
            _ => return None,
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).ok();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    let mut text = words.join(" ");
    if text.len() > 300 {
        let cut = (0..=300).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str(" ...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended_and_named() {
        let error = run(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().starts_with("`sleep 60` did not end"), "{error}");
    }

    #[test]
    fn exit_code_and_both_streams_come_back() {
        let mut sh = Command::new("sh");
        let output = run_with_input(
            sh.args(["-c", "cat; echo to stderr >&2; exit 7"]),
            b"to stdin\n",
            Duration::from_secs(10),
        )
        .unwrap();
        assert_eq!((output.code, output.both().as_str()), (7, "to stdin\nto stderr\n"));
    }

    #[test]
    fn a_large_input_and_output_do_not_block_each_other() {
        let input = vec![b'x'; 4 << 20];
        let output = run_with_input(&mut Command::new("cat"), &input, Duration::from_secs(20)).unwrap();
        assert_eq!(output.stdout.len(), input.len());
    }
}

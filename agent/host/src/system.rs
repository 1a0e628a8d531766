//! Runs programs on the machine.

use super::{
    Interrupt,
    exec::{ExecError, Invocation, Output, Runner, SEARCH, Tool},
};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{future::poll_fn, io, path::PathBuf, process::Stdio, task::Poll};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    runtime::{Builder, Runtime},
};

/// How much of standard error is kept: the end, because that says what went wrong.
const STDERR_KEPT: usize = 1024;
/// How much of standard output is kept. No tool here prints so much, and a broken tool must not fill memory.
const STDOUT_KEPT: usize = 4 << 20;

/// Runs programs without input, with a fixed environment and a time limit.
#[derive(Debug)]
pub(super) struct SystemRunner {
    interrupt: Interrupt,
    runtime: Runtime,
}

impl SystemRunner {
    pub(super) fn new(interrupt: Interrupt) -> io::Result<Self> {
        Ok(Self { interrupt, runtime: Builder::new_current_thread().enable_all().build()? })
    }

    async fn run_one(&self, what: &Invocation, watch: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
        let path = find(what.tool).ok_or(ExecError::Missing(what.tool))?;
        let io_error = |source| ExecError::Io { what: what.to_string(), source };
        tracing::debug!("running {what}");
        let mut command = Command::new(path);
        command.args(&what.args).env_clear().env("PATH", SEARCH.join(":")).env("LC_ALL", "C");
        if let Some(dir) = &what.dir {
            command.current_dir(dir.as_path());
        }
        if matches!(what.tool, Tool::Rsync | Tool::Iscsiadm) {
            // Both are linked with OpenSSL, for checksums that are not used here, and for CHAP's digests. It would look for its config,
            // in directories with keys of the node, which are closed to the service's SELinux domain (openssl-env(7)).
            command.env("OPENSSL_CONF", "/dev/null");
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal and its end reach the terminal's own group: this process decides then. The kernel
            // could end a program together with this process (PR_SET_PDEATHSIG), but to ask for that between fork and
            // exec is unsafe code. If this process is killed, the next run ends what is left (`apply/alone.rs`).
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(io_error)?;
        let finished = tokio::select! {
            finished = finish(&mut child, watch) => Some(finished.map_err(io_error)?),
            () = tokio::time::sleep(what.limit) => None,
            () = self.interrupt.requested() => {
                stop(&mut child).await;
                return Err(ExecError::Interrupted { what: what.to_string() });
            }
        };
        let Some((status, stdout, stderr)) = finished else {
            stop(&mut child).await;
            return Err(ExecError::TimedOut { what: what.to_string(), limit: what.limit });
        };
        let code = status.code().ok_or_else(|| ExecError::Signalled { what: what.to_string() })?;
        let output = Output { code, stdout, stderr };
        let printed = if what.tool.prints_a_secret() { "(not shown)" } else { &output.stdout };
        tracing::trace!(code, stdout = printed, stderr = output.stderr, "ran {what}");
        Ok(output)
    }
}

impl Runner for SystemRunner {
    fn run(&self, what: &Invocation, watch: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
        self.runtime.block_on(self.run_one(what, watch))
    }

    fn run_all(&self, what: &[Invocation]) -> Vec<Result<Output, ExecError>> {
        let each = what.iter().map(|one| async move { self.run_one(one, &mut |_| {}).await });
        self.runtime.block_on(join_all(each))
    }

    fn has(&self, tool: Tool) -> bool {
        find(tool).is_some()
    }
}

/// Waits for all of these together. The results are in their order.
pub(super) async fn join_all<F: Future>(each: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = each.map(|one| (Box::pin(one), None)).collect();
    poll_fn(|context| {
        let mut all = true;
        for (future, done) in running.iter_mut().filter(|(_, done)| done.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(result) => *done = Some(result),
                Poll::Pending => all = false,
            }
        }
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}

fn find(tool: Tool) -> Option<PathBuf> {
    SEARCH.iter().map(|dir| PathBuf::from(dir).join(tool.program())).find(|path| path.is_file())
}

/// Sends SIGKILL to the program and to the processes that it has started, then waits for the program, so that it leaves
/// no zombie. No program here needs time to clean up, and the next observation finds what was left half done.
async fn stop(child: &mut Child) {
    if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok())
        && let Err(error) = killpg(Pid::from_raw(group), Signal::SIGKILL)
    {
        tracing::debug!("killing the processes of a child: {error}");
    }
    if let Err(error) = child.kill().await {
        tracing::debug!("killing a child: {error}");
    }
}

/// How a program ended, its standard output, and the end of its standard error.
pub(super) type Finished = (std::process::ExitStatus, String, String);

/// Reads what a program prints until it ends.
pub(super) async fn finish(child: &mut Child, watch: &mut dyn FnMut(&str)) -> io::Result<Finished> {
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let (stdout, stderr) =
        tokio::try_join!(read(stdout, STDOUT_KEPT, Some(watch)), read(stderr, STDERR_KEPT, None))?;
    Ok((child.wait().await?, stdout, stderr))
}

/// Reads to the end, keeping the last `keep` bytes.
async fn read(
    from: Option<impl AsyncRead + Unpin>,
    keep: usize,
    mut watch: Option<&mut dyn FnMut(&str)>,
) -> io::Result<String> {
    let Some(mut from) = from else { return Ok(String::new()) };
    let mut kept = Vec::new();
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = from.read(&mut buffer).await?;
        let Some(piece) = buffer.get(..count).filter(|piece| !piece.is_empty()) else { break };
        kept.extend_from_slice(piece);
        if kept.len() > keep {
            kept.drain(..kept.len() - keep);
        }
        if let Some(watch) = &mut watch {
            for byte in piece {
                if matches!(byte, b'\n' | b'\r') {
                    watch(&String::from_utf8_lossy(&line));
                    line.clear();
                } else if line.len() < 4096 {
                    line.push(*byte);
                }
            }
        }
    }
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn runner() -> SystemRunner {
        SystemRunner::new(Interrupt::never()).unwrap()
    }

    #[test]
    fn speaks_by_codes() {
        let what = Invocation::new(Tool::Blkid, ["-p", "/nonexistent"]);
        if runner().has(Tool::Blkid) {
            let output = runner().run(&what, &mut |_| {}).unwrap();
            assert_ne!(output.code, 0);
        }
    }

    #[test]
    fn limit_is_kept_and_all_run_at_once() {
        // blkid on a pipe that nobody writes to waits for ever.
        let dir = std::env::temp_dir().join(format!("etcd-lun-limit-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let fifo = dir.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let what = Invocation::new(Tool::Rsync, ["--files-from", fifo.to_str().unwrap(), "/", "/nowhere"])
            .limit(Duration::from_millis(300));
        if runner().has(Tool::Rsync) {
            let start = Instant::now();
            let results = runner().run_all(&[what.clone(), what]);
            assert!(
                results.iter().all(|result| matches!(result, Err(ExecError::TimedOut { .. }))),
                "{results:?}"
            );
            assert!(start.elapsed() < Duration::from_secs(20));
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

//! QEMU's control socket (QMP). It has only the commands that the bed uses.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Runs one command of QEMU's human monitor. Such a command succeeds silently, so any text in reply is an
/// error.
pub fn monitor(socket: &Path, command: &str) -> Result<()> {
    monitor_saying(socket, command, "")
}

/// Runs one monitor command that prints the text `well` when it succeeds.
pub fn monitor_saying(socket: &Path, command: &str, well: &str) -> Result<()> {
    let stream = UnixStream::connect(socket).context("cannot connect to QEMU's control socket")?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut send = stream;
    read(&mut replies, "QMP")?;
    call(&mut send, &mut replies, &json!({"execute": "qmp_capabilities"}))?;
    let arguments = json!({"command-line": command});
    let request = json!({"execute": "human-monitor-command", "arguments": arguments});
    let said = call(&mut send, &mut replies, &request)?;
    match said.as_str().map(str::trim) {
        Some(text) if text == well => Ok(()),
        other => bail!("QEMU's monitor, `{command}`: {}", other.unwrap_or("no text")),
    }
}

fn call(send: &mut UnixStream, replies: &mut impl BufRead, request: &Value) -> Result<Value> {
    writeln!(send, "{request}")?;
    read(replies, "return")
}

/// Reads messages until one has this key. Events come in between and are skipped.
fn read(replies: &mut impl BufRead, key: &str) -> Result<Value> {
    loop {
        let mut line = String::new();
        if replies.read_line(&mut line)? == 0 {
            bail!("QEMU closed its control socket");
        }
        let message: Value = serde_json::from_str(&line)?;
        if let Some(error) = message.get("error") {
            bail!("QEMU: {error}");
        }
        if let Some(value) = message.get(key) {
            return Ok(value.clone());
        }
    }
}

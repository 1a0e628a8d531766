//! QEMU's control socket, as far as the bed uses it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Gives one command in the monitor's human language; a text in reply is an error there.
pub fn monitor(socket: &Path, command: &str) -> Result<()> {
    monitor_saying(socket, command, "")
}

/// The same of a command that says this when all is well.
pub fn monitor_saying(socket: &Path, command: &str, well: &str) -> Result<()> {
    let stream = UnixStream::connect(socket).context("QEMU's control socket")?;
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

/// Reads on to the message that has this key; events come in between.
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

//! A connection to a node: one ssh session that all commands share.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::bed::Bed;
use crate::host::{self, Output};
use crate::net::{Machine, Path};

/// An open connection.
#[derive(Debug)]
pub struct Ssh {
    bed: Rc<Bed>,
    address: String,
    socket: PathBuf,
    master: Child,
}

impl Ssh {
    /// Connects. Returns `None` when the node does not answer yet.
    pub fn connect(bed: &Rc<Bed>, machine: Machine) -> Result<Option<Self>> {
        let address = format!("root@{}", Path::Management.address(machine));
        let socket = bed.run.dir().join(format!("{}.ssh", machine.name()));
        std::fs::remove_file(&socket).ok();
        let mut master = base(bed);
        master.args(["-M", "-N", "-S"]).arg(&socket).arg(&address);
        master.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut ssh =
            Self { bed: Rc::clone(bed), address, socket, master: bed.run.spawn(&mut master, "ssh")? };
        let up = host::poll(Duration::from_secs(20), Duration::from_millis(50), || {
            let ended = ssh.master.try_wait()?.is_some();
            Ok((ended || ssh.socket.exists()).then_some(!ended))
        })?;
        Ok((up == Some(true)).then_some(ssh))
    }

    /// Runs a script in the node's shell.
    pub fn run(&self, script: &str, input: &[u8], limit: Duration) -> Result<Output> {
        let mut ssh = base(&self.bed);
        ssh.args(["-S"]).arg(&self.socket).arg(&self.address).arg(script);
        let output = host::run_with_input(&mut ssh, input, limit)?;
        if output.code == 255 && output.stderr.contains("ssh") {
            bail!("the connection to the node broke: {output}");
        }
        Ok(output)
    }

    /// Runs a command in a session of its own, as the user `core`, who is not root.
    pub fn as_core(bed: &Bed, script: &str, limit: Duration) -> Result<Output> {
        let mut ssh = base(bed);
        host::run(ssh.arg(format!("core@{}", Path::Management.address(Machine::Node))).arg(script), limit)
    }

    /// The command for an interactive session at the terminal.
    pub fn interactive(&self) -> Command {
        let mut ssh = base(&self.bed);
        ssh.arg("-S").arg(&self.socket).arg("-t").arg(&self.address);
        ssh
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.master.kill().ok();
        self.master.wait().ok();
    }
}

fn base(bed: &Bed) -> Command {
    let mut ssh = bed.net.command("ssh");
    ssh.arg("-i").arg(&bed.image.key);
    // The host key need not be checked: the key pair was made for this image, and the network has no other
    // hosts.
    for option in [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
        "BatchMode=yes",
        "ConnectTimeout=10",
        "ServerAliveInterval=20",
        "ServerAliveCountMax=6",
        "IdentitiesOnly=yes",
    ] {
        ssh.args(["-o", option]);
    }
    // The user's own ssh settings could redirect the connection, so they are not read.
    ssh.args(["-F", "/dev/null"]);
    ssh
}

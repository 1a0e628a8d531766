//! An administrator's machine: `etcd-lun pool` runs on the host, and reaches the nodes by ssh.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::Pid;

use crate::bed::Bed;
use crate::host::{self, Output};
use crate::scene::Wanted;

/// The program, its config, and the way to the nodes.
#[derive(Debug)]
pub struct Desk {
    bed: Rc<Bed>,
    agent: PathBuf,
    config: PathBuf,
    ssh: PathBuf,
}

/// How long a verb may take. Three emulated nodes at once are slow.
const LIMIT: Duration = Duration::from_secs(600);

impl Desk {
    /// A desk for the nodes with these names and addresses.
    pub fn new(bed: &Rc<Bed>, agent: &Path, wanted: &Wanted, nodes: &[(&str, String)]) -> Result<Self> {
        let (config, ssh) = (bed.run.dir().join("desk.toml"), bed.run.dir().join("desk.ssh"));
        fs::write(&config, wanted.render().0)?;
        fs::write(&ssh, ssh_config(bed, nodes))?;
        Ok(Self { bed: Rc::clone(bed), agent: agent.to_owned(), config, ssh })
    }

    fn command(&self, verb: &str, more: &[&str]) -> Command {
        let mut command = self.bed.net.command(&self.agent.to_string_lossy());
        let via = format!("ssh -F {} {{node}}", self.ssh.display());
        command.args(["pool", verb, "--via", &via]).arg("--config").arg(&self.config).args(more);
        command
    }

    /// Runs a verb to its end.
    pub fn run(&self, verb: &str, more: &[&str]) -> Result<Output> {
        host::run(&mut self.command(verb, more), LIMIT)
    }

    /// Runs `pool apply`, and tells `seen` each line that it prints. If `seen` says so, its terminal closes. Returns the exit code;
    /// none if the terminal was closed.
    pub fn apply(&self, mut seen: impl FnMut(&str) -> Result<Next>) -> Result<Option<i32>> {
        let mut command = self.command("apply", &["--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        // A program inherits which signals are blocked. The bed blocks this one, and an administrator's shell does not.
        let mut hangup = SigSet::empty();
        hangup.add(Signal::SIGHUP);
        hangup.thread_unblock()?;
        let spawned = self.bed.run.spawn(&mut command, "etcd-lun pool apply");
        hangup.thread_block()?;
        let mut child = spawned?;
        let printed = child.stderr.take().context("its standard error is no pipe")?;
        for line in BufReader::new(printed).lines() {
            let line = line?;
            println!("        {line}");
            if matches!(seen(&line)?, Next::Close) {
                // The kernel sends this to every process of a terminal that closes.
                killpg(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGHUP)?;
                let ended = child.wait()?;
                if ended.signal() != Some(Signal::SIGHUP as i32) {
                    bail!("`pool apply` goes on without its terminal, and ended with {ended}");
                }
                return Ok(None);
            }
        }
        Ok(Some(child.wait()?.code().context("a signal ended `pool apply`")?))
    }

    /// Fails unless the output has all these texts, and the code is the expected one.
    pub fn says(output: &Output, code: i32, texts: &[&str]) -> Result<()> {
        println!("        {}", output.both().trim().replace('\n', "\n        "));
        match texts.iter().find(|text| !output.both().contains(**text)) {
            Some(missing) => bail!("{missing:?} was not said: {output}"),
            None if output.code != code => bail!("the exit code should be {code}: {output}"),
            None => Ok(()),
        }
    }
}

/// The configuration of ssh with which nodes of these names and addresses are reached. A user on the command line wins.
pub fn ssh_config(bed: &Bed, nodes: &[(&str, String)]) -> String {
    let mut text = format!(
        "User root\nIdentityFile {}\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n\
         LogLevel ERROR\nBatchMode yes\nConnectTimeout 20\nServerAliveInterval 20\n",
        bed.image.key.display()
    );
    for (name, address) in nodes {
        let _ = writeln!(text, "Host {name}\n    HostName {address}");
    }
    text
}

/// What is done after a line.
#[derive(Debug, Clone, Copy)]
pub enum Next {
    /// Nothing.
    On,
    /// The terminal closes.
    Close,
}

//! The node's own etcd on a directory of its disks. It runs in a chroot and in a network namespace of its
//! own.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::writer;
use super::machine::Machine;
use crate::etcd::KeyHash;
use crate::host;
use crate::ledger::Run;

/// The address of its client port in this thread's network namespace.
pub const ADDRESS: &str = "127.0.0.1:2379";
const LIMIT: Duration = Duration::from_secs(60);

/// An etcd that answers.
#[derive(Debug)]
pub struct Server<'a> {
    machine: &'a Machine,
    process: Child,
}

impl<'a> Server<'a> {
    /// Starts etcd as the node's unit does, and waits until it answers. Its output goes to the file.
    pub fn start(run: &Run, machine: &'a Machine, tree: &str, log: &Path) -> Result<Self> {
        // In a new network namespace the loopback interface is down.
        host::ok(Command::new("ip").args(["link", "set", "lo", "up"]), LIMIT)?;
        let said = File::create(log)?;
        let mut etcd = in_node(machine, "/usr/bin/etcd");
        etcd.args(["--name", crate::image::HOSTNAME, "--data-dir", tree])
            .args(["--listen-client-urls", "http://127.0.0.1:2379"])
            .args(["--advertise-client-urls", "http://127.0.0.1:2379"])
            .args(["--listen-peer-urls", "http://127.0.0.1:2380"])
            // The cluster has one member, so elections need not wait for others.
            .args(["--heartbeat-interval", "10", "--election-timeout", "100"])
            .stdout(said.try_clone()?)
            .stderr(said);
        let mut server = Self { machine, process: run.spawn(&mut etcd, "etcd")? };
        let up = host::poll(LIMIT, Duration::from_millis(50), || {
            if let Some(status) = server.process.try_wait()? {
                bail!("etcd ended ({status})");
            }
            Ok(writer::missing_at(ADDRESS, &[0]).ok())
        });
        match up {
            Ok(Some(_)) => Ok(server),
            other => {
                let text = fs::read_to_string(log).unwrap_or_default();
                let is_ill =
                    |line: &&str| ["panic", "\"fatal\"", "\"error\""].iter().any(|word| line.contains(word));
                let end = text.lines().filter(is_ill).take(4).collect::<Vec<_>>().join("\n");
                other.map(drop).with_context(|| format!("etcd does not start on {tree}: {end}"))?;
                bail!("etcd does not answer on {tree}: {end}")
            }
        }
    }

    /// The hash of all keys at a revision.
    pub fn hash_at(&self, revision: u64) -> Result<KeyHash> {
        let mut etcdctl = in_node(self.machine, "/usr/bin/etcdctl");
        etcdctl.args(["endpoint", "hashkv", &format!("--rev={revision}"), "-w", "json"]);
        let text = host::ok(&mut etcdctl, LIMIT)?;
        KeyHash::parse(revision, &text).with_context(|| format!("no hash in {text}"))
    }

    /// Ends etcd.
    pub fn end(self) {}
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn in_node(machine: &Machine, program: &str) -> Command {
    let mut chroot = Command::new("chroot");
    chroot.arg(machine.root()).arg(program);
    chroot
}

//! Finds out what happens to a node after a power cut without booting it. The host mounts the node's two
//! disks, the program's own `observe` and `plan` compute what a boot would do, and a real etcd starts on the
//! copy that is authoritative then.
//!
//! - `machine`: the mounted disks, and stand-ins for what the kernel and PID 1 would report
//! - `boot`: what the program observes there and decides
//! - `server`: etcd on one directory of these disks

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use node::layout::RETURNING;

use super::writer;
use crate::etcd::KeyHash;
use crate::ledger::Run;

mod boot;
mod machine;
mod server;

pub use boot::BootCopy;
use machine::Machine;
use server::Server;

/// The disks of a node after a power cut, and what must be on them.
#[derive(Debug)]
pub struct Cut<'a> {
    /// The run, whose ledger records the processes.
    pub run: &'a Run,
    /// The node's disk.
    pub node: &'a Path,
    /// The LUN, and its WWID.
    pub lun: (&'a Path, &'a str),
    /// The number of every key that etcd acknowledged before the cut.
    pub acknowledged: &'a [u64],
    /// The last hash of etcd's keys before the cut.
    pub hash: Option<KeyHash>,
}

impl Cut<'_> {
    /// The directory with the observed facts and etcd's log.
    pub fn dir(run: &Run) -> PathBuf {
        run.dir().join("replay")
    }

    /// Returns the copy that a boot would use. Returns an error if etcd could also start on another copy, if
    /// the copy lacks something, or if the boot would refuse.
    pub fn judge(&self) -> Result<BootCopy> {
        // The namespaces belong to a thread. They end with it, and so do the mounts in them.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)
                    .context("cannot make the namespaces")?;
                let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
                mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
                    .context("cannot make the mounts private")?;
                self.boot()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn boot(&self) -> Result<BootCopy> {
        let dir = Self::dir(self.run);
        fs::create_dir_all(&dir)?;
        let machine = Machine::mount(&dir.join("root"), self.node, self.lun)?;
        let booted = boot::decide(&machine, &dir.join("facts"))?;
        let (copy, tree) = (booted.copy, Self::tree(booted.copy));
        // If another copy is authoritative, etcd must be unable to start in its local directory, even as a
        // new cluster.
        if matches!(copy, BootCopy::Lun { retires: false } | BootCopy::Returning { .. }) {
            machine.keeps_etcd_out()?;
        }
        let server = Server::start(self.run, &machine, &tree, &dir.join("etcd.log"))
            .with_context(|| format!("the authoritative copy is {copy:?}"))?;
        self.is_whole(&server).with_context(|| format!("the authoritative copy is {copy:?}"))?;
        server.end();
        drop(booted);
        machine.unmount()?;
        Ok(copy)
    }

    fn tree(copy: BootCopy) -> String {
        match copy {
            BootCopy::Lun { .. } => node::layout::STAGING.into(),
            BootCopy::Local | BootCopy::RolledBack => boot::DATA_DIR.into(),
            BootCopy::Returning { generation } => format!("{RETURNING}/{generation}"),
        }
    }

    fn is_whole(&self, server: &Server) -> Result<()> {
        let missing = writer::missing_at(server::ADDRESS, self.acknowledged)?;
        if let Some(first) = missing.first() {
            bail!("{} keys that etcd acknowledged are lost, the first is {first}", missing.len());
        }
        if let Some(before) = self.hash {
            let now = server.hash_at(before.revision)?;
            if now != before {
                bail!("etcd's keys have diverged: {before} before, {now} now");
            }
        }
        Ok(())
    }
}

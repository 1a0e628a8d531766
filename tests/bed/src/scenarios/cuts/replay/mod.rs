//! What becomes of a node whose power was cut, seen without booting it: its two disks are mounted on this machine, the
//! program's own `observe` and `plan` say what a boot does with them, and a real etcd starts on the copy that is the truth
//! then.
//!
//! - `machine`: the disks, mounted as a boot has them; what a kernel and PID 1 would say of the rest (stand-ins)
//! - `boot`: what the program finds there, and decides
//! - `server`: etcd on a tree of it

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use etcd_lun::plan::RETURNING;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::writer;
use crate::etcd::KeyHash;
use crate::ledger::Run;

mod boot;
mod machine;
mod server;

pub use boot::Truth;
use machine::Machine;
use server::Server;

/// The disks of a node after a power cut, and what must be on them.
#[derive(Debug)]
pub struct Cut<'a> {
    /// The run that keeps account of processes.
    pub run: &'a Run,
    /// The node's disk.
    pub node: &'a Path,
    /// The LUN, and its WWID.
    pub lun: (&'a Path, &'a str),
    /// Every number that etcd had acknowledged.
    pub acknowledged: &'a [u64],
    /// What etcd said of its keys before.
    pub hash: Option<KeyHash>,
}

impl Cut<'_> {
    /// Where files of this are: what the program saw, what etcd said.
    pub fn dir(run: &Run) -> PathBuf {
        run.dir().join("replay")
    }

    /// Which copy a boot takes for the truth. An error when it is not the only one that etcd could start on, when
    /// something is missing there, or when a person would have to help.
    pub fn judge(&self) -> Result<Truth> {
        // Of a thread: its namespaces end with it, and whatever is mounted there.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).context("namespaces")?;
                let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
                mount(None::<&str>, "/", None::<&str>, private, None::<&str>).context("private mounts")?;
                self.boot()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn boot(&self) -> Result<Truth> {
        let dir = Self::dir(self.run);
        fs::create_dir_all(&dir)?;
        let machine = Machine::mount(&dir.join("root"), self.node, self.lun)?;
        let booted = boot::decide(&machine, &dir.join("facts"))?;
        let (truth, tree) = (booted.truth, Self::tree(booted.truth));
        // Where the truth is elsewhere, etcd finds nothing in its local directory to start on, nor room for a new cluster.
        if matches!(truth, Truth::Lun { retires: false } | Truth::Returning { .. }) {
            machine.is_barred()?;
        }
        let server = Server::start(self.run, &machine, &tree, &dir.join("etcd.log"))
            .with_context(|| format!("the truth is {truth:?}"))?;
        self.is_whole(&server).with_context(|| format!("the truth is {truth:?}"))?;
        server.end();
        drop(booted);
        machine.unmount()?;
        Ok(truth)
    }

    fn tree(truth: Truth) -> String {
        match truth {
            Truth::Lun { .. } => etcd_lun::plan::STAGING.into(),
            Truth::Local | Truth::RolledBack => boot::DATA_DIR.into(),
            Truth::Returning { generation } => format!("{RETURNING}/{generation}"),
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

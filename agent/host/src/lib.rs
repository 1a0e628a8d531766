//! The only code that touches the machine. It has no policy, so another program could use it too.
//!
//! All side effects go through two interfaces: a command runner ([`exec`]) and a directory root ([`root`]). Each module
//! here wraps one tool or one kernel interface, keeps reading apart from parsing, and returns typed values. Other
//! modules decide what to do with them.
#![allow(clippy::disallowed_methods)] // clippy.toml allows these methods only here

pub mod background;
pub mod block;
pub mod cgroup;
pub mod credential;
pub mod cri;
pub mod dir;
pub mod etcd_api;
pub mod exec;
pub mod filelock;
#[cfg(any(test, feature = "fixtures"))]
pub mod files;
pub mod http;
pub mod identity;
pub mod inode;
pub mod interrupt;
pub mod iscsi;
pub mod kmsg;
pub mod line_socket;
pub mod manifest;
pub mod mountinfo;
pub mod multipath;
pub mod namespace;
pub mod pressure;
pub mod process;
pub mod random;
pub mod root;
pub mod route;
pub mod rsync;
pub mod scratch;
pub mod selinux;
pub mod staging;
mod system;
pub mod systemd;
pub mod terminal;
#[cfg(any(test, feature = "fixtures"))]
pub mod transcript;
pub mod tree;
pub mod udev;
pub mod via;
pub mod xfs;

pub use exec::{ExecError, Invocation, Output, Runner, Tool};
pub use interrupt::Interrupt;
pub use root::Root;

use std::{future::Future, io, time::Duration};

/// Everything that etcd-lun can touch.
#[derive(Debug)]
pub struct Host {
    /// The directory below which paths are looked up: `/` in production.
    pub root: Root,
    /// Runs programs: on the machine in production, from a transcript in tests.
    pub runner: Box<dyn Runner>,
    /// Set when the operator or systemd asks this process to stop.
    pub interrupt: Interrupt,
    runtime: tokio::runtime::Runtime,
}

impl Host {
    /// The machine that this process runs on. Signals end the process until [`Host::watch_signals`] or
    /// [`Host::hold_signals`].
    pub fn machine() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let interrupt = Interrupt::default();
        let runner = Box::new(system::SystemRunner::new(interrupt.clone())?);
        Ok(Self { root: Root::new("/"), runner, interrupt, runtime })
    }

    /// From now on a request to stop ends the tools that run, and then the verb. Ctrl-Z still suspends it.
    pub fn watch_signals(&self) -> io::Result<()> {
        self.interrupt.watch()
    }

    /// From now on a request to stop is heard between two steps, and nothing suspends the process.
    pub fn hold_signals(&self) -> io::Result<()> {
        self.interrupt.hold()
    }

    /// A host for tests: a directory tree and a scripted runner.
    pub fn fixture(root: Root, runner: Box<dyn Runner>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { root, runner, interrupt: Interrupt::never(), runtime })
    }

    /// Runs a program to its end.
    pub fn run(&self, what: &Invocation) -> Result<Output, ExecError> {
        self.runner.run(what, &mut |_| {})
    }

    /// Returns the SHA-256 of a file, in lower-case hexadecimal digits.
    pub fn sha256(&self, file: &std::path::Path) -> Result<String, ExecError> {
        let what = Invocation::new(Tool::Sha256sum, ["--zero", "--", &file.to_string_lossy()]);
        let said = self.run(&what)?.success(&what)?;
        Ok(said.stdout.split(' ').next().unwrap_or_default().to_owned())
    }

    /// Waits; returns an error if this process is asked to stop meanwhile.
    pub fn pause(&self, span: Duration) -> io::Result<()> {
        self.wait(async {
            tokio::select! {
                () = tokio::time::sleep(span) => Ok(()),
                () = self.interrupt.requested() => Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
            }
        })
    }

    /// Waits for asynchronous work, such as D-Bus calls, which have no blocking form.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

//! A member on the host: the node's own etcd program, in a network namespace of its own on the nodes' control
//! network.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::seat::Seat;
use crate::bed::Bed;
use crate::host;
use crate::net::Path as Network;

const LIMIT: Duration = Duration::from_secs(60);
const PREFIX_LENGTH: u8 = 24;

/// A member. It ends when this value is dropped.
#[derive(Debug)]
pub struct Member {
    /// Its place in the cluster.
    pub seat: Seat,
    bed: Rc<Bed>,
    namespace: String,
    program: PathBuf,
    data: PathBuf,
    process: Option<Child>,
}

impl Member {
    /// Prepares the network of a member that has no data.
    pub fn new(bed: &Rc<Bed>, seat: &Seat) -> Result<Self> {
        let namespace = format!("{}-{}", bed.run.namespace(), seat.name);
        let member = Self {
            seat: seat.clone(),
            bed: Rc::clone(bed),
            program: program(bed)?,
            data: bed.run.dir().join(format!("etcd-{}", seat.name)),
            process: None,
            namespace,
        };
        // A member of an earlier scenario may have left both.
        member.remove();
        host::ok(Command::new("ip").args(["netns", "add", &member.namespace]), LIMIT)?;
        let link = member.link();
        let pair = ["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &member.namespace];
        bed.net.ip(&pair)?;
        bed.net.ip(&["link", "set", &link, "master", &Network::Management.bridge(), "up"])?;
        let address = format!("{}/{PREFIX_LENGTH}", seat.address);
        for arguments in [
            &["address", "add", &address, "dev", "eth0"][..],
            &["link", "set", "eth0", "up"],
            &["link", "set", "lo", "up"],
        ] {
            host::ok(Command::new("ip").args(["-n", &member.namespace]).args(arguments), LIMIT)?;
        }
        Ok(member)
    }

    /// Starts etcd with the certificates of a directory. `first` and `state` matter only to a member without
    /// data (`Seat::environment`).
    pub fn start(&mut self, certificates: &Path, first: &[Seat], state: &str) -> Result<()> {
        let certificates = certificates.to_str().context("the certificates' path is not UTF-8")?;
        let log = self.bed.run.dir().join(format!("etcd-{}.log", self.seat.name));
        let log = File::options().create(true).append(true).open(log)?;
        let mut etcd = Command::new("ip");
        etcd.args(["netns", "exec", &self.namespace]).arg(&self.program);
        etcd.arg("--data-dir").arg(&self.data);
        // No setting of the user's own etcd may reach this one.
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("ETCD_")) {
            etcd.env_remove(key);
        }
        etcd.envs(self.seat.environment(certificates, first, state)).stdout(log.try_clone()?).stderr(log);
        self.process = Some(self.bed.run.spawn(&mut etcd, "etcd")?);
        Ok(())
    }

    /// Kills etcd. Its data stays.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.process.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Stops etcd's process without ending it (`SIGSTOP`), or lets it go on.
    pub fn freeze(&self, freeze: bool) -> Result<()> {
        let child = self.process.as_ref().context("this member's etcd does not run")?;
        let signal = if freeze { Signal::SIGSTOP } else { Signal::SIGCONT };
        kill(Pid::from_raw(i32::try_from(child.id())?), signal).map_err(Into::into)
    }

    /// Takes the member's link down, or up again.
    pub fn cut_off(&self, cut: bool) -> Result<()> {
        self.bed.net.ip(&["link", "set", &self.link(), if cut { "down" } else { "up" }])
    }

    fn link(&self) -> String {
        format!("veth-{}", self.seat.name)
    }

    fn remove(&self) {
        fs::remove_dir_all(&self.data).ok();
        if Path::new("/run/netns").join(&self.namespace).exists() {
            // The link ends with the namespace.
            host::run(Command::new("ip").args(["netns", "del", &self.namespace]), LIMIT).ok();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        self.remove();
    }
}

/// The etcd of the node's image. The host's own may have another version, or be missing.
fn program(bed: &Bed) -> Result<PathBuf> {
    let file = bed.run.dir().join("etcd");
    if !file.exists() {
        let aside = file.with_extension("new");
        let command = format!("dump -p /usr/bin/etcd {}", aside.display());
        let mut debugfs = Command::new("debugfs");
        let output = host::run(debugfs.args(["-R", &command]).arg(&bed.image.disk), LIMIT)?;
        // debugfs ends with 0 even when it finds no such file.
        let size = fs::metadata(&aside).map_or(0, |found| found.len());
        if size == 0 {
            anyhow::bail!("there is no /usr/bin/etcd in {}: {output}", bed.image.disk.display());
        }
        fs::rename(&aside, &file)?;
    }
    Ok(file)
}

//! One run of the bed: the parts that nodes and targets need.

use std::cell::Cell;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::image::{Image, cache_dir};
use crate::ledger::Run;
use crate::net::Net;
use crate::{host, packages, signals};

/// How QEMU runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// KVM: the processor's own virtualisation.
    Kvm,
    /// TCG: QEMU's emulation, which works everywhere.
    Tcg,
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg",
        })
    }
}

/// The bed of one run.
#[derive(Debug)]
pub struct Bed {
    /// The run's directory, and the processes that it started.
    pub run: Run,
    /// The run's network namespace.
    pub net: Net,
    /// The image that nodes boot.
    pub image: Image,
    accel: Cell<Accel>,
    accel_is_proven: Cell<bool>,
    panics: Cell<u32>,
}

impl Bed {
    /// Sets up packages, image and namespace. From this call on, signals end the run in order.
    pub fn make() -> Result<Rc<Self>> {
        if !nix::unistd::geteuid().is_root() {
            bail!("the test bed makes network namespaces and installs packages: run it as root");
        }
        let run = Run::begin()?;
        signals::watch(run.ender())?;
        packages::ensure()?;
        let image = Image::ensure()?;
        let net = Net::create(&run)?;
        let (accel, proven) = choose()?;
        Ok(Rc::new(Self {
            run,
            net,
            image,
            accel: Cell::new(accel),
            accel_is_proven: Cell::new(proven),
            panics: Cell::new(0),
        }))
    }

    /// The accelerator in use.
    pub fn accel(&self) -> Accel {
        self.accel.get()
    }

    /// Whether a node has booted with this accelerator on this machine.
    pub fn accel_is_proven(&self) -> bool {
        self.accel_is_proven.get()
    }

    /// Whether KVM is in use and no node has booted with it yet.
    pub fn kvm_on_trial(&self) -> bool {
        self.accel() == Accel::Kvm && !self.accel_is_proven()
    }

    /// Records that a node booted. Later runs on this machine know it then.
    pub fn accel_works(&self) {
        if !self.accel_is_proven.replace(true) {
            println!("bed: nodes run under {}", self.accel());
            remember(self.accel());
        }
    }

    /// Stops using KVM on this machine, in this run and in later ones.
    pub fn fall_back(&self, why: &str) {
        println!("bed: KVM does not boot a node here ({why}); falling back on QEMU's emulation (tcg)");
        self.accel.set(Accel::Tcg);
        self.accel_is_proven.set(true);
        remember(Accel::Tcg);
    }

    /// Counts a panic of the guest's kernel that the emulator caused.
    pub fn count_panic(&self) {
        self.panics.set(self.panics.get() + 1);
    }

    /// How many panics were counted.
    pub fn panics(&self) -> u32 {
        self.panics.get()
    }
}

fn choose() -> Result<(Accel, bool)> {
    if let Ok(wanted) = std::env::var("ETCD_LUN_BED_ACCEL") {
        return match wanted.as_str() {
            "kvm" => Ok((Accel::Kvm, true)),
            "tcg" => Ok((Accel::Tcg, true)),
            other => bail!("ETCD_LUN_BED_ACCEL is {other:?}; expected kvm or tcg"),
        };
    }
    if fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok((Accel::Tcg, true));
    }
    let verdict = verdict_file().and_then(|file| fs::read_to_string(file).ok());
    Ok(match verdict.as_deref().map(str::trim) {
        Some("tcg") => (Accel::Tcg, true),
        Some("kvm") => (Accel::Kvm, true),
        _ => (Accel::Kvm, false),
    })
}

fn remember(accel: Accel) {
    if let Some(file) = verdict_file() {
        // An error does no harm: the next run tries the accelerator again.
        fs::write(file, format!("{accel}\n")).ok();
    }
}

/// The file with the accelerator that works. Its name depends on this kernel and this QEMU, because the
/// result does.
fn verdict_file() -> Option<PathBuf> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut qemu = Command::new("qemu-system-x86_64");
    let version = host::ok(qemu.arg("--version"), Duration::from_secs(20)).ok()?;
    let hash = blake3::hash(format!("{kernel}{version}").as_bytes()).to_hex();
    Some(cache_dir().ok()?.join(format!("accel-{}", &hash[..16])))
}

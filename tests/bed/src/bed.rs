//! One run of the bed: what nodes and targets are built on.

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
    /// The processor's own virtualisation.
    Kvm,
    /// QEMU's emulation, which works everywhere.
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
    /// What was started, and where its files are.
    pub run: Run,
    /// The namespace.
    pub net: Net,
    /// What nodes boot.
    pub image: Image,
    accel: Cell<Accel>,
    accel_is_proven: Cell<bool>,
    panics: Cell<u32>,
}

impl Bed {
    /// Gets everything in place: packages, image, namespace. Watches for signals from here on.
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

    /// Whether a node was seen to boot with it on this machine.
    pub fn accel_is_proven(&self) -> bool {
        self.accel_is_proven.get()
    }

    /// Whether KVM is in use and may not be able to boot a node here.
    pub fn kvm_on_trial(&self) -> bool {
        self.accel() == Accel::Kvm && !self.accel_is_proven()
    }

    /// Notes that a node booted, for later runs too.
    pub fn accel_works(&self) {
        if !self.accel_is_proven.replace(true) {
            println!("bed: nodes run under {}", self.accel());
            remember(self.accel());
        }
    }

    /// Gives KVM up for this machine.
    pub fn fall_back(&self, why: &str) {
        println!("bed: KVM does not boot a node here ({why}); falling back on QEMU's emulation (tcg)");
        self.accel.set(Accel::Tcg);
        self.accel_is_proven.set(true);
        remember(Accel::Tcg);
    }

    /// Notes a panic of the guest's kernel that is the emulator's fault.
    pub fn count_panic(&self) {
        self.panics.set(self.panics.get() + 1);
    }

    /// How many there were.
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
        // Only a short-cut: the next run finds out again when it can't be written.
        fs::write(file, format!("{accel}\n")).ok();
    }
}

/// What was found holds for this kernel and this QEMU.
fn verdict_file() -> Option<PathBuf> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut qemu = Command::new("qemu-system-x86_64");
    let version = host::ok(qemu.arg("--version"), Duration::from_secs(20)).ok()?;
    let hash = blake3::hash(format!("{kernel}{version}").as_bytes()).to_hex();
    Some(cache_dir().ok()?.join(format!("accel-{}", &hash[..16])))
}

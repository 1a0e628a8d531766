//! The architecture of the nodes. x86_64 is the default. QEMU emulates an aarch64 on this machine, which is slow.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bed::Accel;
use crate::host;

/// An architecture of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Arch {
    /// This machine's own.
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit ARM, which OpenShift has too.
    Aarch64,
}

static CHOSEN: OnceLock<Arch> = OnceLock::new();

/// Debian's package `qemu-user-static` has here what the kernel must know to run programs of another architecture.
const FORMAT: &str = "/usr/lib/binfmt.d/qemu-aarch64.conf";
const FORMATS: &str = "/proc/sys/fs/binfmt_misc";

impl Arch {
    /// Chooses the architecture of all nodes of this process. Only the first call counts.
    pub fn choose(self) {
        CHOSEN.get_or_init(|| self);
    }

    /// The architecture that was chosen.
    pub fn chosen() -> Self {
        CHOSEN.get().copied().unwrap_or(Self::X86_64)
    }

    /// The name that Rust and QEMU have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The name that Debian has for it.
    pub fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The Debian packages that the host needs for it, each with one of its programs.
    pub fn host_packages(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::X86_64 => &[],
            Self::Aarch64 => &[
                ("qemu-system-arm", "qemu-system-aarch64"),
                ("qemu-user-static", "qemu-aarch64-static"),
                // mmdebstrap asks it whether the host runs programs of the architecture.
                ("arch-test", "arch-test"),
            ],
        }
    }

    /// QEMU's options for the machine and its processor.
    pub fn machine(self, accel: Accel) -> &'static [&'static str] {
        match (self, accel) {
            (Self::X86_64, Accel::Kvm) => &["-M", "pc", "-accel", "kvm", "-cpu", "host,-arch-capabilities"],
            // Nehalem and not max: the emulator failed with newer models, mostly because of AVX.
            (Self::X86_64, Accel::Tcg) => {
                &["-M", "pc", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "Nehalem"]
            }
            (Self::Aarch64, _) => {
                &["-M", "virt", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "cortex-a72"]
            }
        }
    }

    /// The kernel's name for the console.
    pub fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Aarch64 => "ttyAMA0",
        }
    }

    /// Makes the host's kernel run programs of this architecture, which happens while an image is made. The kernel forgets it
    /// when the host is turned off.
    pub fn run_on_host(self) -> Result<()> {
        let known = Path::new(FORMATS).join("qemu-aarch64");
        if self == Self::X86_64 || known.exists() {
            return Ok(());
        }
        let register = Path::new(FORMATS).join("register");
        if !register.exists() {
            let mut mount = Command::new("mount");
            mount.args(["-t", "binfmt_misc", "binfmt_misc", FORMATS]);
            host::ok(&mut mount, Duration::from_secs(10))?;
        }
        let format = fs::read_to_string(FORMAT).with_context(|| format!("cannot read {FORMAT}"))?;
        fs::write(register, format.trim_end())
            .context("the kernel does not take the format of aarch64's programs")
    }
}

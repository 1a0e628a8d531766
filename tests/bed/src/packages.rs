//! The Debian packages that the bed needs on its host, installed only when one is missing.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::host;

/// A package, and a program of it whose presence tells that it is installed.
const NEEDED: &[(&str, &str)] = &[
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("qemu-utils", "qemu-img"),
    ("mmdebstrap", "mmdebstrap"),
    ("tgt", "tgtd"),
    ("dnsmasq-base", "dnsmasq"),
    ("e2fsprogs", "mke2fs"),
    ("iproute2", "ip"),
    ("iptables", "iptables"),
    ("openssh-client", "ssh"),
    ("ignition", "ignition-validate"),
    // Ignition labels what it wrote, with a program of its host.
    ("policycoreutils", "setfiles"),
];

/// These two are of one version or one evicts the other, so both are named with it.
const ONE_VERSION: [&str; 2] = ["qemu-system-x86", "qemu-utils"];

/// Installs what is missing, and says so.
pub fn ensure() -> Result<()> {
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(_, program)| !host::has(program)).map(|(package, _)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("bed: installing Debian packages: {}", missing.join(" "));
    apt(&["update".into()])?;
    let mut arguments: Vec<String> = ["install", "-y", "--no-install-recommends"].map(String::from).to_vec();
    if missing.iter().any(|package| ONE_VERSION.contains(package)) {
        // A qemu-utils from elsewhere (backports) may be newer than the qemu-system-x86 that is offered.
        let version = candidate(ONE_VERSION[0])?;
        arguments.push("--allow-downgrades".into());
        arguments.extend(ONE_VERSION.iter().map(|package| format!("{package}={version}")));
    }
    let others = missing.iter().filter(|package| !ONE_VERSION.contains(package));
    arguments.extend(others.map(|package| (*package).to_string()));
    // The guest is a Debian of its own release; its signing keys may be newer than the host's.
    arguments.push("debian-archive-keyring".into());
    apt(&arguments)
}

fn apt(arguments: &[String]) -> Result<()> {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-q").args(arguments);
    // Installing `tgt` would start a target for everybody; ours runs in its namespace only.
    apt.env("RUNLEVEL", "1");
    host::ok(&mut apt, Duration::from_secs(900)).map(drop)
}

fn candidate(package: &str) -> Result<String> {
    let mut policy = Command::new("apt-cache");
    policy.args(["policy", package]).env("LC_ALL", "C");
    let text = host::ok(&mut policy, Duration::from_secs(60))?;
    text.lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "))
        .filter(|version| *version != "(none)")
        .map(String::from)
        .with_context(|| format!("no package {package} in the apt sources of this machine"))
}

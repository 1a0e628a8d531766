//! The Debian packages that the bed needs on the host. It installs them only if one is missing.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};

use crate::host;
use crate::release::Release;

/// Each package, and one of its programs, whose presence shows that the package is installed.
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
    ("curl", "curl"),
    ("openssl", "openssl"),
    // The program's image: makes it, serves it, pushes it.
    ("buildah", "buildah"),
    ("docker-registry", "docker-registry"),
    ("skopeo", "skopeo"),
    ("jq", "jq"),
    ("xz-utils", "xz"),
    ("ignition", "ignition-validate"),
    // Ignition labels the files that it wrote with a program of the host.
    ("policycoreutils", "setfiles"),
];

/// Both packages must have one version, or apt removes one of them. So the bed installs both with an explicit
/// version.
const ONE_VERSION: [&str; 2] = ["qemu-system-x86", "qemu-utils"];

/// Installs missing packages and prints their names.
///
/// apt-get fails at once while another one updates its lists. So a second bed waits here, and then finds what it needs.
pub fn ensure() -> Result<()> {
    if missing().is_empty() {
        return Ok(());
    }
    let path = std::env::temp_dir().join("etcd-lun-bed-packages.lock");
    let open = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let _lock = Flock::lock(open, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    println!("bed: installing Debian packages: {}", missing.join(" "));
    apt(&["update".into()])?;
    let mut arguments: Vec<String> = ["install", "-y", "--no-install-recommends"].map(String::from).to_vec();
    if missing.iter().any(|package| ONE_VERSION.contains(package)) {
        // The installed qemu-utils (from backports) may be newer than the qemu-system-x86 on offer.
        let version = candidate(ONE_VERSION[0])?;
        arguments.push("--allow-downgrades".into());
        arguments.extend(ONE_VERSION.iter().map(|package| format!("{package}={version}")));
    }
    let others = missing.iter().filter(|package| !ONE_VERSION.contains(package));
    arguments.extend(others.map(|package| (*package).to_string()));
    // The guest's Debian release may be newer than the host's, so its signing keys may be too.
    arguments.push("debian-archive-keyring".into());
    apt(&arguments)
}

fn missing() -> Vec<&'static str> {
    let needed = NEEDED.iter().chain(Release::chosen().host_packages());
    needed.filter(|(_, program)| !host::has(program)).map(|(package, _)| *package).collect()
}

fn apt(arguments: &[String]) -> Result<()> {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-q").args(arguments);
    // Without this, installing `tgt` would start a target for the whole host. Ours runs only in its
    // namespace.
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

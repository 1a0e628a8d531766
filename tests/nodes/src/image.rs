//! The guest's disk image, kernel and initrd. mmdebstrap makes a Debian; the image is cached by a hash of its
//! recipe.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cluster::certificates::{Certificates, ON_NODE};
use crate::host;
use crate::net::{Machine, Path as NetPath};
use crate::release::Release;

/// Raise this when a change of this file changes the image but not the recipe's text.
const VERSION: u32 = 2;
const DISK: &str = "8G";
const LIMIT: Duration = Duration::from_secs(900);

const PACKAGES: &[&str] = &[
    "systemd",
    "systemd-sysv",
    "udev",
    "dbus",
    "kmod",
    "procps",
    "util-linux",
    "util-linux-extra",
    "linux-image-amd64",
    "initramfs-tools",
    "zstd",
    "openssh-server",
    "iproute2",
    "iptables",
    "open-iscsi",
    "multipath-tools",
    "targetcli-fb",
    "xfsprogs",
    "e2fsprogs",
    "dosfstools",
    "fdisk",
    "lvm2",
    "rsync",
    "sg3-utils",
    "attr",
    "acl",
    "etcd-server",
    "etcd-client",
    "openssl",
    "curl",
    "python3-yaml",
    "podman",
    "xz-utils",
    "jq",
    "strace",
    "less",
    "auditd",
    "selinux-policy-default",
    "policycoreutils",
    "setools",
];

const FINISH: &str = include_str!("../guest/finish.sh");

/// The host name of the node.
pub const HOSTNAME: &str = "master-0";

/// The node's path, without the first `/`, where etcd's manifest is kept. A copy in
/// `/etc/kubernetes/manifests` makes the kubelet's stand-in run etcd.
pub const ETCD_POD: &str = "etc/kubernetes/static-pod-resources/etcd-pod-7/etcd-pod.yaml";

/// The files of an image.
#[derive(Debug, Clone)]
pub struct Image {
    /// The raw disk. Nobody writes to it after it was made.
    pub disk: PathBuf,
    /// The kernel.
    pub kernel: PathBuf,
    /// The initrd of the kernel.
    pub initrd: PathBuf,
    /// The private key for ssh sessions as root.
    pub key: PathBuf,
    /// The directory of these files.
    pub dir: PathBuf,
}

impl Image {
    /// Takes the image from the cache. Makes it first if it is missing.
    pub fn ensure() -> Result<Self> {
        let cache = cache_dir()?;
        let dir = cache.join(recipe());
        let image = Self {
            disk: dir.join("disk.raw"),
            kernel: dir.join("kernel"),
            initrd: dir.join("initrd"),
            key: dir.join("key"),
            dir: dir.clone(),
        };
        if dir.is_dir() {
            return Ok(image);
        }
        fs::create_dir_all(&cache)?;
        let begun = Instant::now();
        println!(
            "bed: making the node's image (Debian {}); later runs take it from {}",
            Release::chosen().name(),
            dir.display()
        );
        // The image is made in another directory and renamed. So a killed run, or a second run at the same
        // time, never leaves an incomplete image.
        let aside = cache.join(format!("making-{}", std::process::id()));
        let made = make(&aside);
        if let Err(error) = made {
            fs::remove_dir_all(&aside).ok();
            return Err(error);
        }
        if fs::rename(&aside, &dir).is_err() {
            fs::remove_dir_all(&aside).ok();
        }
        println!("bed: image made in {} s", begun.elapsed().as_secs());
        Ok(image)
    }
}

/// Makes a new overlay over a disk. The node starts with the disk's content, and the disk stays unchanged.
pub fn overlay(base: &Path, file: &Path) -> Result<()> {
    let format = base.extension().and_then(|name| name.to_str()).unwrap_or_default();
    let mut create = Command::new("qemu-img");
    create.args(["create", "-q", "-f", "qcow2", "-F", format, "-b"]).arg(base).arg(file);
    host::ok(&mut create, LIMIT).map(drop)
}

fn make(dir: &Path) -> Result<()> {
    let (tree, release) = (dir.join("tree"), Release::chosen());
    fs::create_dir_all(dir)?;
    let mut bootstrap = Command::new("mmdebstrap");
    bootstrap
        .args(["--quiet", "--variant=minbase", "--aptopt=APT::Install-Recommends \"false\""])
        .args(["--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*"])
        .arg("--dpkgopt=path-exclude=/usr/share/locale/*")
        .arg(format!("--include={}", release.packages(PACKAGES).join(",")))
        .args(release.bootstrap_options())
        .arg(release.name())
        .arg(&tree)
        .arg(mirror());
    host::ok(&mut bootstrap, LIMIT)?;
    release.newer_etcd(&tree)?;
    for (path, mode, text) in files() {
        let file = tree.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&tree))?;
        fs::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
    }
    let key = dir.join("key");
    let mut keygen = Command::new("ssh-keygen");
    host::ok(keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "etcd-lun-bed", "-f"]).arg(&key), LIMIT)?;
    fs::create_dir_all(tree.join("root/.ssh"))?;
    fs::copy(key.with_extension("pub"), tree.join("root/.ssh/authorized_keys"))?;
    let address = NetPath::Management.address(Machine::Node);
    Certificates::make(&tree.join(ON_NODE.trim_start_matches('/')), &[(HOSTNAME, &address)])?;
    host::ok(Command::new("chroot").arg(&tree).args(["sh", "-c", &finish()]), LIMIT)?;
    for (prefix, name) in [("vmlinuz-", "kernel"), ("initrd.img-", "initrd")] {
        fs::copy(only(&tree.join("boot"), prefix)?, dir.join(name))?;
    }
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-t", "ext4", "-L", "root", "-d"]).arg(&tree).arg(dir.join("disk.raw")).arg(DISK);
    host::ok(&mut mke2fs, LIMIT)?;
    // The whole base image must be on the disk before a machine uses it.
    File::open(dir.join("disk.raw"))?.sync_all()?;
    fs::remove_dir_all(&tree)?;
    Ok(())
}

/// The node's files that Debian does not provide.
fn files() -> Vec<(String, u32, String)> {
    let plain = |path: &str, text: &str| (path.to_string(), 0o644, text.to_string());
    let program = |path: &str, text: &str| (path.to_string(), 0o755, text.to_string());
    let mut files = vec![
        plain("etc/systemd/system/etcd.service", include_str!("../guest/etcd.service")),
        plain("etc/systemd/system/sysroot.mount", include_str!("../guest/sysroot.mount")),
        plain("etc/systemd/system/var.mount", include_str!("../guest/var.mount")),
        plain("etc/systemd/system/usr.mount", include_str!("../guest/usr.mount")),
        plain("etc/systemd/system/crio.service", include_str!("../guest/crio.service")),
        plain("etc/systemd/system/kubelet.service", include_str!("../guest/kubelet.service")),
        plain(
            "etc/systemd/system/kubelet-dependencies.target",
            include_str!("../guest/kubelet-dependencies.target"),
        ),
        program("usr/libexec/kubelet-stand-in", include_str!("../guest/kubelet-stand-in")),
        program("usr/bin/crictl", include_str!("../guest/crictl")),
        program("usr/local/bin/etcdctl", include_str!("../guest/etcdctl")),
        plain(ETCD_POD, include_str!("../guest/etcd-pod.yaml")),
        program("usr/libexec/etcd-pod/cluster-etcd-operator", include_str!("../guest/cluster-etcd-operator")),
        program(
            "usr/libexec/etcd-pod/discover-etcd-initial-cluster",
            include_str!("../guest/discover-etcd-initial-cluster"),
        ),
        // The pod copies the scripts of this directory to /usr/local/bin, and OpenShift has some.
        program(
            "etc/kubernetes/static-pod-resources/etcd-certs/configmaps/etcd-scripts/stand-in.sh",
            "#!/bin/sh\n### Created by cluster-etcd-operator (stand-in)\n",
        ),
        // As on Red Hat CoreOS: at a first boot, a unit stays disabled unless another preset enables it.
        // Debian's default enables every unit.
        plain("usr/lib/systemd/system-preset/99-default-disable.preset", "disable *\n"),
        plain("etc/initramfs-tools/modules", include_str!("../guest/initramfs-modules")),
        plain("etc/initramfs-tools/conf.d/bed", "MODULES=list\n"),
        // A node that goes back to a snapshot drops its connections without closing them. sshd must not treat
        // that as an attack.
        plain("etc/ssh/sshd_config.d/bed.conf", Release::chosen().sshd()),
        plain("etc/hostname", &format!("{HOSTNAME}\n")),
        plain(
            "etc/hosts",
            &format!(
                "127.0.0.1 localhost\n127.0.1.1 {HOSTNAME}\n{} target-a\n{} target-b\n",
                NetPath::A.target(),
                NetPath::B.target()
            ),
        ),
    ];
    // All machines share one image. A machine finds out which one it is from the addresses of its network
    // cards.
    files.extend(
        Machine::IN_IMAGE
            .iter()
            .flat_map(|machine| networks(*machine).into_iter().map(|(path, text)| plain(&path, &text))),
    );
    files
}

/// The path, without the first `/`, and the content of the files that give a machine its addresses.
pub fn networks(machine: Machine) -> Vec<(String, String)> {
    let file = |(number, path): (usize, &NetPath)| {
        let name = format!("etc/systemd/network/10-{}-eth{number}.network", machine.name());
        let text = format!(
            "[Match]\nMACAddress={}\n\n[Network]\nAddress={}/24\nAddress={}/64\nLinkLocalAddressing=no\n\
             IPv6AcceptRA=no\nIPv6DuplicateAddressDetection=0\n",
            path.mac(machine),
            path.address(machine),
            path.address_v6(machine)
        );
        (name, text)
    };
    NetPath::ALL.iter().enumerate().map(file).collect()
}

/// The script that makes a node from a new tree of the chosen release.
fn finish() -> String {
    format!("{}{FINISH}", Release::chosen().before_finish())
}

fn recipe_hash() -> String {
    let release = Release::chosen();
    let (name, packages) = (release.name(), release.packages(PACKAGES));
    let mut recipe = format!("{VERSION}\n{name}\n{DISK}\n{packages:?}\n{}", finish());
    recipe.extend(release.bootstrap_options().iter().copied());
    for (path, mode, text) in files() {
        recipe.push_str(&format!("\n{path} {mode:o}\n{text}"));
    }
    blake3::hash(recipe.as_bytes()).to_hex()[..16].to_string()
}

/// The directory of images: `$ETCD_LUN_BED_CACHE`, or `etcd-lun-bed` in the user's cache directory.
pub fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("ETCD_LUN_BED_CACHE") {
        return Ok(dir.into());
    }
    let home = std::env::var_os("HOME").context("neither ETCD_LUN_BED_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/etcd-lun-bed"))
}

/// Which recipe the image was made from.
pub(crate) fn recipe() -> String {
    format!("{}-{}", Release::chosen().name(), recipe_hash())
}

fn only(dir: &Path, prefix: &str) -> Result<PathBuf> {
    let found: Vec<PathBuf> = fs::read_dir(dir)?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        _ => bail!("expected one {prefix}* in {}, found {found:?}", dir.display()),
    }
}

/// The Debian mirror that the host uses. If the host is not a Debian, Debian's own mirror.
fn mirror() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let lists = ["/etc/apt/sources.list".into()]
        .into_iter()
        .chain(fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|e| e.path()));
    let text: String = lists.filter_map(|file: PathBuf| fs::read_to_string(file).ok()).collect();
    mirror_in(&release, &text).unwrap_or("http://deb.debian.org/debian").to_string()
}

fn mirror_in<'a>(os_release: &str, sources: &'a str) -> Option<&'a str> {
    if !os_release.lines().any(|line| line == "ID=debian") {
        return None;
    }
    sources
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(str::split_whitespace)
        .find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "PRETTY_NAME=\"Debian\"\nID=debian\n";

    #[test]
    fn the_mirror_is_the_hosts_own() {
        let deb822 = "Types: deb\n# http://snapshot.example/debian\nURIs: http://mirror.example/debian\nSuites: bookworm\n";
        assert_eq!(mirror_in(DEBIAN, deb822), Some("http://mirror.example/debian"));
        let one_line = "deb http://a.example/debian-security bookworm-security main\n\
                        deb [arch=amd64] https://b.example/debian/ bookworm main\n";
        assert_eq!(mirror_in(DEBIAN, one_line), Some("https://b.example/debian/"));
        assert_eq!(mirror_in("ID=ubuntu\n", deb822), None);
    }
}

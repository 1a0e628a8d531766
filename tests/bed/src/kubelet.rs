//! The disk of a node with the real kubelet, which runs etcd as a static pod in containers.
//!
//! Debian has no package with a kubelet, so the bed builds it from Debian's source package. The program and the
//! disk are cached like the node's image, by a hash of what they are made from.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::bed::Bed;
use crate::delivery::{self, Root};
use crate::host;
use crate::image::{self, HOSTNAME};
use crate::net::{Machine, Path as NetPath};

/// Raise this when a change of this file changes the disk but not the guest's files.
const VERSION: u32 = 1;

/// The build needs eight minutes of a processor, and tests may run beside it.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

const BUILD: &str = include_str!("../guest/kubelet/build");
const IMAGES: &str = include_str!("../guest/kubelet/images");
const FINISH: &str = include_str!("../guest/kubelet/finish.sh");

/// The node's files: path, mode and content.
const FILES: &[(&str, u32, &str)] = &[
    ("/etc/systemd/system/kubelet.service", 0o644, include_str!("../guest/kubelet/kubelet.service")),
    ("/etc/systemd/system/crio.service", 0o644, include_str!("../guest/kubelet/crio.service")),
    ("/etc/kubernetes/kubelet.conf", 0o644, include_str!("../guest/kubelet/kubelet.conf")),
    ("/etc/containerd/config.toml", 0o644, include_str!("../guest/kubelet/containerd.toml")),
    ("/usr/bin/crictl", 0o755, include_str!("../guest/kubelet/crictl")),
    (
        "/usr/libexec/etcd-pod/cluster-etcd-operator",
        0o755,
        include_str!("../guest/kubelet/cluster-etcd-operator"),
    ),
    (
        "/usr/libexec/etcd-pod/discover-etcd-initial-cluster",
        0o755,
        include_str!("../guest/kubelet/discover-etcd-initial-cluster"),
    ),
];

/// The kubelet. Builds it first if it is not in the cache.
pub fn program() -> Result<PathBuf> {
    let hash = blake3::hash(BUILD.as_bytes()).to_hex();
    cached(&format!("kubelet-{}", &hash[..16]), "the kubelet is built", |program| {
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/kubelet/build");
        host::ok(Command::new(build).arg(program), BUILD_LIMIT).map(drop)
    })
}

/// The disk of a node with the real kubelet. Nobody writes to it after it was made.
pub fn disk(bed: &Bed) -> Result<PathBuf> {
    let program = program()?;
    let mut recipe = format!("{VERSION}\n{}\n{}\n{IMAGES}\n{FINISH}", image::recipe(), program.display());
    for (path, mode, text) in FILES {
        recipe.push_str(&format!("\n{path} {mode:o}\n{text}"));
    }
    let hash = blake3::hash(recipe.as_bytes()).to_hex();
    cached(
        &format!("kubelet-node-{}.raw", &hash[..16]),
        "the disk of a node with the kubelet is made",
        |disk| {
            let made = delivery::change(bed, "kubelet", &bed.image.disk, |root| furnish(root, &program))?;
            host::copy_sparse(&made, disk)?;
            fs::remove_file(&made)?;
            File::open(disk)?.sync_all().map_err(Into::into)
        },
    )
}

fn furnish(root: &Root, program: &Path) -> Result<()> {
    fs::copy(program, root.path("/usr/bin/kubelet"))?;
    let address = NetPath::Management.address(Machine::Node);
    let filled = |text: &str| text.replace("NODE_NAME", HOSTNAME).replace("NODE_IP", &address.to_string());
    for (path, mode, text) in FILES {
        let file = root.path(path);
        fs::create_dir_all(file.parent().context("a path without a directory")?)?;
        let text = if path.starts_with("/usr") { (*text).to_string() } else { filled(text) };
        fs::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(*mode))?;
    }
    root.mount_kernel_filesystems()?;
    root.run("bash -s", filled(FINISH).as_bytes())?;
    root.run("bash -s", IMAGES.as_bytes())?;
    root.label("/etc /usr/bin /usr/libexec /var")?;
    // On OpenShift the kubelet and the container runtime run in unconfined domains. With Debian's labels on their
    // programs they would be confined.
    root.run(
        "for program in kubelet containerd containerd-shim-runc-v2 runc; do
             setfattr -n security.selinux -v system_u:object_r:bin_t:s0 /usr/bin/$program
         done",
        &[],
    )
}

/// Takes a file from the cache. Makes it first if it is missing; another process that wants the same file waits
/// meanwhile.
fn cached(name: &str, done: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let cache = image::cache_dir()?;
    let file = cache.join(name);
    if file.exists() {
        return Ok(file);
    }
    fs::create_dir_all(&cache)?;
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock().context("cannot lock the cache")?;
    if file.exists() {
        return Ok(file);
    }
    let begun = Instant::now();
    // Made under another name and renamed, so a killed run leaves no incomplete file.
    let aside = cache.join(format!("making-{name}"));
    fs::remove_file(&aside).ok();
    make(&aside)?;
    fs::rename(&aside, &file)?;
    println!("bed: {done} in {} s; later runs take it from {}", begun.elapsed().as_secs(), file.display());
    Ok(file)
}

//! Puts a MachineConfig on a node's disk: the real Ignition applies its Ignition config from outside the
//! node.
//!
//! On a fresh disk this works as at a node's first boot. On the disk of a node that has booted before, it
//! stands in for the Machine Config Daemon, which is not available here: Ignition writes the files, and
//! systemctl enables the units.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;

use crate::bed::Bed;
use crate::host;
use crate::image::ETCD_POD;
use crate::node::Node;
use crate::registry;
use crate::release::Release;
use crate::tree::Tree;

const LIMIT: Duration = Duration::from_secs(120);

/// Who runs etcd on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdRunner {
    /// systemd runs `etcd.service`. The kubelet's stand-in has no manifest of etcd.
    Unit,
    /// The kubelet's stand-in runs etcd as a static pod.
    StaticPod,
}

/// Where distributions install Ignition. It is made for the initramfs, so it is not on the search path.
const IGNITION: &str = "/usr/lib/dracut/modules.d/30ignition/ignition";

/// Writes an object's files and units on a running node. A script stands in for the Machine Config Daemon; /run executes nothing.
pub fn write_on(node: &Node, ignition: &str) -> Result<()> {
    let daemon = "/var/usrlocal/bin/machine-config-daemon";
    node.put(daemon, 0o755, include_bytes!("../guest/machine-config-daemon"))?;
    node.put("/run/ignition.json", 0o600, ignition.as_bytes())?;
    node.ok(&format!("{daemon} /run/ignition.json")).map(drop)
}

/// The Ignition config in a MachineConfig.
pub fn ignition_of(machine_config: &str) -> Result<Value> {
    let mut object: Value =
        serde_norway::from_str(machine_config).context("the MachineConfig is not YAML")?;
    let is = |key: &str, wanted: &str| object[key] == wanted;
    if !is("apiVersion", "machineconfiguration.openshift.io/v1") || !is("kind", "MachineConfig") {
        bail!(
            "expected a MachineConfig of machineconfiguration.openshift.io/v1, found a {} of {}",
            object["kind"],
            object["apiVersion"]
        );
    }
    Ok(object["spec"]["config"].take())
}

/// Makes a new disk from `base`, applies the object's Ignition config to it, and then runs `finish` on it.
pub fn deliver(
    bed: &Bed,
    name: &str,
    base: &Path,
    machine_config: &str,
    finish: impl FnOnce(&Root) -> Result<()> + Send,
) -> Result<PathBuf> {
    let file = |what: &str| bed.run.dir().join(format!("{name}.{what}"));
    let (config, disk) = (file("ign"), file("raw"));
    fs::write(&config, ignition_of(machine_config)?.to_string())?;
    let said = host::run(Command::new("ignition-validate").arg(&config), LIMIT)?;
    if said.code != 0 || !said.both().trim().is_empty() {
        bail!("ignition-validate does not accept the config: {said}");
    }
    let mut copy = Command::new("qemu-img");
    copy.args(["convert", "-O", "raw"]).arg(base).arg(&disk);
    host::ok(&mut copy, LIMIT)?;
    let (cache, state) = (file("ignition.cache"), file("ignition.state"));
    on_disk(&disk, file("root"), |root| {
        for stage in ["fetch", "files"] {
            let mut ignition = Command::new(IGNITION);
            ignition
                .env("IGNITION_CONFIG_FILE", &config)
                .args(["--platform", "file", "--log-to-stdout", "--stage", stage, "--root"])
                .arg(root.tree.dir())
                .arg("--config-cache")
                .arg(&cache)
                .arg("--state-file")
                .arg(&state);
            host::ok(&mut ignition, LIMIT)?;
        }
        root.enable_units()?;
        finish(root)
    })?;
    Ok(disk)
}

/// Mounts the disk in a mount namespace of its own, runs `work` on its filesystem, and unmounts it.
fn on_disk(disk: &Path, dir: PathBuf, work: impl FnOnce(&Root) -> Result<()> + Send) -> Result<()> {
    in_own_namespace(|| {
        let root = Root::mount(disk, dir)?;
        work(&root)?;
        root.unmount()
    })
}

/// Runs `work` in a mount namespace that no other process shares.
///
/// `ip netns exec` gives its program a copy of the current mounts. Another lane may run it while a disk is
/// mounted here. That copy would keep the filesystem mounted after our unmount, so its last writes might not
/// be on the disk. A node that boots from the disk would then read old data.
fn in_own_namespace(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    // The namespace belongs to a thread and ends with it.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).context("cannot make a mount namespace")?;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
                .context("cannot make the mounts private")?;
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Copies a disk and changes the copy with `work`.
pub fn change(
    bed: &Bed,
    name: &str,
    base: &Path,
    work: impl FnOnce(&Root) -> Result<()> + Send,
) -> Result<PathBuf> {
    let file = |what: &str| bed.run.dir().join(format!("{name}.{what}"));
    let disk = file("raw");
    host::copy_sparse(base, &disk)?;
    on_disk(&disk, file("root"), work)?;
    Ok(disk)
}

/// The filesystem of a disk, mounted as Ignition sees it in the initramfs.
#[derive(Debug)]
pub struct Root {
    tree: Tree,
}

impl Root {
    fn mount(disk: &Path, dir: PathBuf) -> Result<Self> {
        let disk = disk.to_str().context("the disk's path is not UTF-8")?;
        Ok(Self { tree: Tree::mount(&["-o", "loop", disk], dir, LIMIT)? })
    }

    /// The path on this machine of a file of the node.
    pub fn path(&self, path: &str) -> PathBuf {
        self.tree.path(path)
    }

    /// Runs a script on the filesystem with the node's own programs. The script must succeed.
    pub fn run(&self, script: &str, input: &[u8]) -> Result<()> {
        let mut chroot = Command::new("chroot");
        let output =
            host::run_with_input(chroot.arg(self.tree.dir()).args(["sh", "-ec", script]), input, LIMIT)?;
        if output.code != 0 {
            bail!("on the node's disk, `{script}`: {output}");
        }
        Ok(())
    }

    /// Writes a file.
    pub fn put(&self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        let file = self.path(path);
        fs::create_dir_all(file.parent().unwrap_or(&file))?;
        fs::write(&file, content)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Keeps a program as the copy that an earlier object would have left.
    pub fn keep_program(&self, program: &Path) -> Result<()> {
        let copy = format!("/var/lib/etcd-lun/program/{}", registry::sum(program)?);
        self.put(&copy, 0o600, &fs::read(program)?)?;
        self.run("chmod 0700 /var/lib/etcd-lun /var/lib/etcd-lun/program", &[])?;
        self.label("/var/lib/etcd-lun")
    }

    /// Makes etcd run at each boot.
    pub fn enable_etcd(&self, runs: EtcdRunner) -> Result<()> {
        let script = match runs {
            EtcdRunner::Unit => "systemctl --quiet enable etcd.service kubelet.service".to_string(),
            EtcdRunner::StaticPod => format!(
                "systemctl --quiet disable etcd.service; systemctl --quiet enable kubelet.service
                 mkdir --parents /etc/kubernetes/manifests; cp /{ETCD_POD} /etc/kubernetes/manifests/"
            ),
        };
        self.run(&script, &[])
    }

    /// Labels files that were written from outside, for a boot that enforces SELinux. This machine's kernel
    /// did not label them.
    pub fn label(&self, paths: &str) -> Result<()> {
        if !Release::chosen().has_labels() {
            return Ok(());
        }
        self.run(
            &format!(". /etc/selinux/config; setfiles -F /etc/selinux/$SELINUXTYPE/contexts/files/file_contexts {paths}"),
            &[],
        )
    }

    /// Enables units. Ignition leaves a preset, which systemd applies at a first boot. On a node that has
    /// booted before, the Machine Config Daemon enables the units, so systemctl does it here.
    fn enable_units(&self) -> Result<()> {
        // Ignition makes it only for an object that enables a unit. Scenarios add presets of their own.
        fs::create_dir_all(self.path("/etc/systemd/system-preset"))?;
        let machine_id = self.path("/etc/machine-id");
        if fs::read_to_string(&machine_id)?.trim().is_empty() {
            // An empty file would mean that the boot is not the first one (machine-id(5)).
            fs::write(machine_id, "uninitialized\n")?;
            return Ok(());
        }
        let script = "sed -n 's/^enable //p' /etc/systemd/system-preset/20-ignition.preset 2>/dev/null | xargs --no-run-if-empty systemctl --quiet enable";
        self.run(script, &[])
    }

    fn unmount(self) -> Result<()> {
        self.tree.unmount()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignition_config_is_the_objects() {
        let text = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: 99-x\n\
                    spec:\n  config:\n    ignition:\n      version: 3.2.0\n    storage:\n      files:\n      - path: /a\n\
                    \x20       mode: 384\n";
        let config = ignition_of(text).unwrap();
        assert_eq!(config["ignition"]["version"], "3.2.0");
        assert_eq!(config["storage"]["files"][0]["mode"], 0o600);
        assert!(ignition_of("kind: Pod\n").is_err());
    }
}

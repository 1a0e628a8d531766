//! A node that is off, from outside: its disk mounted as a boot has it, the LUN a loop device, and in the place of sysfs
//! and procfs what a kernel says that has a session to it, and nobody who uses it (stand-ins, read by the program's own
//! readers).

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::boot::DATA_DIR;
use crate::host;
use crate::scene;
use crate::target::IQN;
use crate::tree::Tree;

const LIMIT: Duration = Duration::from_secs(60);

/// The node.
#[derive(Debug)]
pub struct Machine {
    tree: Tree,
    _node: Loop,
    lun: Loop,
}

impl Machine {
    /// Mounts the disks below `root`, in this thread's mount namespace. The node's journal is replayed by it; the LUN is
    /// for the program to look at.
    pub fn mount(root: &Path, node: &Path, (lun, wwid): (&Path, &str)) -> Result<Self> {
        let (node, lun) = (Loop::attach(node)?, Loop::attach(lun)?);
        let tree = Tree::mount(&["-t", "ext4", &node.device], root.to_path_buf(), LIMIT)?;
        let machine = Self { tree, _node: node, lun };
        machine.tree.add(&["--bind", "/dev"], "/dev")?;
        for at in ["/run", "/sys", "/proc"] {
            machine.tree.add(&["-t", "tmpfs", "tmpfs"], at)?;
        }
        machine.say_boot()?;
        machine.say_session(wwid)?;
        Ok(machine)
    }

    /// The directory that is the node's `/`.
    pub fn root(&self) -> &Path {
        self.tree.dir()
    }

    /// Where a path of the node is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.tree.path(path)
    }

    /// etcd can't start in the local data directory.
    pub fn is_barred(&self) -> Result<()> {
        is_barred(&self.path(DATA_DIR))
    }

    /// Unmounts all of it.
    pub fn unmount(self) -> Result<()> {
        self.tree.unmount()
    }

    fn say(&self, path: &str, text: &str) -> Result<()> {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap_or(self.root()))?;
        Ok(fs::write(path, text)?)
    }

    /// The parts of procfs in which nobody but PID 1 is there, and nothing is mounted on the data directory.
    fn say_boot(&self) -> Result<()> {
        self.say("/proc/1/mountinfo", "1 0 254:0 / / rw - ext4 /dev/vda rw\n")?;
        let uuid = "/proc/sys/kernel/random/uuid";
        self.say(uuid, &fs::read_to_string(uuid)?)
    }

    /// The parts of sysfs in which a logged-in session with this one LUN shows.
    fn say_session(&self, wwid: &str) -> Result<()> {
        const SESSION: &str = "/sys/class/iscsi_session/session1";
        for (attribute, text) in [
            ("targetname", IQN),
            ("state", "LOGGED_IN"),
            ("initiatorname", scene::INITIATOR),
            ("target_id", "0"),
            ("tpgt", "1"),
            ("recovery_tmo", "30"),
        ] {
            self.say(&format!("{SESSION}/{attribute}"), text)?;
        }
        fs::create_dir_all(self.path("/sys/devices/host2/session1"))?;
        symlink("../../../devices/host2/session1", self.path(&format!("{SESSION}/device")))?;
        let name = self.lun.device.trim_start_matches("/dev/");
        fs::create_dir_all(self.path(&format!("/sys/bus/scsi/devices/2:0:0:1/block/{name}")))?;
        for attribute in ["dev", "size", "ro"] {
            let own = fs::read_to_string(format!("/sys/class/block/{name}/{attribute}"))?;
            self.say(&format!("/sys/class/block/{name}/{attribute}"), &own)?;
        }
        self.say(&format!("/sys/class/block/{name}/device/wwid"), wwid)
    }
}

/// A directory holds nothing but an empty file where etcd must have a directory.
fn is_barred(dir: &Path) -> Result<()> {
    let found: Vec<_> = fs::read_dir(dir)?.collect::<std::io::Result<_>>()?;
    match &found[..] {
        [only] if only.file_name() == "member" => {
            let about = only.metadata()?;
            if !about.is_file() || about.len() > 0 {
                bail!("etcd's local data lies where it starts, and is not the truth");
            }
            Ok(())
        }
        other => bail!("nothing bars etcd from its local directory, which is not the truth: {other:?}"),
    }
}

/// A loop device over a file, that goes with its last user.
#[derive(Debug)]
struct Loop {
    device: String,
    _open: File,
}

impl Loop {
    fn attach(file: &Path) -> Result<Self> {
        let mut losetup = Command::new("losetup");
        let device = host::ok(losetup.args(["--find", "--show"]).arg(file), LIMIT)?.trim().to_string();
        let open = File::open(&device);
        // While somebody has it open this only says that it shall go with the last one: also when this process is killed.
        host::ok(Command::new("losetup").arg("--detach").arg(&device), LIMIT)?;
        let open = open.with_context(|| format!("cannot open {device}"))?;
        Ok(Self { device, _open: open })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_file_bars_etcd() {
        let dir = std::env::temp_dir().join(format!("bed-barred-{}", std::process::id()));
        let member = dir.join("member");
        fs::create_dir_all(&dir).unwrap();
        assert!(is_barred(&dir).unwrap_err().to_string().contains("nothing bars"));
        fs::write(&member, "").unwrap();
        is_barred(&dir).unwrap();
        fs::write(&member, "x").unwrap();
        assert!(is_barred(&dir).is_err());
        fs::remove_file(&member).unwrap();
        fs::create_dir(&member).unwrap();
        assert!(is_barred(&dir).unwrap_err().to_string().contains("local data lies"));
        fs::remove_dir_all(&dir).unwrap();
    }
}

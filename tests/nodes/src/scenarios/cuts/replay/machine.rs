//! A node that is off, seen from the host. Its disk is mounted with the layout of a booted node. The LUN is a
//! loop device. Stand-ins for sysfs and procfs show a session to the LUN that nobody uses. The program's own
//! readers read them.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use terms::INTERFACE;

use super::boot::DATA_DIR;
use crate::host;
use crate::scene;
use crate::target::IQN;
use crate::tree::Tree;

const LIMIT: Duration = Duration::from_secs(60);

/// The node's mounted disk and its LUN.
#[derive(Debug)]
pub struct Machine {
    tree: Tree,
    _node: Loop,
    lun: Loop,
}

impl Machine {
    /// Mounts the disks below `root`, in this thread's mount namespace. The mount replays the node's ext4
    /// journal. The program itself mounts the LUN.
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

    /// The path on the host of a file of the node.
    pub fn path(&self, path: &str) -> PathBuf {
        self.tree.path(path)
    }

    /// Checks that etcd cannot start in the local data directory.
    pub fn keeps_etcd_out(&self) -> Result<()> {
        keeps_etcd_out(&self.path(DATA_DIR))
    }

    /// Unmounts everything.
    pub fn unmount(self) -> Result<()> {
        self.tree.unmount()
    }

    fn say(&self, path: &str, text: &str) -> Result<()> {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap_or(self.root()))?;
        Ok(fs::write(path, text)?)
    }

    /// Writes the part of procfs that shows no process but PID 1, and no mount on the data directory.
    fn say_boot(&self) -> Result<()> {
        self.say("/proc/1/mountinfo", "1 0 254:0 / / rw - ext4 /dev/vda rw\n")?;
        let uuid = "/proc/sys/kernel/random/uuid";
        self.say(uuid, &fs::read_to_string(uuid)?)
    }

    /// Writes the part of sysfs and udev's database that shows a logged-in session with this one LUN.
    fn say_session(&self, wwid: &str) -> Result<()> {
        const SESSION: &str = "/sys/class/iscsi_session/session1";
        for (attribute, text) in [
            ("targetname", IQN),
            ("state", "LOGGED_IN"),
            ("initiatorname", scene::INITIATOR),
            ("ifacename", INTERFACE),
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
        self.say(&format!("/sys/class/block/{name}/device/wwid"), wwid)?;
        // udev has handled the disk.
        let number = fs::read_to_string(format!("/sys/class/block/{name}/dev"))?;
        self.say(&format!("/run/udev/data/b{}", number.trim()), "I:1\n")
    }
}

/// Checks that a directory holds only an empty file where etcd must have a directory.
fn keeps_etcd_out(dir: &Path) -> Result<()> {
    let found: Vec<_> = fs::read_dir(dir)?.collect::<std::io::Result<_>>()?;
    match &found[..] {
        [only] if only.file_name() == "member" => {
            let about = only.metadata()?;
            if !about.is_file() || about.len() > 0 {
                bail!("etcd could start on its local data, which is not authoritative");
            }
            Ok(())
        }
        other => {
            bail!("nothing keeps etcd out of its local directory, which is not authoritative: {other:?}")
        }
    }
}

/// A loop device over a file. It is detached when its last user closes it.
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
        // While the device is open, this only marks it to be detached by the last close. So it also goes when
        // this process is killed.
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
        assert!(keeps_etcd_out(&dir).unwrap_err().to_string().contains("nothing keeps etcd out"));
        fs::write(&member, "").unwrap();
        keeps_etcd_out(&dir).unwrap();
        fs::write(&member, "x").unwrap();
        assert!(keeps_etcd_out(&dir).is_err());
        fs::remove_file(&member).unwrap();
        fs::create_dir(&member).unwrap();
        assert!(keeps_etcd_out(&dir).unwrap_err().to_string().contains("could start on its local data"));
        fs::remove_dir_all(&dir).unwrap();
    }
}

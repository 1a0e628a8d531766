//! The mount unit under a real systemd, which is PID 1 of namespaces of its own.
//!
//! Needs root, systemd, XFS and a loop device. Without them the test prints that and does nothing. What systemd mounts is
//! visible only in its namespaces and ends with them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};
use terms::Span;
use unit::{DataMount, VERIFIED, data_mount};

const SYSTEMD: &str = "/lib/systemd/systemd";

/// Each of these makes a unit require the mount unit of that directory.
const REQUIRES: [(&str, &str); 3] = [
    ("working", "[Service]\nWorkingDirectory=/var/lib/etcd"),
    ("state", "[Service]\nStateDirectory=etcd"),
    ("mounts", "[Unit]\nRequiresMountsFor=/var/lib/etcd"),
];

/// PID 1 of the namespaces. Nothing here outlives it.
const INIT: &str = r#"set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs none /run
mount --bind "$1/units" /etc/systemd/system
mount -t tmpfs none /var/lib
mkdir -p /run/lock /run/etcd-lun-hands /var/lib/etcd
echo local >/var/lib/etcd/which
umount -R /sys/fs/cgroup || true
mount -t cgroup2 none /sys/fs/cgroup
export container=test
exec /lib/systemd/systemd --system --unit=test.target --log-target=null --show-status=false
"#;

/// What happens on the node. Each line of the output is a moment, and what etcd would see then.
const SCRIPT: &str = r#"
see() { echo "$1: $(cat /var/lib/etcd/which), $(systemctl is-active var-lib-etcd.mount)"; }
start() { timeout 60 systemctl restart "$1.service" && echo "$1 starts on $(cat /run/$1)"; }
echo "device units: $(systemctl show --property Requires,BindsTo,Wants var-lib-etcd.mount | grep -c '\.device')"
for unit in working state mounts; do start $unit; done
for again in 1 2 3 4 5 6 7 8; do start working >/dev/null; done
see unverified
ln -s $LUN VERIFIED
systemctl start var-lib-etcd.mount
rm VERIFIED
see verified
start working
start mounts
findmnt --noheadings --output OPTIONS /var/lib/etcd | grep nodev | grep nosuid | grep -c noexec
timeout 60 systemctl restart var-lib-etcd.mount
see 'restarted without the link'
start state
systemctl exit
"#;

struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["-d", &self.0]);
    }
}

fn output(program: &str, args: &[&str]) -> Option<Output> {
    Command::new(program).args(args).output().ok().filter(|output| output.status.success())
}

fn run(program: &str, args: &[&str]) -> String {
    let output = output(program, args).unwrap_or_else(|| panic!("{program} {args:?}"));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn can_run() -> bool {
    let namespaces = ["--mount", "--pid", "--cgroup", "--fork", "true"];
    let can = Path::new(SYSTEMD).exists()
        && nix::unistd::geteuid().is_root()
        && output("unshare", &namespaces).is_some()
        && fs::read_to_string("/proc/filesystems").is_ok_and(|known| known.contains("xfs"))
        && output("losetup", &["-f"]).is_some();
    if !can {
        println!("not run: needs root, systemd, XFS, loop devices and the right to make namespaces");
    }
    can
}

/// The unit as it is rendered, without an option that this machine's kernel may lack.
fn rendered() -> String {
    let options = ["_netdev", "nodev", "nosuid", "noexec"].map(str::to_owned);
    let of = DataMount {
        place: &"/var/lib/etcd".parse().unwrap(),
        options: &options,
        wants: "",
        before: &[],
        limit: Span(Duration::from_secs(90)),
    };
    data_mount(&of).unwrap().text
}

fn lun(dir: &Path) -> Loop {
    let image = dir.join("image");
    let image = image.to_str().unwrap();
    fs::File::create(image).unwrap().set_len(400 << 20).unwrap();
    run("mkfs.xfs", &["-q", "-L", "etcd-lun", image]);
    let device = Loop(run("losetup", &["-f", "--show", image]));
    let place = dir.join("place");
    fs::create_dir(&place).unwrap();
    run("mount", &[&device.0, place.to_str().unwrap()]);
    fs::write(place.join("which"), "lun").unwrap();
    run("umount", &[place.to_str().unwrap()]);
    device
}

#[test]
fn etcd_units_that_require_the_mount_never_mount_what_was_not_verified() {
    if !can_run() {
        return;
    }
    let dir = Dir(format!("/var/tmp/etcd-lun-units-{}", std::process::id()).into());
    let units = dir.0.join("units");
    fs::create_dir_all(&units).unwrap();
    fs::write(units.join("var-lib-etcd.mount"), rendered()).unwrap();
    for (name, lines) in REQUIRES {
        let text = format!(
            "[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n{lines}\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
             ExecStart=/bin/sh -c 'cat /var/lib/etcd/which >/run/{name}'\n"
        );
        fs::write(units.join(format!("{name}.service")), text).unwrap();
    }
    let lun = lun(&dir.0);
    let base = dir.0.display();
    fs::write(dir.0.join("script"), SCRIPT.replace("$LUN", &lun.0).replace("VERIFIED", VERIFIED)).unwrap();
    fs::write(units.join("test.target"), "[Unit]\nDefaultDependencies=no\nWants=script.service\n").unwrap();
    let script = format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/sh {base}/script\n\
         StandardOutput=append:{base}/seen\nStandardError=append:{base}/seen\n"
    );
    fs::write(units.join("script.service"), script).unwrap();
    let namespaces = ["--mount", "--pid", "--cgroup", "--uts", "--ipc", "--fork"];
    let ended = Command::new("timeout")
        .args(["--kill-after=5", "300", "unshare"])
        .args(namespaces)
        .args(["sh", "-c", INIT, "sh", dir.0.to_str().unwrap()])
        .output()
        .unwrap();
    let seen = fs::read_to_string(dir.0.join("seen"))
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ended.stderr)));
    let expected = "\
device units: 0
working starts on local
state starts on local
mounts starts on local
unverified: local, inactive
verified: lun, active
working starts on lun
mounts starts on lun
1
restarted without the link: local, inactive
state starts on local
";
    assert_eq!(seen, expected);
}

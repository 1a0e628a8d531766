//! A mount of the LUN by mount(8), under a real systemd, which is PID 1 of namespaces of its own.
//!
//! Needs root, systemd, XFS and a loop device. Without them the test prints that and does nothing. What is mounted is visible only in
//! these namespaces and ends with them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use config::{Pool, Source};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const SYSTEMD: &str = "/lib/systemd/systemd";

/// Each of these makes a unit depend on the mount of that directory.
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
mount -t tmpfs none /tmp
mkdir -p /run/lock /var/lib/etcd
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
for unit in working state mounts; do start $unit; done
see before
mount -i -t xfs -o _netdev,nodev,nosuid,noexec -- $LUN /var/lib/etcd
while ! systemctl --quiet is-active var-lib-etcd.mount; do sleep 0.1; done
see mounted
start working
start mounts
systemctl show --property Options var-lib-etcd.mount | grep _netdev | grep nodev | grep nosuid | grep -c noexec
systemctl show --property After,Before,Conflicts var-lib-etcd.mount | xargs -n 1 | sed 's/.*=//' |
    grep -E '^(remote-fs-pre.target|kubelet.service|umount.target)$' | sort -u | xargs echo ordered with
timeout 60 systemctl stop var-lib-etcd.mount
see unmounted
timeout 60 systemctl start var-lib-etcd.mount 2>/dev/null || echo nothing to mount
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

/// What puts the kubelet after the mount.
fn order() -> String {
    let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\n[etcd]\nruntime = \"static-pod\"";
    let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
    unit::drop_ins(&pool).into_iter().find(|one| one.unit == "kubelet.service").unwrap().text
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
fn systemd_follows_the_mount_and_never_makes_it() {
    if !can_run() {
        return;
    }
    let dir = Dir(format!("/var/tmp/etcd-lun-units-{}", std::process::id()).into());
    let units = dir.0.join("units");
    fs::create_dir_all(&units).unwrap();
    fs::create_dir(units.join("kubelet.service.d")).unwrap();
    fs::write(units.join("kubelet.service.d/50-etcd-lun.conf"), order()).unwrap();
    fs::write(
        units.join("kubelet.service"),
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/true\n",
    )
    .unwrap();
    for (name, lines) in REQUIRES {
        let text = format!(
            "[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n{lines}\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
             ExecStart=/bin/sh -c 'cat /var/lib/etcd/which >/run/{name}'\n"
        );
        fs::write(units.join(format!("{name}.service")), text).unwrap();
    }
    let lun = lun(&dir.0);
    let base = dir.0.display();
    fs::write(dir.0.join("script"), SCRIPT.replace("$LUN", &lun.0)).unwrap();
    fs::write(
        units.join("test.target"),
        "[Unit]\nDefaultDependencies=no\nWants=script.service kubelet.service\n",
    )
    .unwrap();
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
    let seen: Vec<_> = seen.lines().collect();
    let expected = [
        "working starts on local",
        "state starts on local",
        "mounts starts on local",
        "before: local, inactive",
        "mounted: lun, active",
        "working starts on lun",
        "mounts starts on lun",
        "1",
        "ordered with kubelet.service remote-fs-pre.target umount.target",
        "unmounted: local, inactive",
        "nothing to mount",
        "state starts on local",
    ];
    assert_eq!(seen, expected);
}

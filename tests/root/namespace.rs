//! Real mount namespaces: the layout of a debug pod, and a container's volume.
//!
//! Needs root. Without root the tests print that and do nothing. Each test has a PID namespace of its own,
//! and its PID 1 stands in for the node's. The mounts are visible only there and end with it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use host::{Host, mountinfo::bind_holders};
use nix::mount::{MsFlags, mount};
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const NODE: &[&str] = &["--pid", "--fork", "--mount-proc"];

fn can_run() -> bool {
    let made = Command::new("unshare").args(NODE).arg("true").output();
    let can = made.is_ok_and(|output| output.status.success());
    if !can {
        println!("not run: needs root and the right to make namespaces");
    }
    can
}

struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("etcd-lun-namespace-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

const CONFIG: &str = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.0.2.1\"]\n\
                      [etcd]\nruntime = \"systemd\"\n\
                      [[node]]\nhostname = \"HOST\"\ninitiator = \"iqn.1994-05.com.redhat:master0\"\nlun = 1\n";

/// The layout of `oc debug node/X -- chroot /host`: the node's PIDs, a mount namespace of its own, the node's
/// root bound to a directory, and a chroot into it. For the pod the directory `work` is an empty tmpfs; only
/// PID 1 sees the config in it.
const POD: &str = r#"
mkdir -p "$1/pod"; cd "$1"; export DIR="$1"; shift
exec unshare --mount sh -c '
    mount -t tmpfs none work && cp "$DIR/config.toml" work/of-the-pod.toml &&
    mount --rbind / pod && mount --make-rprivate pod &&
    exec chroot pod sh -c "cd \"\$DIR/work\" && exec \"\$@\"" sh "$@"' sh "$@"
"#;

struct Node(Dir);

impl Node {
    fn new(test: &str) -> Self {
        let dir = Dir::new(test);
        fs::create_dir(dir.0.join("work")).unwrap();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        for path in ["config.toml", "work/config.toml"] {
            fs::write(dir.0.join(path), CONFIG.replace("HOST", host.trim())).unwrap();
        }
        Self(dir)
    }

    fn in_pod(&self, args: &[&str]) -> (i32, String, String) {
        let dir = self.0.0.to_str().unwrap();
        let mut command = Command::new("unshare");
        // PID 1 is a shell that keeps running.
        command.args(NODE).args(["sh", "-c", r#"sh -c "$0" sh "$@"; exit $?"#, POD, dir]).args(args);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

const AGENT: &str = env!("CARGO_BIN_EXE_root-program");

#[test]
fn a_debug_pod_joins_the_node() {
    if !can_run() {
        return;
    }
    let node = Node::new("pod");
    // A relative path means the file that PID 1 finds under the same name.
    let (code, out, err) = node.in_pod(&[AGENT, "--config", "config.toml", "status", "--json"]);
    assert_eq!(code, 0, "{err}");
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["node"]["identity"]["joined_host_namespace"], true, "{out}");
    assert_eq!(value["node"]["in_host_namespace"]["known"], true, "{out}");
    let (code, out, err) = node.in_pod(&[AGENT, "--config", "config.toml", "status"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("this process joined PID 1's mount namespace"), "{out}");

    // The pod's own files are not visible, also for a verb that changes the node.
    for verb in ["status", "apply"] {
        let (code, _, err) = node.in_pod(&[AGENT, "--config", "of-the-pod.toml", verb]);
        assert_eq!(code, 2, "{verb}: {err}");
    }
    // A verb that does not concern the node stays in the pod's namespace.
    let (code, _, err) = node.in_pod(&[AGENT, "--config", "of-the-pod.toml", "config", "check"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_pod_without_the_rights_only_looks() {
    if !can_run() {
        return;
    }
    let node = Node::new("rights");
    let limited = |args: &[&str]| {
        let rights = ["setpriv", "--bounding-set", "-sys_chroot", "--inh-caps", "-sys_chroot", AGENT];
        node.in_pod(&[&rights[..], &["--config", "of-the-pod.toml"], args].concat())
    };
    let (code, out, err) = limited(&["status", "--json"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("may differ from those of the host"), "{err}");
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["node"]["identity"]["joined_host_namespace"], false, "{out}");
    assert_ne!(value["node"]["in_host_namespace"]["known"], true, "{out}");
    let (code, _, err) = limited(&["apply"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.starts_with("error") && err.contains(": acting in PID 1's mount namespace: "), "{err}");
    assert!(err.contains("CAP_SYS_CHROOT"), "{err}");
}

/// A container: a process in a mount namespace of its own, with one directory bound to another.
struct Container(Child);

impl Container {
    fn start(volume: &Path, place: &Path) -> Self {
        fs::create_dir_all(place).unwrap();
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", r#"mount --bind "$0" "$1" && echo up && exec sleep 60"#])
            .args([volume, place])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut up = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        Self(child)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_volume_stays_when_the_host_mounts_over_it() {
    if std::process::id() != 1 {
        if can_run() {
            let own = std::env::current_exe().unwrap();
            let test = ["--exact", "a_volume_stays_when_the_host_mounts_over_it", "--nocapture"];
            let as_pid1 = Command::new("unshare").args(NODE).arg(own).args(test).output().unwrap();
            assert!(as_pid1.status.success(), "{}", String::from_utf8_lossy(&as_pid1.stderr));
        }
        return;
    }
    let dir = Dir::new("volume");
    let at = |name: &str| dir.0.join(name);
    let host = Host::machine().unwrap();
    let holders = |name: &str| {
        let found = bind_holders(&host, &at(name).to_str().unwrap().parse().unwrap()).unwrap();
        found.into_iter().map(|who| (who.pid, PathBuf::from(who.mount_point))).collect::<Vec<_>>()
    };
    fs::create_dir_all(at("etcd/member")).unwrap();
    fs::create_dir_all(at("gone")).unwrap();
    assert!(holders("etcd").is_empty());
    let whole = Container::start(&at("etcd"), &at("volume"));
    let part = Container::start(&at("etcd/member"), &at("volume"));
    let removed = Container::start(&at("gone"), &at("volume"));
    let both = [(whole.0.id(), at("volume")), (part.0.id(), at("volume"))];
    assert_eq!(holders("etcd"), both);
    assert_eq!(holders("etcd/member"), both[1..]);
    assert_eq!(holders("gone"), [(removed.0.id(), at("volume"))]);

    // Containers do not see a later mount on the directory. Renaming the directory does not release it
    // either.
    fs::rename(at("etcd"), at("retired")).unwrap();
    fs::create_dir(at("etcd")).unwrap();
    assert!(holders("etcd").is_empty());
    assert_eq!(holders("retired"), both);
    mount(Some("none"), &at("retired"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    assert_eq!(holders("retired"), both);
    nix::mount::umount(&at("retired")).unwrap();

    fs::remove_dir(at("gone")).unwrap();
    fs::create_dir(at("gone")).unwrap();
    assert!(holders("gone").is_empty());
    drop(whole);
    assert_eq!(holders("retired"), both[1..]);
}

//! Asks a real etcd on another computer, as `claim` does, whether this node's member answers there.
//!
//! Needs root, ip and etcd. Without one of them the test prints that and does nothing. Both computers are network namespaces,
//! which end with the test.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use config::{Config, Source};
use host::Host;
use nix::sched::{CloneFlags, setns};
use node::{Elsewhere, Fact};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// This computer's address, and the other one's.
const HERE: &str = "10.99.7.1";
const THERE: &str = "10.99.7.2";
/// How long etcd may take to serve.
const LIMIT: Duration = Duration::from_secs(40);

/// Two computers, and an etcd on the other one.
struct Computers {
    names: [String; 2],
    dir: PathBuf,
    etcd: Option<Child>,
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl Computers {
    fn make() -> Option<Self> {
        let pid = std::process::id();
        let names = ["here", "there"].map(|which| format!("etcd-lun-{which}-{pid}"));
        let has_etcd = Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_ok();
        if !has_etcd || !ip(&format!("netns add {}", names[0])) {
            println!("not run: needs root, ip and etcd");
            return None;
        }
        let dir = std::env::temp_dir().join(format!("etcd-lun-elsewhere-{pid}"));
        let [here, there] = &names;
        for arguments in [
            format!("netns add {there}"),
            format!("-n {here} link add one type veth peer name other netns {there}"),
            format!("-n {here} address add {HERE}/24 dev one"),
            format!("-n {there} address add {THERE}/24 dev other"),
            format!("-n {here} link set one up"),
            format!("-n {there} link set other up"),
            format!("-n {here} link set lo up"),
            format!("-n {there} link set lo up"),
        ] {
            assert!(ip(&arguments), "ip {arguments}");
        }
        Some(Self { names, dir, etcd: None })
    }

    /// Starts an etcd of this name on the other computer.
    fn run_there(&mut self, name: &str) {
        let (client, peer) = (format!("http://{THERE}:2379"), format!("http://{THERE}:2380"));
        let mut etcd = Command::new("ip");
        etcd.args(["netns", "exec", &self.names[1], "etcd", "--log-level", "error", "--name", name])
            .args(["--data-dir", self.dir.to_str().unwrap()])
            .args(["--initial-cluster", &format!("{name}={peer}")])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        self.etcd = Some(etcd.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    fn stop_there(&mut self) {
        if let Some(mut etcd) = self.etcd.take() {
            etcd.kill().unwrap();
            etcd.wait().unwrap();
        }
    }

    /// What this computer learns, which has this host name and knows these endpoints.
    fn ask(&self, hostname: &str, endpoints: &[&str]) -> Fact<Elsewhere> {
        let endpoints = match endpoints {
            [] => String::new(),
            _ => format!("[cluster]\nendpoints = {endpoints:?}\n"),
        };
        let text =
            format!("[device]\npath = {:?}\n[etcd]\nruntime = \"systemd\"\n{endpoints}", support::LINK);
        let source = Source { path: "config.toml".into(), text };
        let config = Config::load(&[source], support::MACHINE, hostname).unwrap();
        let here = File::open(format!("/run/netns/{}", self.names[0])).unwrap();
        // A namespace belongs to a thread.
        thread::scope(|scope| {
            let asking = scope.spawn(|| {
                setns(&here, CloneFlags::CLONE_NEWNET).unwrap();
                observe::elsewhere(&Host::machine().unwrap(), &config, hostname)
            });
            asking.join().unwrap()
        })
    }
}

impl Drop for Computers {
    fn drop(&mut self) {
        self.stop_there();
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
        fs::remove_dir_all(&self.dir).ok();
    }
}

#[test]
fn a_member_that_answers_on_another_computer_is_found() {
    let Some(mut computers) = Computers::make() else { return };
    let (here, there) = (format!("http://{HERE}:2379"), format!("http://{THERE}:2379"));
    let all = [here.as_str(), there.as_str()];
    let why = |fact: Fact<Elsewhere>| match fact {
        Fact::Unknown(why) => why,
        Fact::Known(found) => panic!("{found:?}"),
    };
    assert!(why(computers.ask("master-0", &[])).contains("`cluster.endpoints`"));
    assert_eq!(computers.ask("master-0", &[&here]), Fact::Known(Elsewhere::Alone));
    let nobody = format!("no other member answers: {there}: ");
    let said = why(computers.ask("master-0", &all));
    assert!(said.starts_with(&nobody), "{said}");
    computers.run_there("master-0");
    let alive = Fact::Known(Elsewhere::Alive { name: "master-0".into(), at: there.clone() });
    let since = Instant::now();
    while computers.ask("master-0.example.com", &all) != alive {
        assert!(since.elapsed() < LIMIT, "{:?}", computers.ask("master-0", &all));
        thread::sleep(Duration::from_millis(200));
    }
    // Another node's member is none of its business.
    let silent = Fact::Known(Elsewhere::Silent { asked: there.clone() });
    assert_eq!(computers.ask("master-1", &all), silent);
    computers.stop_there();
    // The rest of the message says after how many milliseconds.
    let said = why(computers.ask("master-0", &all));
    assert!(said.starts_with(&nobody), "{said}");
}

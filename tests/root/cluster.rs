//! Asks real clusters of etcd as `apply` by hand does, and sees every finding that makes it refuse.
//!
//! Needs etcd (Debian: etcd-server), curl and openssl. Without etcd the tests print that and do nothing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use config::{Config, Source};
use host::Host;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use node::{Cluster, Fact, MemberHealth, Node};
use plan::{Refusal, may_stop};
use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use support::certificates::certificates;

/// How long a cluster may take to get where a test waits for it.
const LIMIT: Duration = Duration::from_secs(40);

/// Members of one cluster on loopback. They end when this value is dropped.
struct Members {
    dir: PathBuf,
    tls: bool,
    ports: BTreeMap<String, [u16; 2]>,
    running: BTreeMap<String, Child>,
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        fs::remove_dir_all(&self.dir).unwrap();
    }
}

fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

impl Members {
    /// Starts a cluster of these members. None if etcd is not installed.
    fn start(test: &str, names: &[&str], tls: bool) -> Option<Self> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("not run: etcd is not installed");
            return None;
        }
        let dir = std::env::temp_dir().join(format!("etcd-lun-cluster-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        if tls {
            certificates(&dir);
            certificates(&dir.join("others"));
        }
        let ports = names.iter().map(|name| ((*name).to_owned(), free_ports())).collect();
        let mut members = Self { dir, tls, ports, running: BTreeMap::new() };
        for name in names {
            members.run(name, "new");
        }
        Some(members)
    }

    fn url(&self, name: &str) -> String {
        format!("{}://127.0.0.1:{}", if self.tls { "https" } else { "http" }, self.ports[name][0])
    }

    fn peer(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}", self.ports[name][1])
    }

    fn run(&mut self, name: &str, state: &str) {
        let all: Vec<_> = self.ports.keys().map(|name| format!("{name}={}", self.peer(name))).collect();
        let mut command = Command::new("etcd");
        command.args(["--log-level", "error", "--name", name, "--initial-cluster", &all.join(",")]);
        command.args(["--initial-cluster-state", state, "--data-dir"]).arg(self.dir.join(name));
        for (option, url) in [
            ("--listen-client-urls", self.url(name)),
            ("--advertise-client-urls", self.url(name)),
            ("--listen-peer-urls", self.peer(name)),
            ("--initial-advertise-peer-urls", self.peer(name)),
        ] {
            command.args([option, &url]);
        }
        if self.tls {
            let path = |name: &str| self.dir.join(name).to_str().unwrap().to_owned();
            command.args(["--trusted-ca-file", &path("ca.crt"), "--client-cert-auth"]);
            command.args(["--cert-file", &path("member.crt"), "--key-file", &path("member.key")]);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.running.insert(name.into(), child);
    }

    fn stop(&mut self, name: &str) {
        let mut child = self.running.remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn signal(&self, name: &str, signal: Signal) {
        let pid = i32::try_from(self.running[name].id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// The config of the node whose member this is, with these lines in its table.
    fn config(&self, name: &str, more: &str) -> Config {
        let tls = |dir: &Path| {
            let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
            let (ca, cert, key) = (path("ca.crt"), path("member.crt"), path("member.key"));
            format!("ca = {ca:?}\ncert = {cert:?}\nkey = {key:?}\n")
        };
        let more = match more {
            "" if self.tls => tls(&self.dir),
            "others' certificates" => tls(&self.dir.join("others")).replacen("others/ca.crt", "ca.crt", 1),
            "others' authority" => tls(&self.dir).replacen("ca.crt", "others/ca.crt", 1),
            more => more.to_owned(),
        };
        config(&format!("client_url = {:?}\n{more}", self.url(name)))
    }

    /// The cluster as the node with this member sees it.
    fn look(&self, name: &str) -> Fact<Cluster> {
        look(&self.config(name, ""))
    }

    /// Whether this member sees a leader, and so many others do.
    fn serves_beside(&self, name: &str, others: usize) -> bool {
        matches!(self.look(name), Fact::Known(one) if one.own_serves() && one.healthy_others() == others)
    }

    /// Waits until all these members see a leader and are healthy.
    fn comes_up(&self) {
        waits_for("a healthy cluster", || match self.look("a") {
            Fact::Known(cluster) => {
                cluster.healthy_others() + 1 == self.running.len() && cluster.own.is_healthy()
            }
            Fact::Unknown(_) => false,
        });
    }
}

fn config(cluster: &str) -> Config {
    let text =
        format!("[device]\npath = {:?}\n[etcd]\nruntime = \"systemd\"\n[cluster]\n{cluster}", support::LINK);
    Config::load(&[Source { path: "config.toml".into(), text }], support::MACHINE, "master-0").unwrap()
}

fn look(config: &Config) -> Fact<Cluster> {
    observe::cluster(&Host::machine().unwrap(), config, &support::node(), false).unwrap()
}

fn waits_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_there() {
        assert!(since.elapsed() < LIMIT, "{what} does not come");
        sleep(Duration::from_millis(200));
    }
}

/// What `apply` by hand decides about a stop with this cluster.
fn decides(config: &Config, cluster: &Fact<Cluster>) -> Result<(), Refusal> {
    may_stop(config, &support::etcd("active"), Some(cluster))
}

fn refused(config: &Config, cluster: &Fact<Cluster>) -> String {
    decides(config, cluster).unwrap_err().to_string()
}

/// Why a member is not healthy; empty if it is.
fn fault(cluster: &Fact<Cluster>, name: &str) -> String {
    let cluster = cluster.require().unwrap();
    match &cluster.others.iter().find(|member| member.name == name).unwrap().health {
        MemberHealth::Healthy => String::new(),
        MemberHealth::NotHealthy(why) => why.clone(),
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// One cluster over TLS, and one thing after the other that is wrong with it.
#[test]
fn three_members_over_tls() {
    let Some(mut members) = Members::start("tls", &["a", "b", "c"], true) else { return };
    members.comes_up();
    let config = members.config("a", "");
    let all = members.look("a");
    decides(&config, &all).unwrap();
    has(&all.to_string(), &["3 voters, 3 healthy, leader "]);

    // The wrong certificates, and none. Nothing else is known then.
    for (more, parts) in [
        (
            "others' certificates",
            ["did not accept the client certificate", "`cluster.cert` and `cluster.key`"],
        ),
        ("others' authority", ["its certificate is not accepted", "`cluster.ca`"]),
        ("ca = \"/nowhere/ca.crt\"", ["the CA certificate cannot be read", "`cluster.ca`"]),
    ] {
        let config = members.config("a", more);
        has(&refused(&config, &look(&config)), &parts);
    }
    let plain = self::config(&format!("client_url = {:?}", members.url("a").replace("https", "http")));
    has(&refused(&plain, &look(&plain)), &["`cluster.client_url`"]);
    let elsewhere = self::config("client_url = \"https://192.0.2.1:2379\"");
    has(&refused(&elsewhere, &look(&elsewhere)), &["https://192.0.2.1:2379 is not an address of this node"]);

    // Stopped, but alive: the kernel still takes connections for it.
    members.signal("b", Signal::SIGSTOP);
    waits_for("a leader without b", || members.serves_beside("a", 1));
    let slow = members.look("a");
    has(
        &refused(&config, &slow),
        &["of 3 voters 2 must serve, and without this one 1 do", "b: it did not answer in time"],
    );
    members.signal("b", Signal::SIGCONT);
    members.comes_up();

    members.stop("c");
    waits_for("a leader without c", || members.serves_beside("a", 1));
    let without_c = members.look("a");
    has(&fault(&without_c, "c"), &["connection refused", &members.url("c")]);
    assert_eq!(fault(&without_c, "b"), "");
    has(&refused(&config, &without_c), &["without this one 1 do; c: connection refused"]);
    let mut lifted = config.clone();
    lifted.cluster.without_quorum = true;
    decides(&lifted, &without_c).unwrap();

    members.stop("b");
    waits_for(
        "the loss of the leader",
        || matches!(members.look("a"), Fact::Known(one) if !one.own_serves()),
    );
    let alone = members.look("a");
    has(
        &refused(&config, &alone),
        &["without this one 0 do; b: connection refused", "; c: connection refused"],
    );
    has(&alone.to_string(), &["3 voters, 0 healthy, no leader"]);
    has(&members.look("a").to_string(), &["a: it sees no leader"]);
    members.run("c", "existing");
    members.run("b", "existing");
    members.comes_up();

    members.stop("a");
    has(
        &refused(&config, &members.look("a")),
        &["connection refused", "see that etcd runs", "`cluster.client_url`"],
    );
}

/// Before its etcd is stopped, a leader lets a voter lead that serves. Another member hands over nothing, and a cluster of one has
/// nobody to hand over to.
#[test]
fn a_leader_hands_over() {
    let Some(mut members) = Members::start("leader", &["a", "b", "c"], true) else { return };
    members.comes_up();
    let host = Host::machine().unwrap();
    let hand_over = |members: &Members, name: &str| {
        observe::hand_over_leadership(&host, &members.config(name, "")).unwrap()
    };
    let leader =
        |members: &Members, name: &str| members.look(name).require().unwrap().leader.clone().unwrap();
    let first = leader(&members, "a");
    for other in ["a", "b", "c"].into_iter().filter(|name| *name != first) {
        assert_eq!(hand_over(&members, other), None);
    }
    let second = hand_over(&members, &first).unwrap();
    assert_ne!(second, first);
    waits_for("the same leader for all", || {
        ["a", "b", "c"].iter().all(|name| leader(&members, name) == second)
    });
    // The voter that is gone cannot lead.
    let third = ["a", "b", "c"].into_iter().find(|name| *name != first && *name != second).unwrap();
    members.stop(third);
    waits_for("a leader without it", || members.serves_beside(&second, 1));
    let left = leader(&members, &second);
    let next = hand_over(&members, &left).unwrap();
    assert!(next != left && next != third, "{next}");

    let Some(alone) = Members::start("leader-alone", &["a"], false) else { return };
    alone.comes_up();
    assert_eq!(hand_over(&alone, "a"), None);
    let unasked = config("client_url = \"http://127.0.0.1:1\"");
    assert!(observe::hand_over_leadership(&host, &unasked).unwrap_err().contains("connection refused"));
}

/// A learner counts neither as a voter nor as healthy, whichever member is asked.
#[test]
fn learners_and_clusters_of_one() {
    let Some(mut members) = Members::start("learner", &["a"], false) else { return };
    members.comes_up();
    let alone = members.look("a");
    decides(&members.config("a", ""), &alone).unwrap();
    has(&alone.to_string(), &["1 voter, 1 healthy, leader a"]);

    members.ports.insert("l".into(), free_ports());
    let body = format!("{{\"peerURLs\":[{:?}],\"isLearner\":true}}", members.peer("l"));
    let added = Command::new("curl")
        .args(["-sS", "--fail", "-d", &body, &format!("{}/v3/cluster/member/add", members.url("a"))])
        .output()
        .unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let unstarted = members.look("a");
    let cluster = unstarted.require().unwrap();
    assert_eq!((cluster.voters(), cluster.others.len()), (1, 1), "{cluster}");
    has(&unstarted.to_string(), &["1 voter, 1 healthy, 1 learner, leader a", "it has not started yet"]);
    decides(&members.config("a", ""), &unstarted).unwrap();

    members.run("l", "existing");
    waits_for(
        "the learner",
        || matches!(members.look("a"), Fact::Known(one) if one.others.iter().all(|other| other.is_healthy())),
    );
    // The learner's own node: its etcd may be stopped at any time.
    let learner = members.look("l");
    let cluster = learner.require().unwrap();
    assert!(cluster.own.learner && cluster.own_serves(), "{cluster}");
    decides(&members.config("l", ""), &learner).unwrap();
}

/// OpenShift's etcd starts only when no socket of its ports is left, not even one that waits for 60 s. That would be a socket whose
/// server closed first.
#[test]
fn questions_leave_no_socket_at_the_member() {
    let Some(members) = Members::start("sockets", &["a"], true) else { return };
    members.comes_up();
    (0..20).for_each(|_| assert!(members.serves_beside("a", 0)));
    let ours = format!("sport = {}", members.ports["a"][0]);
    let left = Command::new("ss").args(["-Htan", "state", "time-wait", &ours]).output().unwrap();
    assert_eq!((String::from_utf8(left.stdout).unwrap(), left.status.success()), (String::new(), true));
}

/// While this node's etcd does not run, no member is asked.
#[test]
fn a_member_that_does_not_run_is_not_asked() {
    let node = Node { etcd: Fact::Known(support::etcd("failed")), ..support::node() };
    let config = config("client_url = \"http://127.0.0.1:1\"");
    assert_eq!(observe::cluster(&Host::machine().unwrap(), &config, &node, false), None);
    may_stop(&config, &support::etcd("failed"), None).unwrap();
    let down = look(&config);
    has(&refused(&config, &down), &["connection refused", "`cluster.client_url`"]);
}

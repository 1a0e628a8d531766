//! Compares what `health` computes from a real etcd's metrics with an independent computation from the same
//! raw texts. Also tests how `health` gets the metrics by plain HTTP and over TLS.
//!
//! Needs etcd (Debian: etcd-server), Python, curl and openssl. Without etcd the tests print that and do
//! nothing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use host::{
    Host,
    http::{self, Certificates},
};
use node::{Sample, counted};
use observe::metrics_cure;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};
use support::certificates::certificates;

/// A real etcd on loopback. It ends when this value is dropped.
struct Etcd {
    child: Child,
    dir: PathBuf,
    address: SocketAddr,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_dir_all(&self.dir).unwrap();
    }
}

fn asked(host: &Host, url: &str, with: &Certificates) -> Result<http::Answer, http::HttpError> {
    http::get(host, url, with, metrics_cure::cure)
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Starts etcd. Returns `None` if etcd is not installed. `more` is added to its command line.
fn start(name: &str, scheme: &str, more: &[String]) -> Option<Etcd> {
    let dir = std::env::temp_dir().join(format!("etcd-lun-{name}-{}", std::process::id()));
    let (address, peer) = (free_address(), free_address());
    let (client, peer) = (format!("{scheme}://{address}"), format!("http://{peer}"));
    let mut command = Command::new("etcd");
    command.args(["--log-level", "error", "--name", "one", "--initial-cluster", &format!("one={peer}")]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(more).arg("--data-dir").arg(&dir).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(child) = command.spawn() else {
        eprintln!("not run: etcd is not installed");
        return None;
    };
    Some(Etcd { child, dir, address })
}

fn comes_up(mut is_there: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_there() {
        assert!(since.elapsed() < Duration::from_secs(60), "etcd does not come up");
        sleep(Duration::from_millis(100));
    }
}

fn python(arguments: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/quantile.py");
    let output = Command::new("python3").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn percentiles_agree_with_an_independent_computation() {
    let Some(etcd) = start("metrics", "http", &[]) else { return };
    let host = Host::machine().unwrap();
    let url = format!("http://{}", etcd.address);
    let get = |path: &str| asked(&host, &format!("{url}{path}"), &Certificates::default());
    comes_up(|| get("/health").is_ok_and(|answer| answer.status == 200));
    let look = || get("/metrics").unwrap().body;
    python(&["load", &url, "20"]);
    let before = look();
    python(&["load", &url, "300"]);
    let after = look();
    let (first, second) = (etcd.dir.join("before"), etcd.dir.join("after"));
    fs::write(&first, &before).unwrap();
    fs::write(&second, &after).unwrap();
    let samples = [Sample::parse(&before).unwrap(), Sample::parse(&after).unwrap()];
    for metric in ["etcd_disk_wal_fsync_duration_seconds", "etcd_disk_backend_commit_duration_seconds"] {
        let all = counted(&samples, metric);
        let [histogram] = all.as_slice() else { panic!("{metric}: {all:?}") };
        assert!(histogram.count() > 0.0, "{metric}");
        for share in ["0.5", "0.9", "0.99", "0.999"] {
            let ours = histogram.quantile(share.parse().unwrap()).unwrap();
            let theirs = python(&["of", metric, share, first.to_str().unwrap(), second.to_str().unwrap()]);
            let theirs: f64 = theirs.trim().parse().unwrap();
            assert!((ours - theirs).abs() <= theirs * 1e-9, "{metric} {share}: {ours} and {theirs}");
            println!("{metric} {share}: {ours} s of {} observations", histogram.count());
        }
    }
    let [_, now] = &samples;
    for name in ["etcd_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes"] {
        assert!(now.value(name).unwrap() > 0.0, "{name}");
    }
    assert!(now.value("etcd_server_quota_backend_bytes").is_some());
}

/// A stand-in for a server that says one thing.
fn server(said: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        // All of it: a connection that is closed with something unread is reset.
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            asked.extend(byte);
        }
        assert!(asked.starts_with(b"GET /metrics HTTP/1."), "{}", String::from_utf8_lossy(&asked));
        stream.write_all(said.as_bytes()).unwrap();
    });
    url
}

#[test]
fn plain_http() {
    let host = Host::machine().unwrap();
    let get = |url: &str| asked(&host, url, &Certificates::default());
    let answer = get(&server("HTTP/1.0 503 No\r\nX: y\r\n\r\na\r\n\r\nb")).unwrap();
    assert_eq!(answer, http::Answer { status: 503, body: "a\r\n\r\nb".into() });
    // A redirect is not an answer, and is not followed.
    let moved = "HTTP/1.0 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(get(&server(moved)).unwrap().status, 302);
    let error = get(&server("SSH-2.0\r\n")).unwrap_err().to_string();
    assert!(error.contains("names etcd's own address and port"), "{error}");
    let large = "HTTP/1.0 200 Ok\r\nContent-Length: 9000000\r\n\r\n";
    let error = get(&server(large)).unwrap_err().to_string();
    assert!(error.contains("more than 8 MiB"), "{error}");
    let free = format!("http://{}/metrics", free_address());
    let error = get(&free).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("asking {free}: (7) ")) && error.contains("see that etcd runs"),
        "{error}"
    );
}

#[test]
fn tls_shows_who_asks_and_trusts_nobody_else() {
    let dir = std::env::temp_dir().join(format!("etcd-lun-certificates-{}", std::process::id()));
    let ours = certificates(&dir);
    let theirs = certificates(&dir.join("others"));
    let file = |name: &str| dir.join(name).display().to_string();
    let more = [
        format!("--trusted-ca-file={}", file("ca.crt")),
        format!("--cert-file={}", file("member.crt")),
        format!("--key-file={}", file("member.key")),
        "--client-cert-auth".into(),
    ];
    let Some(etcd) = start("tls", "https", &more) else { return };
    let host = Host::machine().unwrap();
    let url = format!("https://{}/metrics", etcd.address);
    comes_up(|| asked(&host, &url, &ours).is_ok());

    let answer = asked(&host, &url, &ours).unwrap();
    assert_eq!(answer.status, 200);
    assert!(Sample::parse(&answer.body).unwrap().value("etcd_server_has_leader").is_some());
    let untrusted = Certificates { authority: theirs.authority.clone(), ..ours.clone() };
    let error = asked(&host, &url, &untrusted).unwrap_err().to_string();
    assert!(error.contains(&url) && error.contains("`etcd.metrics_ca` has signed"), "{error}");
    let unknown = Certificates { authority: ours.authority.clone(), ..theirs };
    let error = asked(&host, &url, &unknown).unwrap_err().to_string();
    // With TLS 1.3 the server closes the connection after the handshake, with or without an alert.
    assert!(error.contains(&url), "{error}");
    fs::remove_dir_all(&dir).unwrap();
}

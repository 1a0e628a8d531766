//! What `health` says of a real etcd's metrics, against an independent computation from the same raw texts.
//!
//! Needs etcd (Debian: etcd-server) and Python; says so and does nothing without.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use etcd_lun::{
    host::http,
    node::{Sample, counted},
};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// A real etcd on loopback, ended with this.
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

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Nothing where there is no etcd.
fn etcd() -> Option<Etcd> {
    let dir = std::env::temp_dir().join(format!("etcd-lun-metrics-{}", std::process::id()));
    let (address, peer) = (free_address(), free_address());
    let (client, peer) = (format!("http://{address}"), format!("http://{peer}"));
    let mut command = Command::new("etcd");
    command.args(["--log-level", "error", "--name", "one", "--initial-cluster", &format!("one={peer}")]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.arg("--data-dir").arg(&dir).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(child) = command.spawn() else {
        eprintln!("not run: there is no etcd here");
        return None;
    };
    let etcd = Etcd { child, dir, address };
    let since = Instant::now();
    while http::get(address, "/health").map(|answer| answer.status).ok() != Some(200) {
        assert!(since.elapsed() < Duration::from_secs(60), "etcd does not come up");
        sleep(Duration::from_millis(100));
    }
    Some(etcd)
}

fn python(arguments: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/health/quantile.py");
    let output = Command::new("python3").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn percentiles_agree_with_an_independent_computation() {
    let Some(etcd) = etcd() else { return };
    let look = || http::get(etcd.address, "/metrics").unwrap().body;
    let url = format!("http://{}", etcd.address);
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

//! A client on another machine, which writes to the pod's etcd over TLS.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::net::{Machine, Path as NetPath};
use crate::stage::Stage;

/// The directory of the certificates in the node, as on OpenShift.
const CERTS: &str = "/etc/kubernetes/static-pod-resources/etcd-certs";
const PREFIX: &str = "/client/";

/// Writes one key after another until it is told to stop, and notes each acknowledged one with its time. A write
/// that fails may or may not be in etcd; its key is not used again. etcd's gateway listens on a port of its own,
/// as on OpenShift. A time-out of 4 s is longer than an answer ever takes.
const WRITE: &str = r#"
for ((number = 0; ; number++)); do
    key=$(printf '/client/%08d' "$number" | base64)
    if curl --silent --fail --max-time 4 --output /dev/null --cert "$1/peer.crt" --key "$1/peer.key" \
        --cacert "$1/ca.crt" --data "{\"key\":\"$key\",\"value\":\"$key\"}" "https://$2:2381/v3/kv/put"; then
        printf '%08d %s\n' "$number" "$(date +%s.%N)" >>"$1/acknowledged"
    fi
    sleep 0.2
done"#;

/// A client that writes while it exists.
#[derive(Debug)]
pub(super) struct Client {
    dir: PathBuf,
    process: Child,
}

impl Client {
    /// Begins to write.
    pub(super) fn begin(stage: &Stage) -> Result<Self> {
        let dir = stage.bed.run.dir().join("client");
        fs::create_dir_all(&dir)?;
        for (path, name) in [
            ("configmaps/etcd-all-bundles/server-ca-bundle.crt", "ca.crt"),
            ("secrets/etcd-all-certs/etcd-peer-master-0.crt", "peer.crt"),
            ("secrets/etcd-all-certs/etcd-peer-master-0.key", "peer.key"),
        ] {
            fs::write(dir.join(name), stage.node.read(&format!("{CERTS}/{path}"))?)?;
        }
        File::create(dir.join("acknowledged"))?;
        let mut bash = stage.bed.net.command("bash");
        bash.args(["-c", WRITE, "client"]).arg(&dir).arg(NetPath::Management.address(Machine::Node));
        let process = stage.bed.run.spawn(&mut bash, "client")?;
        Ok(Self { dir, process })
    }

    /// The acknowledged keys with their times, in seconds of this machine's clock.
    fn acknowledged(&self) -> Result<Vec<(String, f64)>> {
        let text = fs::read_to_string(self.dir.join("acknowledged"))?;
        let parse = |line: &str| {
            let (number, time) = line.split_once(' ')?;
            Some((format!("{PREFIX}{number}"), time.parse().ok()?))
        };
        text.lines().map(parse).collect::<Option<_>>().with_context(|| format!("a line of {text:?} is cut"))
    }

    /// The longest time between two acknowledged writes since a moment, with a write after it.
    pub(super) fn gap_since(&self, since: SystemTime) -> Result<Duration> {
        let since = since.duration_since(UNIX_EPOCH)?.as_secs_f64();
        let acknowledged = self.acknowledged()?;
        let times: Vec<f64> = acknowledged.iter().map(|(_, at)| *at).collect();
        let gap = times.windows(2).filter(|pair| pair[1] > since).map(|pair| pair[1] - pair[0]);
        let longest = gap.max_by(f64::total_cmp).context("no write was acknowledged in this time")?;
        Ok(Duration::from_secs_f64(longest))
    }

    /// Checks that the node's etcd has every acknowledged key. Returns how many there are.
    pub(super) fn has_every_key(&self, stage: &Stage) -> Result<usize> {
        // First what was acknowledged, then what is there: the client goes on.
        let acknowledged = self.acknowledged()?;
        let found =
            stage.node.ok(&format!("etcdctl --command-timeout 30s get {PREFIX} --prefix --keys-only"))?;
        let found: std::collections::HashSet<&str> = found.lines().collect();
        let lost: Vec<&str> =
            acknowledged.iter().map(|(key, _)| key.as_str()).filter(|key| !found.contains(key)).collect();
        if acknowledged.is_empty() || !lost.is_empty() {
            bail!("{} of {} acknowledged writes are lost: {lost:?}", lost.len(), acknowledged.len());
        }
        Ok(acknowledged.len())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

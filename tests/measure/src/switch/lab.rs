//! The node, its database, and one measurement.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use serde_json::json;

use super::load::Load;
use super::phase::{Clock, Phase, phases, with_times, without_time};
use super::start::Start;
use super::way::{Runtime, Way};
use crate::compare::client::Client;
use nodes::bed::Bed;
use nodes::cluster;
use nodes::etcd::base64;
use nodes::gateway;
use nodes::host;
use nodes::image::ETCD_POD;
use nodes::net;
use nodes::node::Node;
use nodes::scenarios::cuts::writer::{self, Acknowledged, address, missing};
use nodes::scene::{self, Wanted};
use nodes::target::{self, Lun, Offer, Target};
use nodes::vm::Options;

/// The snapshot on which every measurement begins.
const FILLED: &str = "filled";
/// The same, with the runtime that is measured.
const READY: &str = "ready";
/// A transaction with so many values of so many bytes stays below etcd's limit of 1.5 MiB.
const VALUES: (usize, usize) = (64, 16 << 10);
/// How long a step with the largest database may take in an emulated node.
const LIMIT: Duration = Duration::from_secs(3600);
/// What the step says that stops etcd, with each runtime.
const STOPS: [&str; 2] = ["] stop ", "] move "];
/// What the line says that sums up how long etcd was away.
const SUM: &str = "etcd was away for";
/// How long the client writes before and after.
const AROUND: Duration = Duration::from_secs(15);

/// The quota of etcd's database, for which the LUN has room.
const QUOTA_MIB: u64 = 8192;
/// Raft snapshots come often, so that the files of etcd's log are purged and the database is nearly all of its data.
const SETTINGS: [&str; 2] = ["ETCD_QUOTA_BACKEND_BYTES=8589934592", "ETCD_SNAPSHOT_COUNT=100"];

/// What a client saw. It pauses for 40 ms after each write, which the times of writes include.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The longest time without an answer.
    pub gap: Duration,
    /// etcd's own start at the end of that time.
    pub start: Start,
    /// What etcd-lun says from the stop of etcd on: its steps, how long each took, and the sum.
    pub account: Vec<String>,
    /// Within this half of all writes, and 99 of 100, were acknowledged before anything was done.
    pub before: [Duration; 2],
    /// The same while its data was copied: the first copy, and then the rounds; how long each took.
    pub meanwhile: Vec<(Phase, Duration, [Duration; 2])>,
    /// For which share of the time before, and of each phase, the processors of this machine were idle.
    pub idle: Vec<f64>,
    /// Acknowledged writes that etcd has lost.
    pub lost: usize,
}

impl Measured {
    fn of(
        acknowledged: &[Acknowledged],
        begun: Instant,
        phases: &[(Phase, Instant, Instant)],
    ) -> Result<Self> {
        let pairs = || acknowledged.windows(2).map(|pair| (pair[0].at, pair[1].at));
        let (from, to) =
            pairs().max_by_key(|(from, to)| *to - *from).context("etcd acknowledged no two writes")?;
        let within = |begin: Instant, end: Instant| {
            let mut times: Vec<Duration> = pairs()
                .filter(|(from, to)| *from >= begin && *to <= end)
                .map(|(from, to)| to - from)
                .collect();
            times.sort_unstable();
            let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
            [at(50), at(99)]
        };
        let first = acknowledged.first().map_or(begun, |first| first.at);
        Ok(Self {
            gap: to - from,
            start: Start::default(),
            account: Vec::new(),
            before: within(first, begun),
            meanwhile: phases
                .iter()
                .map(|(phase, from, to)| (*phase, *to - *from, within(*from, *to)))
                .collect(),
            idle: Vec::new(),
            lost: 0,
        })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [gap, start] = [self.gap, self.start.took].map(|time| time.as_secs_f64());
        write!(f, "no answer for {gap:.1} s, {} writes lost; etcd started within {start:.1} s", self.lost)?;
        let ms = |times: [Duration; 2]| times.map(|time| time.as_millis());
        let [half, most] = ms(self.before);
        write!(f, "; of its writes half took {half} ms before, and 99 of 100 {most} ms")?;
        for (phase, took, times) in &self.meanwhile {
            let [half, most] = ms(*times);
            write!(f, "; in {phase}, {:.1} s long, {half} and {most} ms", took.as_secs_f64())?;
        }
        if !self.meanwhile.is_empty() {
            let idle: Vec<_> = self.idle.iter().map(|share| format!("{:.0} %", 100.0 * share)).collect();
            write!(f, "; the processors of this machine were idle for {}", idle.join(", "))?;
        }
        self.start.log.iter().chain(&self.account).try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// The node and its target.
pub struct Lab {
    node: Node,
    target: Target,
    client: Client,
    namespace: PathBuf,
    lun: PathBuf,
    lun_size: u64,
    runtime: Runtime,
    filled: u64,
}

impl Lab {
    /// Boots a node with an empty etcd. The LUN has room for the largest database, and its file lies in this directory.
    pub fn boot(bed: &Rc<Bed>, agent: &Path, largest: u64, dir: &Path) -> Result<Self> {
        let (lun, lun_size) = (dir.join("lab-lun1"), (2 * largest.max(QUOTA_MIB) + 1024) << 20);
        target::blank(&lun, lun_size)?;
        let target = Target::start(bed, Offer::open(vec![Lun::new(1, lun.clone())]))?;
        // Both copies of the database are in memory at the switch, and etcd needs some beside.
        let memory_mib = 1536 + 3 * u32::try_from(largest)?;
        let node = Node::boot(bed, Options { cpus: 2, memory_mib, ..Options::default() })?;
        scene::install(&node, agent)?;
        let unit: Vec<String> = SETTINGS.iter().map(|setting| format!("Environment={setting}")).collect();
        let pod: Vec<String> = SETTINGS
            .iter()
            .filter_map(|setting| setting.split_once('='))
            .map(|(name, value)| format!("\\1{name}, value: \"{value}\"}}"))
            .collect();
        node.ok(&format!(
            "set -e; mkdir -p /etc/systemd/system/etcd.service.d
             printf '[Service]\\nTimeoutStartSec=infinity\\n{}\\n' >/etc/systemd/system/etcd.service.d/bench.conf
             sed -i 's/^\\( *- {{name: \\)ETCD_QUOTA_BACKEND_BYTES.*/{}/' /{ETCD_POD}
             mkdir -p /etc/kubernetes/manifests; chmod 700 /etc/kubernetes/manifests; mkdir -p /mnt/etcd
             systemctl daemon-reload; systemctl enable --quiet --now etcd.service",
            unit.join("\\n"),
            pod.join("\\n")
        ))?;
        node.put("/root/attach", 0o755, include_bytes!("../../../nodes/guest/attach"))?;
        let namespace = cluster::namespace(bed);
        let client = Client::new(namespace.clone());
        Ok(Self { node, target, client, namespace, lun, lun_size, runtime: Runtime::Systemd, filled: 0 })
    }

    /// Fills the database up to this size. Returns the size that it has.
    pub fn fill(&mut self, bytes: u64) -> Result<u64> {
        if self.filled > 0 {
            self.node.load(FILLED)?;
        }
        self.answers()?;
        let begun = Instant::now();
        let mut size = self.size()?;
        while size < bytes {
            let transactions = (bytes - size).div_ceil((VALUES.0 * VALUES.1) as u64).min(256);
            self.put(transactions)?;
            size = self.size()?;
        }
        self.filled = size;
        println!("bed: a database of {} MiB, filled in {} s", size >> 20, begun.elapsed().as_secs());
        self.node.save(FILLED)?;
        Ok(size)
    }

    /// Random values, which cannot be compressed.
    fn put(&self, transactions: u64) -> Result<()> {
        let namespace = &self.namespace;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                gateway::enter(namespace)?;
                let (mut chance, mut value) = (Rng::new(), vec![0; VALUES.1]);
                for _ in 0..transactions {
                    let puts: Vec<_> = (0..VALUES.0)
                        .map(|_| {
                            chance.fill(&mut value);
                            let key = base64(format!("/bench/{:016x}", chance.u64(..)).as_bytes());
                            json!({ "requestPut": { "key": key, "value": base64(&value) } })
                        })
                        .collect();
                    gateway::ask(
                        &address(),
                        "/v3/kv/txn",
                        &json!({ "success": puts }),
                        Duration::from_secs(120),
                    )?;
                }
                Ok(())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn size(&self) -> Result<u64> {
        Ok(self.node.ok("stat --format %s /var/lib/etcd/member/snap/db")?.trim().parse()?)
    }

    /// Has the runtime run etcd, with the filled database.
    pub fn run_by(&mut self, runtime: Runtime) -> Result<()> {
        self.node.load(FILLED)?;
        self.runtime = runtime;
        // The last blocks of the largest database take longer in an emulated node than they may elsewhere.
        let wanted = Wanted { chap: None, max_switch: Some("30min".into()), ..Wanted::default() };
        let wanted = match runtime {
            // An etcd that has just been filled keeps the last 5000 entries of its log in memory, which are the whole
            // database here. The copy would not fit beside them.
            Runtime::Systemd => {
                self.node.run_within("systemctl restart etcd.service", LIMIT)?;
                wanted
            }
            Runtime::StaticPod => {
                let script = format!(
                    "set -e; systemctl disable --quiet --now etcd.service
                     install -m 600 /{ETCD_POD} /etc/kubernetes/manifests/
                     systemctl enable --quiet --now kubelet.service"
                );
                self.node.run_within(&script, LIMIT)?;
                wanted.of_pod()
            }
        };
        scene::configure_with_units(&self.node, &wanted)?;
        self.answers()?;
        // The database is in memory before each way, as that of a member that has run for a while.
        self.node.run_within("cat /var/lib/etcd/member/snap/db >/dev/null; sync", LIMIT)?;
        self.node.save(READY)
    }

    /// Takes the node back to the snapshot, and gives it a blank LUN.
    pub fn begin(&mut self) -> Result<()> {
        self.target.stop();
        target::blank(&self.lun, self.lun_size)?;
        self.node.load(READY)?;
        self.target.offer(Offer::open(vec![Lun::new(1, self.lun.clone())]))
    }

    /// Measures one way.
    pub fn measure(&self, way: Way) -> Result<Measured> {
        self.answers()?;
        // Its unit may be started only three times within two minutes. Beside a static pod it is not loaded.
        self.node.run("systemctl reset-failed etcd.service")?;
        let mut script = way.script(self.runtime);
        if way == Way::ByHand {
            let attach = format!("/root/attach {} {} | tail -n 1", net::Path::A.portal(), scene::INITIATOR);
            let disk = self.node.ok(&attach)?;
            self.node.ok(&format!("mkfs.xfs -q {disk}"))?;
            script = format!("LUN={disk}\n{script}");
        }
        let (writer, load, first) = (writer::begin(&self.namespace, 1), Load::begin(), Instant::now());
        std::thread::sleep(AROUND);
        let begun = Instant::now();
        let clock = Clock::of(&self.node)?;
        let output = self.node.run_within(&with_times(&script), LIMIT)?;
        if output.code != 0 {
            bail!("`{script}` failed: {output}");
        }
        self.answers()?;
        let start = Start::of(&self.node)?;
        std::thread::sleep(AROUND);
        let acknowledged = writer.end()?;
        let numbers: Vec<u64> = acknowledged.iter().map(|one| one.number).collect();
        let lost = missing(&self.namespace, &numbers)?.len();
        if way == Way::Apply && lost > 0 {
            bail!("etcd-lun has lost {lost} acknowledged writes");
        }
        let (phases, looks) = (phases(&output.stderr, &clock), load.end()?);
        let spans = [(first, begun)].into_iter().chain(phases.iter().map(|(_, from, to)| (*from, *to)));
        let idle = spans.map(|(from, to)| looks.idle(from, to).unwrap_or_default()).collect();
        let said: Vec<&str> = output.stderr.lines().map(|line| without_time(line).1).collect();
        let steps = said.into_iter().skip_while(|line| !STOPS.iter().any(|stop| line.contains(stop)));
        let sum = output.stdout.lines().filter(|line| line.contains(SUM));
        let account = steps.chain(sum).map(String::from).collect();
        Ok(Measured { start, account, idle, lost, ..Measured::of(&acknowledged, begun, &phases)? })
    }

    fn answers(&self) -> Result<()> {
        let held = host::poll(LIMIT, Duration::from_millis(200), || self.client.held())?;
        held.map(drop).context("etcd does not answer")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.target.stop();
        // It may lie outside of the run's directory.
        std::fs::remove_file(&self.lun).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_and_what_was_before_it() {
        let start = Instant::now();
        let at = |ms: u64| Acknowledged { number: ms, at: start + Duration::from_millis(ms) };
        let acknowledged: Vec<_> = [0, 50, 100, 150, 250, 350, 9350, 9400].map(at).into();
        let ms = |ms: u64| Duration::from_millis(ms);
        let phases = [(Phase::FirstCopy, start + ms(150), start + ms(350))];
        let found = Measured::of(&acknowledged, start + ms(150), &phases).unwrap();
        assert_eq!((found.gap, found.before), (ms(9000), [ms(50); 2]));
        assert_eq!(found.meanwhile, [(Phase::FirstCopy, ms(200), [ms(100); 2])]);
        assert!(Measured::of(&acknowledged[..1], start, &[]).is_err());
    }
}

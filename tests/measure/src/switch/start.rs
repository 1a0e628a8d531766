//! etcd's own start: how long it took, and where that time went.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use nodes::host;
use nodes::ledger;
use nodes::node::{Node, since_start};

/// What etcd says as soon as it serves.
const SERVES: &str = "ready to serve";
/// A message that came so much later than the one before is told.
const LONG: Duration = Duration::from_millis(300);
/// Of proc_pid_stat(5): times are in units of 1/100 s, because `USER_HZ` is 100 on x86.
const TICK: Duration = Duration::from_millis(10);

/// The last start of etcd.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// From etcd's process until etcd served.
    pub took: Duration,
    /// The messages that came a while after the one before, and what the start cost.
    pub log: Vec<String>,
}

impl Start {
    /// Asks the node about the etcd that now runs there.
    pub fn of(node: &Node) -> Result<Self> {
        // The proxy of its metrics is another process of this name.
        let said = node.ok("for pid in $(pgrep --exact etcd); do grep -q grpc-proxy /proc/$pid/cmdline || cd /proc/$pid; done; pwd && cat stat io")?;
        let (directory, said) = said.split_once('\n').context("no process")?;
        let cost = Cost::parse(said).with_context(|| format!("{directory} said {said}"))?;
        let pid = directory.trim_start_matches("/proc/");
        // journalctl leaves out a file that was just made larger.
        let start = host::poll(Duration::from_secs(30), Duration::from_secs(1), || {
            Self::read(&cost, &node.journal(&format!("_PID={pid}"))?)
        })?;
        start.with_context(|| format!("the journal of etcd, process {pid}, has no message with `{SERVES}`"))
    }

    /// `entries` is what etcd's process has written to the journal. Returns `None` if it did not say that it serves.
    fn read(cost: &Cost, entries: &[Value]) -> Result<Option<Self>> {
        let (mut log, mut before) = (Vec::new(), cost.begun);
        for entry in entries {
            let at = since_start(entry).context("an entry without a time")?;
            let line = entry["MESSAGE"].as_str().and_then(|line| serde_json::from_str::<Value>(line).ok());
            let text = line.as_ref().and_then(|line| line["msg"].as_str()).unwrap_or("another line");
            let since = at.saturating_sub(before);
            if since > LONG {
                log.push(format!("{:.1} s before `{text}`", since.as_secs_f64()));
            }
            before = at;
            if text.contains(SERVES) {
                log.push(cost.to_string());
                return Ok(Some(Self { took: at.saturating_sub(cost.begun), log }));
            }
        }
        Ok(None)
    }
}

/// What the kernel counts for a process.
#[derive(Debug)]
struct Cost {
    /// Since the node's start.
    begun: Duration,
    user: Duration,
    system: Duration,
    faults: u64,
    faults_with_io: u64,
    read_bytes: u64,
}

impl Cost {
    /// From `/proc/PID/stat`, one line, and `/proc/PID/io` after it.
    fn parse(text: &str) -> Result<Self> {
        let (stat, io) = text.split_once('\n').context("one line only")?;
        let field = |number: usize| -> Result<u64> {
            let field = ledger::stat_field(stat, number).with_context(|| format!("no field {number}"))?;
            field.parse().with_context(|| format!("field {number} is {field}"))
        };
        let time = |number| -> Result<Duration> { Ok(TICK * u32::try_from(field(number)?)?) };
        let read = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).context("no read_bytes")?;
        Ok(Self {
            begun: time(22)?,
            user: time(14)?,
            system: time(15)?,
            faults: field(10)?,
            faults_with_io: field(12)?,
            read_bytes: read.parse()?,
        })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} s on processors for itself and {:.1} s in the kernel, {} page faults and {} with I/O, {:.1} MiB read from disks",
            self.user.as_secs_f64(),
            self.system.as_secs_f64(),
            self.faults,
            self.faults_with_io,
            self.read_bytes as f64 / f64::from(1 << 20)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STAT: &str = "812 (etcd (old) x) S 1 812 812 0 -1 4194560 48123 0 7 0 2700 420 0 0 20 0 9 0 5000 1 2 3\n\
        rchar: 1\nread_bytes: 3145728\nwrite_bytes: 5\n";

    #[test]
    fn what_a_start_cost() {
        let cost = Cost::parse(STAT).unwrap();
        assert_eq!(cost.begun, Duration::from_secs(50));
        assert_eq!(
            cost.to_string(),
            "27.0 s on processors for itself and 4.2 s in the kernel, 48123 page faults and 7 with I/O, 3.0 MiB read from disks"
        );
        assert!(Cost::parse("812 (etcd) S 1\n").is_err());
    }

    #[test]
    fn where_its_time_went() {
        let cost = Cost::parse(STAT).unwrap();
        let entry = |ms: u64, text: &str| {
            let line = json!({ "msg": text }).to_string();
            json!({ "__MONOTONIC_TIMESTAMP": (ms * 1000).to_string(), "MESSAGE": line })
        };
        let mut entries = vec![entry(50_200, "soon"), entry(52_000, "opened backend db")];
        assert!(Start::read(&cost, &entries).unwrap().is_none());
        entries.extend([entry(52_100, "ready to serve client requests"), entry(70_000, "later")]);
        let start = Start::read(&cost, &entries).unwrap().unwrap();
        assert_eq!(start.took, Duration::from_millis(2100));
        assert_eq!(start.log, ["1.8 s before `opened backend db`".to_owned(), cost.to_string()]);
    }
}

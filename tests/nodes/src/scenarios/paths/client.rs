//! A client that writes all the time, and how long it waited in each part of a scenario.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::cuts::writer::{Acknowledged, PAUSE, missing, put_within};
use crate::again::Again;
use crate::cluster;
use crate::host;
use crate::stage::Stage;

/// Longer than etcd itself waits before it refuses a write: 5 s and two election time-outs (etcd
/// `server/config/config.go`, `ReqTimeout`).
const WAIT: Duration = Duration::from_secs(30);

/// How long etcd lets a write wait, with its default election time-out of 1 s. Then it refuses the write.
pub(in super::super) const ETCD_REFUSES: Duration = Duration::from_secs(7);

/// What the client has seen.
#[derive(Debug, Default, Clone)]
struct Log {
    acknowledged: Vec<Acknowledged>,
    failed: Vec<(Instant, String)>,
}

impl Log {
    /// The longest time without an acknowledged write, from the last one before `begun` on.
    fn since(&self, begun: Instant) -> Waited {
        let pairs = self.acknowledged.windows(2).filter(|pair| pair[1].at >= begun);
        let failed = self.failed.iter().filter(|(at, _)| *at >= begun);
        Waited {
            gap: pairs.map(|pair| pair[1].at - pair[0].at).max().unwrap_or_default(),
            failed: failed.map(|(_, why)| why.clone()).collect(),
        }
    }
}

/// How long the client waited in a part of a scenario.
#[derive(Debug)]
pub(in super::super) struct Waited {
    /// The longest time between two acknowledged writes.
    pub gap: Duration,
    /// Why writes failed.
    pub failed: Vec<String>,
}

impl Waited {
    /// Checks that no write failed.
    pub(in super::super) fn none_failed(&self) -> Result<()> {
        match self.failed.first() {
            Some(why) => bail!("{} writes failed, the first with: {why}", self.failed.len()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Waited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "longest gap {:.1} s, {} writes failed", self.gap.as_secs_f64(), self.failed.len())
    }
}

/// The client.
#[derive(Debug)]
pub struct Client {
    namespace: PathBuf,
    log: Arc<Mutex<Log>>,
    writes: Again<()>,
}

impl Client {
    /// Starts to write, and waits for the first answers.
    pub fn begin(stage: &Stage) -> Result<Self> {
        let namespace = cluster::namespace(&stage.bed);
        let log = Arc::new(Mutex::new(Log::default()));
        let (seen, mut number) = (Arc::clone(&log), 0);
        let writes = Again::begin(Some(&namespace), PAUSE, move || {
            // A failed write may or may not be in etcd. Its number is not used again.
            number += 1;
            let answer = put_within(number, WAIT);
            let (at, mut log) = (Instant::now(), seen.lock().unwrap_or_else(PoisonError::into_inner));
            match answer {
                Ok(()) => log.acknowledged.push(Acknowledged { number, at }),
                Err(why) => log.failed.push((at, why.to_string())),
            }
            Ok(None)
        });
        let client = Self { namespace, log, writes };
        client.goes_on()?;
        Ok(client)
    }

    fn log(&self) -> Log {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long after a moment etcd acknowledged a write. `None` if it has not done so within the limit.
    pub fn waited_from(&self, moment: Instant, limit: Duration) -> Result<Option<Duration>> {
        host::poll(limit, PAUSE, || {
            let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            let later = log.acknowledged.partition_point(|one| one.at < moment);
            Ok(log.acknowledged.get(later).map(|one| one.at - moment))
        })
    }

    /// Waits until etcd acknowledges a write that began from now on.
    pub(in super::super) fn goes_on(&self) -> Result<()> {
        let count = || self.log().acknowledged.len();
        // The first one may have begun earlier.
        let enough = count() + 2;
        let goes_on = || Ok((count() >= enough).then_some(()));
        host::poll(Duration::from_secs(180), PAUSE, goes_on)?.with_context(|| {
            format!("etcd acknowledges no write; the last answer: {:?}", self.log().failed.last())
        })
    }

    /// Does something, and says how long the client waited from its beginning until etcd acknowledged a write after it.
    pub(in super::super) fn during<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Waited)> {
        let begun = Instant::now();
        let done = work()?;
        self.goes_on()?;
        Ok((done, self.log().since(begun)))
    }

    /// Stops, and checks that etcd has every acknowledged write.
    pub fn end(self) -> Result<()> {
        self.goes_on()?;
        let log = self.log();
        self.writes.end()?;
        let numbers: Vec<u64> = log.acknowledged.iter().map(|one| one.number).collect();
        let lost = missing(&self.namespace, &numbers)?;
        if !lost.is_empty() {
            bail!("etcd lacks {} of {} acknowledged writes, such as {}", lost.len(), numbers.len(), lost[0]);
        }
        println!("        {} acknowledged writes, none is missing", numbers.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_from_the_last_answer_before() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let acknowledged = |ms: u64| Acknowledged { number: ms, at: at(ms) };
        let log = Log {
            acknowledged: [0, 9000, 9050, 12050, 12100].map(acknowledged).into(),
            failed: vec![(at(7000), "early".into()), (at(12000), "late".into())],
        };
        let seen = log.since(at(9040));
        assert_eq!((seen.gap, seen.failed.clone()), (Duration::from_secs(3), vec!["late".to_string()]));
        assert!(seen.none_failed().is_err());
        assert_eq!(log.since(at(100)).gap, Duration::from_secs(9));
        assert!(log.since(at(12090)).none_failed().is_ok());
    }
}

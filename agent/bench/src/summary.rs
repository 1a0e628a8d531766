//! The times of a series of writes, summarised: percentiles, verdict.

use super::limits::{HEAVY_LIMIT, LIMIT};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// The verdict on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Fast enough for every cluster.
    FastEnoughForHeavyClusters,
    /// Fast enough, but not for a heavily loaded cluster.
    FastEnough,
    /// Too slow for every cluster.
    TooSlow,
}

/// Percentiles of how long the calls took, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[cfg_attr(test, derive(Default))]
pub struct Percentiles {
    /// 50 of 100 took at most this long.
    pub p50: u64,
    /// 90 of 100 took at most this long.
    pub p90: u64,
    /// 99 of 100 took at most this long.
    pub p99: u64,
    /// 999 of 1,000 took at most this long.
    pub p99_9: u64,
    /// The slowest took this long.
    pub max: u64,
}

/// The result of a series of writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// The number of writes.
    pub writes: u64,
    /// Writes in a second of writing and syncing.
    pub writes_per_second: u64,
    /// How long `fdatasync` took, without the write before it. etcd's metric `etcd_disk_wal_fsync_duration_seconds` and fio's
    /// `sync` percentiles measure the same.
    pub fdatasync_ns: Percentiles,
    /// The verdict for etcd.
    pub verdict: Verdict,
}

impl Summary {
    /// Summarises how long each `fdatasync` took, and how long all writes and syncs took together. None without writes.
    pub fn of(syncs: &[Duration], all: Duration) -> Option<Self> {
        let mut sorted: Vec<u64> = syncs.iter().map(|sync| nanos(*sync)).collect();
        sorted.sort_unstable();
        let max = *sorted.last()?;
        let at = |permille| percentile(&sorted, permille).unwrap_or(max);
        let fdatasync_ns = Percentiles { p50: at(500), p90: at(900), p99: at(990), p99_9: at(999), max };
        let writes = sorted.len() as u64;
        let per_second = u128::from(writes) * 1_000_000_000 / all.as_nanos().max(1);
        Some(Self {
            writes,
            writes_per_second: u64::try_from(per_second).unwrap_or(u64::MAX),
            fdatasync_ns,
            verdict: verdict(fdatasync_ns.p99),
        })
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The shortest time that this many of a thousand do not exceed ("nearest rank").
fn percentile(sorted: &[u64], permille: usize) -> Option<u64> {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied()
}

fn verdict(p99: u64) -> Verdict {
    if p99 < nanos(HEAVY_LIMIT) {
        Verdict::FastEnoughForHeavyClusters
    } else if p99 < nanos(LIMIT) {
        Verdict::FastEnough
    } else {
        Verdict::TooSlow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: impl IntoIterator<Item = u64>) -> Summary {
        let syncs: Vec<_> = nanos.into_iter().map(Duration::from_nanos).collect();
        Summary::of(&syncs, syncs.iter().sum::<Duration>() * 2).unwrap()
    }

    /// By the definition: tried one by one.
    fn by_definition(samples: &[u64], permille: usize) -> u64 {
        let fits = |limit: u64| samples.iter().filter(|sample| **sample <= limit).count() * 1000;
        *samples.iter().filter(|limit| fits(**limit) >= permille * samples.len()).min().unwrap()
    }

    #[test]
    fn percentiles_are_exact() {
        // Multiples of a prime, modulo another: all lengths in no order.
        for count in [1, 2, 3, 99, 100, 101, 999, 1000, 1001] {
            let samples: Vec<u64> = (1..=count).map(|n| n * 7919 % 10_007 * 1000).collect();
            let found = of(samples.iter().copied()).fdatasync_ns;
            for (permille, found) in
                [(500, found.p50), (900, found.p90), (990, found.p99), (999, found.p99_9), (1000, found.max)]
            {
                assert_eq!(found, by_definition(&samples, permille), "{permille} of {count}");
            }
        }
        let tail = of((1..=8000).map(|n| n * 1000)).fdatasync_ns;
        let expected =
            Percentiles { p50: 4_000_000, p90: 7_200_000, p99: 7_920_000, p99_9: 7_992_000, max: 8_000_000 };
        assert_eq!(tail, expected);
        assert_eq!(Summary::of(&[], Duration::ZERO), None);
    }

    #[test]
    fn the_limits_themselves_are_too_long() {
        use Verdict::{FastEnough, FastEnoughForHeavyClusters, TooSlow};
        for (nanos, verdict) in [
            (1, FastEnoughForHeavyClusters),
            (1_999_999, FastEnoughForHeavyClusters),
            (2_000_000, FastEnough),
            (9_999_999, FastEnough),
            (10_000_000, TooSlow),
            (u64::MAX, TooSlow),
        ] {
            assert_eq!(of([nanos]).verdict, verdict, "{nanos}");
        }
        // One in a hundred may take longer, two may not.
        let slow = |count| of((0..200).map(|n| if n < count { 50_000_000 } else { 1_000_000 })).verdict;
        assert_eq!((slow(2), slow(3)), (FastEnoughForHeavyClusters, TooSlow));
    }

    #[test]
    fn writes_in_a_second() {
        // 1 ms of syncing in each 2 ms.
        assert_eq!(of([1_000_000; 50]).writes_per_second, 500);
    }
}

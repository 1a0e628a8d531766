//! The times of a series of writes, summarised: percentiles, histogram, verdict.

use super::limits::{HEAVY_LIMIT, LIMIT};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// Whether a disk is fast enough for etcd.
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

/// A bucket of the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bucket {
    /// Its upper bound in nanoseconds, inclusive. Its lower bound is the upper bound of the bucket before.
    pub up_to_ns: u64,
    /// How many calls it counts.
    pub count: u64,
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
    /// Whether that is fast enough for etcd.
    pub verdict: Verdict,
    /// The histogram, without empty buckets at both ends.
    pub histogram: Vec<Bucket>,
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
            histogram: histogram(&sorted),
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

/// The upper bounds of buckets in tenths of a power of ten: six in a decade, about equally wide on a logarithmic scale. Both
/// limits are among them.
const BOUNDS_OF_DECADE: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// The upper bounds of all buckets: from 1 µs to more than an hour.
pub(super) fn upper_bounds() -> impl Iterator<Item = u64> {
    (3..13).flat_map(|power| BOUNDS_OF_DECADE.map(|step| step * 10_u64.pow(power) / 10))
}

fn histogram(sorted: &[u64]) -> Vec<Bucket> {
    let mut buckets = Vec::new();
    let mut counted = 0;
    for up_to_ns in upper_bounds() {
        let until = sorted.partition_point(|sample| *sample <= up_to_ns);
        if until > 0 && counted < sorted.len() {
            buckets.push(Bucket { up_to_ns, count: (until - counted) as u64 });
        }
        counted = until;
    }
    buckets
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
    fn every_call_is_in_one_bucket() {
        let samples = [900, 1000, 1001, 2_000_000, 2_000_001, 10_000_000, 10_000_001];
        let summary = of(samples);
        let filled: Vec<_> =
            summary.histogram.iter().filter(|b| b.count > 0).map(|b| (b.up_to_ns, b.count)).collect();
        let expected =
            [(1000, 2), (1500, 1), (2_000_000, 1), (3_000_000, 1), (10_000_000, 1), (15_000_000, 1)];
        assert_eq!(filled, expected);
        assert!(summary.histogram.first().unwrap().count > 0 && summary.histogram.last().unwrap().count > 0);
        assert!(upper_bounds().is_sorted());
    }

    #[test]
    fn writes_in_a_second() {
        // 1 ms of syncing in each 2 ms.
        assert_eq!(of([1_000_000; 50]).writes_per_second, 500);
    }
}

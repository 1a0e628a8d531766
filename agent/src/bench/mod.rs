//! Is a disk fast enough for etcd? A pure function of how long each `fdatasync` took.
//!
//! A run is at most one segment of etcd's log, so every time that was taken is kept, and a percentile
//! is the exact one.

mod picture;

pub use picture::{milliseconds, picture};

use serde::Serialize;
use std::time::Duration;

/// etcd keeps its leader when 99 of 100 `fdatasync` calls take less: "WAL fsync duration" in etcd's FAQ
/// and in OpenShift's recommended etcd practices.
pub const LIMIT: Duration = Duration::from_millis(10);

/// The same for heavily loaded clusters: 500 sequential writes a second, in OpenShift's recommended
/// etcd practices.
pub const HEAVY_LIMIT: Duration = Duration::from_millis(2);

/// What is measured: etcd writes its log in segments of 64,000,000 bytes (etcd `server/storage/wal/wal.go`,
/// `SegmentSizeBytes`), which [`BLOCK`] divides.
pub const SEGMENT: u64 = 64_000_000;

/// The size of a write in OpenShift's recommended etcd practices.
pub const BLOCK: u32 = 8000;

/// That in the older recipe, from what etcd 3.2 was seen to write.
pub const SMALL_BLOCK: u32 = 2300;

/// What must be left free on a filesystem beside what is measured with: etcd's next segment.
pub const ROOM: u64 = SEGMENT;

/// The writes of one segment.
pub const WRITES: u32 = 8000;

/// Fewer say nothing about one in a hundred.
pub const FEWEST_WRITES: u32 = 100;

/// How long a series may take: etcd's limit allows 8,000 writes in this and a little more.
pub const TIME: Duration = Duration::from_secs(60);

/// Whether a filesystem of this type is memory, where `fdatasync` has nothing to do.
pub fn is_memory(filesystem: &str) -> bool {
    ["tmpfs", "ramfs", "devtmpfs", "rootfs"].contains(&filesystem)
}

/// What we think of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// For every cluster.
    FastEnoughForHeavyClusters,
    /// But not for a heavily loaded cluster.
    FastEnough,
    /// For any cluster.
    TooSlow,
}

/// How long so many of the calls took at most, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(Default))]
pub struct Percentiles {
    /// Half of them.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p99_9: u64,
    /// All of them.
    pub max: u64,
}

/// A part of the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The longest time that counts here, in nanoseconds; longer than that of the bucket before.
    pub up_to_ns: u64,
    /// How many calls took that long.
    pub count: u64,
}

/// What came of a series of writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many there were.
    pub writes: u64,
    /// How many there were in a second of writing and syncing.
    pub writes_per_second: u64,
    /// How long `fdatasync` took, without the write before it: what etcd's own metric
    /// `etcd_disk_wal_fsync_duration_seconds` holds, and fio's `sync` percentiles.
    pub fdatasync_ns: Percentiles,
    /// What we think of it.
    pub verdict: Verdict,
    /// The distribution, without what is empty at both ends.
    pub histogram: Vec<Bucket>,
}

impl Summary {
    /// Of how long each `fdatasync` took, and how long all writes and syncs took together. Nothing of no writes.
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

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The shortest time that so many of a thousand don't exceed ("nearest rank").
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

/// Where buckets end, in tenths of a power of ten: six a decade, of like width on a logarithmic scale, with both limits among
/// them.
const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// The ends of all buckets: from 1 µs to more than an hour.
fn ends() -> impl Iterator<Item = u64> {
    (3..13).flat_map(|power| STEPS.map(|step| step * 10_u64.pow(power) / 10))
}

fn histogram(sorted: &[u64]) -> Vec<Bucket> {
    let mut buckets = Vec::new();
    let mut counted = 0;
    for up_to_ns in ends() {
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
        assert!(ends().is_sorted());
    }

    #[test]
    fn writes_in_a_second() {
        // 1 ms of syncing in each 2 ms.
        assert_eq!(of([1_000_000; 50]).writes_per_second, 500);
    }
}

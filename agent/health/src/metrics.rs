//! Checks of etcd's own metrics.

use super::report::{
    CheckInput, Checked,
    Outcome::{self, CannotTell},
    found, known, ok, outcome,
};
use node::{Counted, Metrics, Sample, counted};
use terms::Bytes;

fn metrics<'a>(input: CheckInput<'a>) -> Result<&'a Metrics, Outcome> {
    match &input.health.metrics {
        Some(metrics) => known(metrics),
        None => Err(CannotTell("the config does not set `etcd.metrics`".into())),
    }
}

pub(super) fn ready(input: CheckInput<'_>) -> Outcome {
    outcome(metrics(input).and_then(|metrics| match &metrics.ill {
        None => ok("etcd says that it is ready"),
        Some(said) => found(format!("etcd answers {said}; see etcd's log")),
    }))
}

/// Quantiles, and how messages write them.
const P99: (f64, &str) = (0.99, "99 of 100");
const P99_9: (f64, &str) = (0.999, "999 of 1,000");

/// Compares the slowest of some histograms with a limit in seconds.
fn within(histograms: &[Counted], limit: f64, shares: &[(f64, &str)], cure: &str) -> Checked {
    if histograms.is_empty() {
        return Err(CannotTell("etcd does not have this metric".into()));
    }
    let mut said = Vec::new();
    for (share, text) in shares {
        let slowest = histograms.iter().filter_map(|one| one.quantile(*share)).max_by(f64::total_cmp);
        let Some(slowest) = slowest else {
            return Err(CannotTell("etcd counted none between the two samples".into()));
        };
        let text = format!("{text} within {:.2} ms", slowest * 1000.0);
        if slowest >= limit {
            return found(format!("{text}, the limit is {:.0} ms; {cure}", limit * 1000.0));
        }
        said.push(text);
    }
    ok(said.join(", "))
}

/// Syncs of etcd's log.
const WAL_FSYNC: &str = "etcd_disk_wal_fsync_duration_seconds";
/// Commits of its database.
const BACKEND_COMMIT: &str = "etcd_disk_backend_commit_duration_seconds";
/// Round trips to its peers.
const ROUND_TRIP: &str = "etcd_network_peer_round_trip_time_seconds";
const SIZE: &str = "etcd_mvcc_db_total_size_in_bytes";
const IN_USE: &str = "etcd_mvcc_db_total_size_in_use_in_bytes";
const QUOTA: &str = "etcd_server_quota_backend_bytes";

const SLOW_DISK: &str = "measure the LUN with `etcd-lun bench`, then check the storage and the network to it";

pub(super) fn wal_fsync(input: CheckInput<'_>) -> Outcome {
    outcome(
        metrics(input).and_then(|metrics| {
            within(&counted(&metrics.samples, WAL_FSYNC), 0.010, &[P99, P99_9], SLOW_DISK)
        }),
    )
}

pub(super) fn backend_commit(input: CheckInput<'_>) -> Outcome {
    outcome(
        metrics(input)
            .and_then(|metrics| within(&counted(&metrics.samples, BACKEND_COMMIT), 0.025, &[P99], SLOW_DISK)),
    )
}

pub(super) fn peer_round_trip(input: CheckInput<'_>) -> Outcome {
    outcome(metrics(input).and_then(|metrics| {
        // etcd probes each peer every 30 s (`server/etcdserver/api/rafthttp/probing_status.go`), which is longer than the time
        // between our samples. So all probes since etcd's start count.
        let [_, now] = &metrics.samples;
        let peers = counted(&[Sample::default(), now.clone()], ROUND_TRIP);
        if peers.iter().all(|peer| peer.count() <= 0.0) {
            return ok("etcd has no peers, or has not probed them yet");
        }
        within(&peers, 0.050, &[P99], "check the network between the members")
    }))
}

/// The share of the quota above which the database is nearly full (etcdDatabaseQuotaLowSpace in openshift/cluster-etcd-operator's
/// rules, its first step).
const NEARLY_FULL: f64 = 0.65;
/// The share in use below which a database larger than [`MIN_FRAGMENTED_SIZE`] is fragmented
/// (etcdDatabaseHighFragmentationRatio in etcd's `contrib/mixin`).
const FRAGMENTED: f64 = 0.5;
const MIN_FRAGMENTED_SIZE: f64 = 104_857_600.0;

pub(super) fn database_size(input: CheckInput<'_>) -> Outcome {
    outcome(metrics(input).and_then(|metrics| {
        let [_, now] = &metrics.samples;
        let value =
            |name: &str| now.value(name).ok_or_else(|| CannotTell(format!("etcd has no metric {name}")));
        let (size, in_use, quota) = (value(SIZE)?, value(IN_USE)?, value(QUOTA)?);
        // Sizes are whole numbers, and a float holds these exactly.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let bytes = |size: f64| Bytes(size.max(0.0) as u64);
        let text = format!("{}, {} of it in use, of {}", bytes(size), bytes(in_use), bytes(quota));
        if quota > 0.0 && size / quota > NEARLY_FULL {
            return found(format!("{text}: more than 65 % of the quota; defragment etcd (`etcdctl defrag`), and find out what fills it"));
        }
        if size > MIN_FRAGMENTED_SIZE && in_use / size < FRAGMENTED {
            return found(format!("{text}: less than half is in use; defragment this member (`etcdctl defrag`)"));
        }
        ok(text)
    }))
}

//! Checks of what etcd says of itself.

use super::{
    Outcome::{self, CannotTell},
    Seen,
    checks::{Checked, end, found, known, ok},
};
use crate::{
    node::{Counted, Metrics, Sample, counted},
    terms::Bytes,
};

fn metrics<'a>(seen: Seen<'a>) -> Result<&'a Metrics, Outcome> {
    match &seen.vitals.metrics {
        Some(metrics) => known(metrics),
        None => Err(CannotTell("the config names no `metrics` in [etcd]".into())),
    }
}

pub(super) fn ready(seen: Seen<'_>) -> Outcome {
    end(metrics(seen).and_then(|metrics| match &metrics.ill {
        None => ok("it says that it is"),
        Some(said) => found(format!("it answers {said}; see etcd's log")),
    }))
}

/// 99 of 100, and 999 of 1,000.
const P99: (f64, &str) = (0.99, "99 of 100");
const P99_9: (f64, &str) = (0.999, "999 of 1,000");

/// The slowest of some histograms against a limit, in seconds.
fn within(histograms: &[Counted], limit: f64, shares: &[(f64, &str)], cure: &str) -> Checked {
    if histograms.is_empty() {
        return Err(CannotTell("etcd has no such metric".into()));
    }
    let mut said = Vec::new();
    for (share, text) in shares {
        let slowest = histograms.iter().filter_map(|one| one.quantile(*share)).max_by(f64::total_cmp);
        let Some(slowest) = slowest else {
            return Err(CannotTell("there was none between the two looks at etcd".into()));
        };
        let text = format!("{text} within {:.2} ms", slowest * 1000.0);
        if slowest >= limit {
            return found(format!("{text}, {:.0} ms is the limit; {cure}", limit * 1000.0));
        }
        said.push(text);
    }
    ok(said.join(", "))
}

/// Of etcd's log.
const WAL_FSYNC: &str = "etcd_disk_wal_fsync_duration_seconds";
/// Of its database.
const BACKEND_COMMIT: &str = "etcd_disk_backend_commit_duration_seconds";
/// To its peers.
const ROUND_TRIP: &str = "etcd_network_peer_round_trip_time_seconds";
const SIZE: &str = "etcd_mvcc_db_total_size_in_bytes";
const IN_USE: &str = "etcd_mvcc_db_total_size_in_use_in_bytes";
const QUOTA: &str = "etcd_server_quota_backend_bytes";

const SLOW_DISK: &str = "measure the LUN with `etcd-lun bench`, and look at its storage and the way to it";

pub(super) fn wal_fsync(seen: Seen<'_>) -> Outcome {
    end(metrics(seen)
        .and_then(|metrics| within(&counted(&metrics.samples, WAL_FSYNC), 0.010, &[P99, P99_9], SLOW_DISK)))
}

pub(super) fn backend_commit(seen: Seen<'_>) -> Outcome {
    end(metrics(seen)
        .and_then(|metrics| within(&counted(&metrics.samples, BACKEND_COMMIT), 0.025, &[P99], SLOW_DISK)))
}

pub(super) fn peer_round_trip(seen: Seen<'_>) -> Outcome {
    end(metrics(seen).and_then(|metrics| {
        // Each peer is asked every 30 s (etcd `server/etcdserver/api/rafthttp/probing_status.go`), which is longer than we
        // look: so all since etcd's start.
        let [_, now] = &metrics.samples;
        let peers = counted(&[Sample::default(), now.clone()], ROUND_TRIP);
        if peers.iter().all(|peer| peer.count() <= 0.0) {
            return ok("it has no peers, or has not asked them yet");
        }
        within(&peers, 0.050, &[P99], "look at the network between the members")
    }))
}

/// Of the quota (etcdDatabaseQuotaLowSpace in openshift/cluster-etcd-operator's rules, its first step).
const FULL: f64 = 0.65;
/// Of what the file holds, when that is more than [`WORTH_IT`] (etcdDatabaseHighFragmentationRatio in etcd's
/// `contrib/mixin`).
const FRAGMENTED: f64 = 0.5;
const WORTH_IT: f64 = 104_857_600.0;

pub(super) fn database_size(seen: Seen<'_>) -> Outcome {
    end(metrics(seen).and_then(|metrics| {
        let [_, now] = &metrics.samples;
        let value =
            |name: &str| now.value(name).ok_or_else(|| CannotTell(format!("etcd has no metric {name}")));
        let (size, in_use, quota) = (value(SIZE)?, value(IN_USE)?, value(QUOTA)?);
        // Sizes are whole numbers that a float holds exactly.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let bytes = |size: f64| Bytes(size.max(0.0) as u64);
        let text = format!("{}, {} of it in use, of {}", bytes(size), bytes(in_use), bytes(quota));
        if quota > 0.0 && size / quota > FULL {
            return found(format!("{text}: more than 65 %; defragment etcd, and see what fills it"));
        }
        if size > WORTH_IT && in_use / size < FRAGMENTED {
            return found(format!("{text}: less than half; defragment this member (`etcdctl defrag`)"));
        }
        ok(text)
    }))
}

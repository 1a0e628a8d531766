//! How long etcd was away, and for what.

use plan::{NodeStep, ProtocolStep, Step, step::Phase};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    fmt,
    time::{Duration, Instant},
};
use terms::Bytes;

/// The time from etcd's stop to the end of its start, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Away {
    /// All of it.
    #[serde(rename = "total_seconds")]
    pub total: f64,
    /// Until etcd itself had ended.
    #[serde(rename = "stopping_seconds")]
    pub stopping: f64,
    /// Until the other containers of its pod had ended.
    #[serde(rename = "containers_seconds")]
    pub containers: f64,
    /// Copying what was left, and the proof.
    #[serde(rename = "last_blocks_seconds")]
    pub last_blocks: f64,
    /// How many bytes were copied meanwhile.
    #[serde(rename = "written_bytes")]
    pub written: u64,
    /// The stamp, the commit point, and what becomes of the data directory.
    #[serde(rename = "commit_seconds")]
    pub commit: f64,
    /// Mounting or unmounting the LUN.
    #[serde(rename = "mount_seconds")]
    pub mount: f64,
    /// Until the member served again.
    #[serde(rename = "starting_seconds")]
    pub starting: f64,
}

/// Adds up the steps of a run.
#[derive(Debug, Default)]
pub struct Clock {
    since: Option<Instant>,
    away: Away,
}

impl Clock {
    /// A step has ended that began at `start`.
    pub fn ended(&mut self, step: &Step, start: Instant) {
        if let Step::Protocol(ProtocolStep::StopEtcd { .. }) = step {
            *self = Self { since: Some(start), away: Away::default() };
        }
        let Some(since) = self.since else { return };
        let away = &mut self.away;
        let part = match step.phase() {
            Phase::Stopping => &mut away.stopping,
            Phase::Containers => &mut away.containers,
            Phase::LastBlocks => &mut away.last_blocks,
            Phase::Commit => &mut away.commit,
            Phase::Mount => &mut away.mount,
            Phase::Starting => &mut away.starting,
        };
        *part += start.elapsed().as_secs_f64();
        if let Step::Protocol(ProtocolStep::StartEtcd(_)) | Step::Node(NodeStep::AwaitMember(_)) = step {
            away.total = since.elapsed().as_secs_f64();
        }
    }

    /// The time; none if the run has not stopped etcd and started it.
    pub fn read(&self, written: u64) -> Option<Away> {
        (self.away.total > 0.0).then_some(Away { written, ..self.away })
    }
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd was away for {:.1} s: stopping {:.1}", self.total, self.stopping)?;
        if self.containers > 0.0 {
            write!(f, ", its pod's other containers {:.1}", self.containers)?;
        }
        write!(
            f,
            ", last blocks {:.1} ({}), commit {:.1}, mount {:.1}, starting {:.1}",
            self.last_blocks,
            Bytes(self.written),
            self.commit,
            self.mount,
            self.starting
        )
    }
}

impl Away {
    /// Notes it in the journal, with fields in milliseconds.
    pub fn log(&self) {
        let ms =
            |seconds: f64| u64::try_from(Duration::from_secs_f64(seconds).as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            AWAY_MS = ms(self.total),
            AWAY_STOPPING_MS = ms(self.stopping),
            AWAY_CONTAINERS_MS = ms(self.containers),
            AWAY_LAST_BLOCKS_MS = ms(self.last_blocks),
            AWAY_LAST_BLOCKS_BYTES = self.written,
            AWAY_COMMIT_MS = ms(self.commit),
            AWAY_MOUNT_MS = ms(self.mount),
            AWAY_STARTING_MS = ms(self.starting),
            "{self}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json() {
        let away = Away {
            total: 3.12,
            stopping: 0.9,
            last_blocks: 0.4,
            written: 37 << 20,
            commit: 0.2,
            mount: 0.3,
            starting: 1.3,
            ..Away::default()
        };
        let text = "etcd was away for 3.1 s: stopping 0.9, last blocks 0.4 (37MiB), commit 0.2, mount 0.3, starting 1.3";
        assert_eq!(away.to_string(), text);
        let pod = Away { containers: 25.0, ..away };
        assert!(pod.to_string().contains("stopping 0.9, its pod's other containers 25.0, last"), "{pod}");
        assert!(
            serde_json::to_string(&away)
                .unwrap()
                .starts_with(r#"{"total_seconds":3.12,"stopping_seconds":0.9,"#)
        );
    }

    #[test]
    fn only_the_time_without_etcd_counts() {
        let mut clock = Clock::default();
        let start = Instant::now();
        clock.ended(&Step::Protocol(ProtocolStep::Unstamp), start);
        assert_eq!(clock.read(0), None);
        let unit: config::Runtime = config::Runtime::Systemd { unit: "etcd.service".into() };
        clock.ended(
            &Step::Protocol(ProtocolStep::StopEtcd(plan::step::StopEtcd {
                runtime: unit,
                needs_quorum: true,
                whole_pod: true,
            })),
            start,
        );
        assert_eq!(clock.read(0), None);
        clock.ended(&Step::Protocol(ProtocolStep::Unstamp), start);
        let member = plan::step::AwaitMember {
            url: "https://localhost:2379".parse().unwrap(),
            limit: "5s".parse().unwrap(),
            may_be_learner: false,
        };
        clock.ended(&Step::Node(NodeStep::AwaitMember(member)), start);
        let away = clock.read(7).unwrap();
        assert!(away.total >= away.starting && away.starting > 0.0 && away.commit > 0.0, "{away:?}");
        assert_eq!(away.written, 7);
    }
}

//! How long iSCSI waits before it gives up an unreachable target and reports errors to the filesystem.
//!
//! If a write fails, etcd exits and XFS shuts down until someone mounts it again (`fs/xfs/xfs_log.c`). If a write hangs, the
//! member loses its leadership at most, and the others elect another leader. So on a single path, writes are queued for a
//! long time: open-iscsi's README, section 8.2, has a day for a disk without a second path.
//!
//! Before etcd runs on the LUN, waiting is worse: a migration that hangs has stopped an etcd that could run from the local
//! disk. So a session starts with [`NOT_IN_USE`], and gets the longer time once the LUN is mounted for etcd.
//!
//! With multipath, a path must fail soon, so that multipathd uses the other one. multipathd then decides how long writes
//! are queued (`no_path_retry`, section 8.1).

use super::{defaults, error::ConfigError, fragment::TargetFragment};
use crate::terms::Span;
use serde::Serialize;
use std::time::Duration;

/// `node.session.timeo.replacement_timeout` of a session whose LUN etcd doesn't use yet.
pub const NOT_IN_USE: Span = Span(Duration::from_secs(30));

/// The time-outs of the config, with defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// How long etcd's writes wait in a session that lost its connection. None is the default, which depends on multipathd.
    pub replacement: Option<Span>,
    /// How often the initiator checks the connection (NOP-Out).
    pub noop_interval: Span,
    /// How long the target may take to answer that check.
    pub noop_timeout: Span,
}

/// The kernel's limit for a SCSI command (`SD_TIMEOUT`, `drivers/scsi/sd.h`). A dead connection must be detected earlier: then
/// the command waits for the next connection, and the kernel doesn't abort it.
const SCSI_COMMAND: Duration = Duration::from_secs(30);

/// What a node record says of the time-outs, by open-iscsi's keys.
pub fn record_settings(noop_interval: Span, noop_timeout: Span) -> [(&'static str, String); 3] {
    [
        ("node.session.timeo.replacement_timeout", NOT_IN_USE),
        ("node.conn[0].timeo.noop_out_interval", noop_interval),
        ("node.conn[0].timeo.noop_out_timeout", noop_timeout),
    ]
    .map(|(key, span)| (key, span.0.as_secs().to_string()))
}

impl Timeouts {
    /// How long writes wait in a session while etcd uses the LUN. `multipath` says whether multipathd runs.
    pub fn in_use(&self, multipath: bool) -> Span {
        self.replacement.unwrap_or(if multipath {
            defaults::REPLACEMENT_TIMEOUT_MULTIPATH
        } else {
            defaults::REPLACEMENT_TIMEOUT
        })
    }
}

pub(super) fn validate(written: &TargetFragment) -> Result<Timeouts, ConfigError> {
    let seconds = |key, span: Span, most: u64| {
        let whole = span.0.subsec_nanos() == 0 && (1..=most).contains(&span.0.as_secs());
        let wanted = "whole seconds, from 1s to a day";
        if whole { Ok(span) } else { Err(ConfigError::value(key, &span.to_string(), wanted)) }
    };
    let day = 86_400;
    let replacement = written
        .replacement_timeout
        .map(|span| seconds("target.replacement_timeout", span, day))
        .transpose()?;
    let noop_interval =
        seconds("target.noop_interval", written.noop_interval.unwrap_or(defaults::NOOP_INTERVAL), day)?;
    let noop_timeout =
        seconds("target.noop_timeout", written.noop_timeout.unwrap_or(defaults::NOOP_TIMEOUT), day)?;
    if noop_interval.0 + noop_timeout.0 >= SCSI_COMMAND {
        let both = format!("{noop_timeout}, with a noop_interval of {noop_interval}");
        let wanted = "less than 30s together, after which the kernel aborts a command";
        return Err(ConfigError::value("target.noop_timeout", &both, wanted));
    }
    Ok(Timeouts { replacement, noop_interval, noop_timeout })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: &str) -> Result<Timeouts, String> {
        let fragment: TargetFragment = toml::from_str(keys).unwrap();
        validate(&fragment).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_queue_for_long_on_a_single_path_only() {
        let wish = of("").unwrap();
        assert_eq!(wish.in_use(false).to_string(), "1h");
        assert_eq!(wish.in_use(true).to_string(), "15s");
        let wish = of("replacement_timeout = \"2min\"").unwrap();
        assert_eq!(wish.in_use(false), wish.in_use(true));
    }

    #[test]
    fn refused() {
        for keys in [
            "replacement_timeout = \"0s\"",
            "replacement_timeout = \"1500ms\"",
            "replacement_timeout = \"25h\"",
            "noop_interval = \"0s\"",
            "noop_interval = \"20s\"",
            "noop_timeout = \"25s\"",
            "noop_timeout = \"24h\"",
        ] {
            let said = of(keys).unwrap_err();
            assert!(said.contains("target."), "{keys}: {said}");
        }
    }
}

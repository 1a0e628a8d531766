//! How long iSCSI waits before it takes a target for gone, and before it says so to the filesystem.
//!
//! etcd's answer to a write that fails is to die, and XFS's is to shut down until a person mounts it anew
//! (`fs/xfs/xfs_log.c`); while one that hangs costs the member its leadership at most, and the others elect another. So
//! on a single path writes are queued for long: open-iscsi's README, section 8.2, has a day for a disk that has no other
//! path. Until etcd runs on the LUN the opposite holds: a migration that hangs has stopped an etcd that could run from the
//! local disk. So a session is made with [`NOT_IN_USE`], and told to wait for longer once the LUN is mounted for etcd.
//! Under multipath a path must fail soon in any case, so that the other is used, and what is queued is multipath's to say
//! (`no_path_retry`, section 8.1).

use super::{ConfigError, defaults, fragment::TargetFragment};
use crate::terms::Span;
use serde::Serialize;
use std::time::Duration;

/// `node.session.timeo.replacement_timeout` of a session whose LUN etcd doesn't use yet.
pub const NOT_IN_USE: Span = Span(Duration::from_secs(30));

/// What the config says, with defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimeoutWish {
    /// How long a session that lost its connection keeps etcd's writes waiting; none: the default, which is another
    /// where multipathd runs.
    pub replacement: Option<Span>,
    /// How often a session is asked whether it is alive.
    pub noop_interval: Span,
    /// How long an answer may take.
    pub noop_timeout: Span,
}

/// The kernel's limit for a SCSI command (`SD_TIMEOUT`, `drivers/scsi/sd.h`). A dead connection must be found before: then
/// the command waits for the next one, and isn't aborted.
const SCSI_COMMAND: Duration = Duration::from_secs(30);

impl TimeoutWish {
    /// How long writes wait in sessions that multipathd uses, or that it doesn't.
    pub fn in_use(&self, multipath: bool) -> Span {
        self.replacement.unwrap_or(if multipath {
            defaults::REPLACEMENT_TIMEOUT_MULTIPATH
        } else {
            defaults::REPLACEMENT_TIMEOUT
        })
    }
}

pub(super) fn validate(written: &TargetFragment) -> Result<TimeoutWish, ConfigError> {
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
    Ok(TimeoutWish { replacement, noop_interval, noop_timeout })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: &str) -> Result<TimeoutWish, String> {
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

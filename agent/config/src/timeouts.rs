//! How long iSCSI waits before it gives up an unreachable target and reports errors to the filesystem.
//!
//! If a write fails, etcd exits and XFS shuts down until someone mounts it again (`fs/xfs/xfs_log.c`). If a write hangs, the
//! member loses its leadership at most, and the others elect another leader. So on a single path, writes are queued for a
//! long time: open-iscsi's README, section 8.2, has a day for a disk without a second path.
//!
//! Before etcd runs on the LUN, waiting is worse: a migration that hangs has stopped an etcd that could run from the local
//! disk. So a session starts with [`NOT_IN_USE`], and gets the longer time once the LUN is mounted for etcd.
//!
//! With several paths, a path must fail soon, so that writes go over another one (section 8.1). multipathd then decides how
//! long writes wait while no path works (`no_path_retry`, which `render multipath` sets to the same time).

use super::{defaults, error::ConfigError, errors::Errors, form, tables::TargetTable};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use terms::Span;

/// `node.session.timeo.replacement_timeout` of a session whose LUN etcd doesn't use yet.
pub const NOT_IN_USE: Span = Span(Duration::from_secs(30));

/// How long a session under a multipath map waits until its path has failed: multipathd's own default of `fast_io_fail_tmo`
/// (multipath.conf(5)), which it writes into each session, over what the node record says.
pub const PATH_FAILS_AFTER: Span = Span(Duration::from_secs(5));

/// The time-outs of the config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Timeouts {
    /// How long etcd's writes wait for the target, in a session or, under a multipath map, in the map.
    #[serde(serialize_with = "form::as_written")]
    #[schemars(with = "String")]
    #[serde(rename = "replacement_timeout")]
    pub replacement: Span,
    /// How often the initiator checks the connection (NOP-Out). None is the default, which depends on multipathd.
    #[serde(serialize_with = "form::optional_as_written")]
    #[schemars(with = "Option<String>")]
    pub noop_interval: Option<Span>,
    /// How long the target may take to answer that check. None is the default, which depends on multipathd.
    #[serde(serialize_with = "form::optional_as_written")]
    #[schemars(with = "Option<String>")]
    pub noop_timeout: Option<Span>,
}

/// The kernel's limit for a SCSI command (`SD_TIMEOUT`, `drivers/scsi/sd.h`). A dead connection must be detected earlier: then
/// the command waits for the next connection, and the kernel doesn't abort it.
const SCSI_COMMAND: Duration = Duration::from_secs(30);

impl Timeouts {
    /// How often the initiator checks the connection, and how long the target may take to answer. `multipath` says whether
    /// the node uses several paths ([`super::Target::has_paths`]).
    pub fn pings(&self, multipath: bool) -> [Span; 2] {
        let [interval, timeout] = if multipath {
            [defaults::NOOP_INTERVAL_MULTIPATH, defaults::NOOP_TIMEOUT_MULTIPATH]
        } else {
            [defaults::NOOP_INTERVAL, defaults::NOOP_TIMEOUT]
        };
        [self.noop_interval.unwrap_or(interval), self.noop_timeout.unwrap_or(timeout)]
    }
}

pub(super) fn validate(written: &TargetTable, errors: &mut Errors) -> Option<Timeouts> {
    const DAY: u64 = 86_400;
    let seconds = |key, span: Span| {
        if span.0.subsec_nanos() != 0 || !(1..=DAY).contains(&span.0.as_secs()) {
            return Err(ConfigError::value(key, &span.to_string(), "whole seconds, from 1s to a day"));
        }
        Ok(span)
    };
    let optional = |key, span: Option<Span>| span.map(|span| seconds(key, span)).transpose();
    let replacement = errors.take(seconds("target.replacement_timeout", written.replacement_timeout));
    let noop_interval = errors.take(optional("target.noop_interval", written.noop_interval));
    let noop_timeout = errors.take(optional("target.noop_timeout", written.noop_timeout));
    let timeouts = Timeouts {
        replacement: written.replacement_timeout,
        noop_interval: noop_interval?,
        noop_timeout: noop_timeout?,
    };
    // The defaults with multipath are shorter.
    let [interval, timeout] = timeouts.pings(false);
    if interval.0 + timeout.0 >= SCSI_COMMAND {
        let both = format!("{timeout}, with a noop_interval of {interval}");
        let wanted = "less than 30s together, after which the kernel aborts a command";
        errors.add(ConfigError::value("target.noop_timeout", &both, wanted));
    }
    replacement.map(|replacement| Timeouts { replacement, ..timeouts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: &str) -> Result<Timeouts, String> {
        let fragment: TargetTable = toml::from_str(keys).unwrap();
        let mut errors = Errors::default();
        let timeouts = validate(&fragment, &mut errors);
        errors.finish(&[], timeouts).map_err(|error| error.to_string())
    }

    #[test]
    fn the_pings_depend_on_multipath_unless_they_are_written() {
        let said = |keys: &str, multipath| of(keys).unwrap().pings(multipath).map(|span| span.to_string());
        assert_eq!(of("").unwrap().replacement.to_string(), "1h");
        assert_eq!(
            (said("", false), said("", true)),
            (["5s", "10s"].map(Into::into), ["1s", "2s"].map(Into::into))
        );
        assert_eq!(said("noop_timeout = \"4s\"", false), ["5s", "4s"]);
        assert_eq!(said("noop_timeout = \"4s\"", true), ["1s", "4s"]);
    }

    /// A write that stands still over a silent path continues over another within this time.
    #[test]
    fn a_silent_path_stalls_for_ten_seconds_at_most() {
        let [interval, timeout] = of("").unwrap().pings(true);
        let sum = interval.0 + timeout.0 + PATH_FAILS_AFTER.0;
        assert_eq!(sum, Duration::from_secs(8), "docs/config.md has this sum");
        assert!(sum + Duration::from_secs(2) <= Duration::from_secs(10));
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

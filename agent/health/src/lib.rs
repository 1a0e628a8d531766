//! Whether this node's etcd storage is healthy. A pure function of config and facts.
//!
//! There is one table of checks; each says what it protects. A check that cannot tell is not healthy.
#![deny(clippy::wildcard_enum_match_arm)]

mod checks;
mod pool;
mod prometheus;
mod report;
mod selinux;
mod storage;
mod table;
mod transitions;
mod units;

pub use pool::{SaidNode, SaidRow, differing};
pub use prometheus::{Run, metrics};
pub use report::{Check, Outcome, Report, Row, Severity};
pub use storage::shared;
pub use table::{AFTER_ROLLBACK, BEFORE_MIGRATION, CHECKS, ISCSI_ONLY};
pub use transitions::{CANNOT_TELL, Change, FOUND, OK_AGAIN, Verdicts};

use config::Config;
use node::{HealthFacts, Node};
use report::CheckInput;

/// Runs all checks that apply to this node.
pub fn assess(config: &Config, node: &Node, health: &HealthFacts) -> Report {
    let input = CheckInput { config, node, health };
    let row = |check: &Check| Row {
        check: check.name,
        protects: check.protects,
        severity: check.severity,
        outcome: (check.run)(input),
    };
    let without_lun = if node.rolled_back().is_some() {
        Some(&AFTER_ROLLBACK[..])
    } else if checks::is_not_migrated(node) {
        Some(&BEFORE_MIGRATION[..])
    } else {
        None
    };
    let applies = |check: &&Check| {
        let for_this_disk = without_lun.is_none_or(|names| names.contains(&check.name));
        let for_this_backing = config.backing.iscsi().is_some() || !ISCSI_ONLY.contains(&check.name);
        let was_asked = node.cluster.is_some() || check.name != table::NEEDS_CLUSTER;
        for_this_disk && for_this_backing && was_asked
    };
    Report { rows: CHECKS.iter().filter(applies).map(row).collect() }
}

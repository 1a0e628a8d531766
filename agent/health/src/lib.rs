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
pub use table::{AFTER_ROLLBACK, BEFORE_MIGRATION, CHANGED_BY_A_RUN, CHECKS, ISCSI_ONLY};
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
        outcome: beside_a_run(check.name, (check.run)(input), health.at_work.as_deref()),
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

/// The detail of each check that is not judged because a run is at work.
pub const AT_WORK: &str = "a run is at work: see the check `record`";

/// The outcome of a check while a run may be at work: the first check, which every node has, names the run. No cure acts against
/// the run.
fn beside_a_run(check: &str, outcome: Outcome, run: Option<&str>) -> Outcome {
    let Some(run) = run else { return outcome };
    match outcome {
        _ if check == "record" => Outcome::CannotTell(run.to_owned()),
        Outcome::Ok(_) => outcome,
        _ if CHANGED_BY_A_RUN.contains(&check) => Outcome::CannotTell(AT_WORK.to_owned()),
        Outcome::Found(text) => Outcome::Found(text.replace("run `etcd-lun apply`", AT_WORK)),
        Outcome::CannotTell(_) => outcome,
    }
}

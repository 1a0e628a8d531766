//! Is this node's etcd storage right? A pure function of config and facts.
//!
//! One table of checks, each with what it protects. A check that can't tell is not healthy.
#![deny(clippy::wildcard_enum_match_arm)]

mod checks;
mod metrics;
mod prometheus;
mod selinux;
mod table;
mod transitions;
mod vitals;

pub use prometheus::{Run, metrics};
pub use table::{CHECKS, ISCSI, ROLLED_BACK};
pub use transitions::{CANNOT_TELL, Change, FOUND, OK_AGAIN, Verdicts};

use crate::{
    config::Config,
    node::{Node, Vitals},
};
use serde::Serialize;

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "detail", rename_all = "kebab-case")]
pub enum Outcome {
    /// As it should be; what was seen.
    Ok(String),
    /// Something is wrong: what, and the cure.
    Found(String),
    /// It could not be looked at: why.
    CannotTell(String),
}

impl Outcome {
    /// In a word, as `--json` has it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Found(_) => "found",
            Self::CannotTell(_) => "cannot-tell",
        }
    }

    /// What was seen.
    pub fn detail(&self) -> &str {
        match self {
            Self::Ok(detail) | Self::Found(detail) | Self::CannotTell(detail) => detail,
        }
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// etcd is down or its data in danger.
    Critical,
    /// It will be, when something else happens.
    Warning,
}

impl Severity {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// One check.
#[derive(Debug)]
pub struct Check {
    /// A stable name in kebab-case.
    pub name: &'static str,
    /// What it protects.
    pub protects: &'static str,
    /// What is right, and who says so.
    pub limit: &'static str,
    /// How bad a finding is.
    pub severity: Severity,
    run: fn(Seen<'_>) -> Outcome,
}

/// Everything that a check can look at.
#[derive(Debug, Clone, Copy)]
struct Seen<'a> {
    config: &'a Config,
    node: &'a Node,
    vitals: &'a Vitals,
}

/// One row of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The check's name.
    pub check: &'static str,
    /// What it protects.
    pub protects: &'static str,
    /// How bad a finding is.
    pub severity: Severity,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What we think of what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One row a check.
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether every check is ok.
    pub fn is_healthy(&self) -> bool {
        self.rows.iter().all(|row| matches!(row.outcome, Outcome::Ok(_)))
    }
}

/// Runs all checks that apply.
pub fn assess(config: &Config, node: &Node, vitals: &Vitals) -> Report {
    let seen = Seen { config, node, vitals };
    let row = |check: &Check| Row {
        check: check.name,
        protects: check.protects,
        severity: check.severity,
        outcome: (check.run)(seen),
    };
    let applies = |check: &&Check| {
        let of_place = node.rolled_back().is_none() || ROLLED_BACK.contains(&check.name);
        let of_backing = config.backing.iscsi().is_some() || !ISCSI.contains(&check.name);
        of_place && of_backing && (vitals.metrics.is_some() || !table::OF_METRICS.contains(&check.name))
    };
    Report { rows: CHECKS.iter().filter(applies).map(row).collect() }
}

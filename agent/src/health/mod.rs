//! Is this node's etcd storage right? A pure function of config and facts.
//!
//! One table of checks, each with what it protects. A check that can't tell is not healthy.
#![deny(clippy::wildcard_enum_match_arm)]

mod checks;
mod selinux;

use crate::{config::Config, node::Node};
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

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// etcd is down or its data in danger.
    Critical,
    /// It will be, when something else happens.
    Warning,
}

/// One check.
#[derive(Debug)]
pub struct Check {
    /// A stable name in kebab-case.
    pub name: &'static str,
    /// What it protects.
    pub protects: &'static str,
    /// How bad a finding is.
    pub severity: Severity,
    run: fn(&Config, &Node) -> Outcome,
}

/// All checks, in the order in which they are printed.
pub const CHECKS: &[Check] = &[
    Check {
        name: "record",
        protects: "which copy etcd may run on is known",
        severity: Severity::Critical,
        run: checks::record,
    },
    Check {
        name: "session",
        protects: "the LUN can be reached",
        severity: Severity::Critical,
        run: checks::session,
    },
    Check {
        name: "portals",
        protects: "the LUN stays reachable when one path is lost",
        severity: Severity::Warning,
        run: checks::portals,
    },
    Check {
        name: "initiator-name",
        protects: "the target shows this node its own LUN after a reboot",
        severity: Severity::Warning,
        run: checks::initiator_name,
    },
    Check {
        name: "device-identity",
        protects: "the LUN is the one of the record, not another with its number",
        severity: Severity::Critical,
        run: checks::device_identity,
    },
    Check {
        name: "mount",
        protects: "etcd's directory is the LUN",
        severity: Severity::Critical,
        run: checks::mount,
    },
    Check {
        name: "mount-options",
        protects: "the mount is what the config asks for, and writable",
        severity: Severity::Critical,
        run: checks::mount_options,
    },
    Check {
        name: "mount-unit",
        protects: "the next boot mounts the same way",
        severity: Severity::Warning,
        run: checks::mount_unit,
    },
    Check {
        name: "stamp",
        protects: "the data on the LUN is this node's, and not from the past",
        severity: Severity::Critical,
        run: checks::stamp,
    },
    Check {
        name: "fence",
        protects: "etcd can't start on old data when the LUN is missing",
        severity: Severity::Critical,
        run: checks::fence,
    },
    Check {
        name: "free-space",
        protects: "etcd can write",
        severity: Severity::Critical,
        run: checks::free_space,
    },
    Check {
        name: "selinux",
        protects: "a fault of etcd-lun, or of what it runs, stays among its own files and on its own LUN",
        severity: Severity::Warning,
        run: selinux::selinux,
    },
    Check { name: "etcd", protects: "the member runs", severity: Severity::Critical, run: checks::etcd },
];

/// What is looked at on a node that was rolled back to the local disk on purpose: the rest is about the LUN.
pub const ROLLED_BACK: [&str; 4] = ["record", "fence", "selinux", "etcd"];

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
pub fn assess(config: &Config, node: &Node) -> Report {
    let row = |check: &Check| Row {
        check: check.name,
        protects: check.protects,
        severity: check.severity,
        outcome: (check.run)(config, node),
    };
    let applies = |check: &&Check| node.rolled_back().is_none() || ROLLED_BACK.contains(&check.name);
    Report { rows: CHECKS.iter().filter(applies).map(row).collect() }
}

//! A check, what it can look at, its outcome, and the report of all checks.

use config::Config;
use node::{Fact, HealthFacts, Node};
use schemars::JsonSchema;
use serde::Serialize;

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "outcome", content = "detail", rename_all = "kebab-case")]
pub enum Outcome {
    /// All is well. The detail says what was observed.
    Ok(String),
    /// Something is wrong. The detail says what was found, and the cure.
    Found(String),
    /// The check could not be made. The detail says why.
    CannotTell(String),
}

impl Outcome {
    /// The outcome in one word, as `--json` writes it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Found(_) => "found",
            Self::CannotTell(_) => "cannot-tell",
        }
    }

    /// The observed value.
    pub fn detail(&self) -> &str {
        match self {
            Self::Ok(detail) | Self::Found(detail) | Self::CannotTell(detail) => detail,
        }
    }

    /// True if all is well.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }
}

/// A check in progress. `?` ends it early, on an unknown fact or a finding.
pub(super) type Checked = Result<Outcome, Outcome>;

/// The outcome of a check that may have ended early.
pub(super) fn outcome(checked: Checked) -> Outcome {
    checked.unwrap_or_else(|ended| ended)
}

/// The value of a fact. The check ends if the fact is unknown.
pub(super) fn known<T>(fact: &Fact<T>) -> Result<&T, Outcome> {
    fact.require().map_err(|why| Outcome::CannotTell(why.to_owned()))
}

/// All is well.
pub(super) fn ok(text: impl Into<String>) -> Checked {
    Ok(Outcome::Ok(text.into()))
}

/// Ends the check with a finding.
pub(super) fn found<T>(text: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::Found(text.into()))
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// etcd is down, or its data is in danger.
    Critical,
    /// etcd will be down, or its data in danger, after one more failure.
    Warning,
}

impl Severity {
    /// The severity in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// A check.
#[derive(Debug)]
pub struct Check {
    /// A stable name in kebab-case.
    pub name: &'static str,
    /// The good that the check protects.
    pub protects: &'static str,
    /// The limit that counts as ok, and its source.
    pub limit: &'static str,
    /// How bad a finding is.
    pub severity: Severity,
    pub(super) run: fn(CheckInput<'_>) -> Outcome,
}

/// Everything that a check can look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckInput<'a> {
    pub(super) config: &'a Config,
    pub(super) node: &'a Node,
    pub(super) health: &'a HealthFacts,
}

/// One row of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Row {
    /// The name of the check.
    #[schemars(regex(pattern = "^[a-z]+(-[a-z]+)*$"))]
    pub check: &'static str,
    /// The good that the check protects.
    pub protects: &'static str,
    /// How bad a finding is.
    pub severity: Severity,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// One row for each check that applies, in the order of `etcd-lun health --list`.
    pub rows: Vec<Row>,
}

impl Report {
    /// True if every check is ok.
    pub fn is_healthy(&self) -> bool {
        self.rows.iter().all(|row| row.outcome.is_ok())
    }
}

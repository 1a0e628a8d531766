//! Which outcomes have changed since the timer's last run.

use super::report::{Report, Row, Severity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The id of the journal entry for a check that found something. `units/etcd-lun.catalog` explains it.
pub const FOUND: &str = "996bdb2779ff49aeabf32506127f08c4";
/// The id of the journal entry for a check that cannot tell.
pub const CANNOT_TELL: &str = "a9cedeee955043f59011957e82cc9b70";
/// The id of the journal entry for a check that is ok again.
pub const OK_AGAIN: &str = "ae8875a0c316417288b6a07877899631";

/// The outcome of each check in one run, in one word. It is kept until the next boot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verdicts(BTreeMap<String, String>);

/// A check with another outcome than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'a> {
    /// The check.
    pub check: &'a str,
    /// Its outcome before.
    pub old: &'a str,
    /// Its outcome now.
    pub new: &'a str,
    /// How bad a finding is.
    pub severity: Severity,
    /// The observed value.
    pub detail: &'a str,
}

/// The outcome that a check counts as having before its first run.
const INITIAL: &str = "ok";

impl Verdicts {
    /// The outcomes in a report.
    pub fn of(report: &Report) -> Self {
        Self(report.rows.iter().map(|row| (row.check.to_owned(), row.outcome.word().to_owned())).collect())
    }

    /// The checks of a report whose outcome has changed, in the report's order.
    pub fn changes<'a>(&'a self, report: &'a Report) -> Vec<Change<'a>> {
        let change = |row: &'a Row| {
            let old = self.0.get(row.check).map_or(INITIAL, String::as_str);
            let new = row.outcome.word();
            let (check, severity, detail) = (row.check, row.severity, row.outcome.detail());
            (old != new).then_some(Change { check, old, new, severity, detail })
        };
        report.rows.iter().filter_map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    fn report(outcomes: &[(&'static str, Outcome)]) -> Report {
        let row = |(check, outcome): &(&'static str, Outcome)| Row {
            check,
            protects: "",
            severity: Severity::Warning,
            outcome: outcome.clone(),
        };
        Report { rows: outcomes.iter().map(row).collect() }
    }

    #[test]
    fn only_what_changed() {
        let first = report(&[("a", Outcome::Ok("x".into())), ("b", Outcome::Found("y".into()))]);
        let second = report(&[("a", Outcome::CannotTell("z".into())), ("b", Outcome::Found("w".into()))]);
        let told = |before: &Verdicts, now: &Report| {
            let changes = before.changes(now);
            changes
                .iter()
                .map(|change| format!("{} {} {}", change.check, change.old, change.new))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&Verdicts::default(), &first), ["b ok found"]);
        assert_eq!(told(&Verdicts::of(&first), &second), ["a ok cannot-tell"]);
        assert_eq!(told(&Verdicts::of(&second), &first), ["a cannot-tell ok"]);
        assert_eq!(told(&Verdicts::of(&first), &first), [""; 0]);
        let kept = serde_json::to_string(&Verdicts::of(&first)).unwrap();
        assert_eq!(kept, r#"{"a":"ok","b":"found"}"#);
        assert_eq!(serde_json::from_str::<Verdicts>(&kept).unwrap(), Verdicts::of(&first));
    }
}

//! The health of all nodes of a pool, from what each says of itself (`health --json`).

use serde::{Deserialize, Serialize};

/// A row of a node's report, as [`Row`](super::Row) is written. The node may have another release: its checks may be others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidRow {
    /// The name of the check.
    pub check: String,
    /// `critical` or `warning`.
    pub severity: String,
    /// `ok`, `found` or `cannot-tell`.
    pub outcome: String,
    /// What was seen and, unless it is ok, the cure or the reason.
    pub detail: String,
}

impl SaidRow {
    /// True if all is well.
    pub fn is_ok(&self) -> bool {
        self.outcome == "ok"
    }
}

/// What one node says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SaidNode {
    /// Its name in the config.
    pub node: String,
    /// Why it says nothing; none if it has answered.
    pub problem: Option<String>,
    /// Its checks.
    pub rows: Vec<SaidRow>,
}

/// The check that asks the node's etcd for the cluster's members.
const CLUSTER: &str = "cluster";

impl SaidNode {
    /// A node that could not be asked, and why.
    pub fn silent(node: &str, problem: String) -> Self {
        Self { node: node.to_owned(), problem: Some(problem), rows: Vec::new() }
    }

    /// Reads what `health --json` has printed on a node. The error says why it is no report.
    pub fn parse(node: &str, printed: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Printed {
            version: u32,
            health: Option<Rows>,
            message: Option<String>,
        }
        #[derive(Deserialize)]
        struct Rows {
            rows: Vec<SaidRow>,
        }
        let said: Printed =
            serde_json::from_str(printed).map_err(|_| "it printed no report of `health`".to_owned())?;
        match said {
            Printed { version: 1, health: Some(Rows { rows }), .. } => {
                Ok(Self { node: node.to_owned(), problem: None, rows })
            }
            Printed { version: 1, message: Some(message), .. } => Err(message),
            Printed { version, .. } => {
                Err(format!("it printed version {version} of a report, and this program reads 1"))
            }
        }
    }

    /// The row of a check, if the node has it.
    pub fn row(&self, check: &str) -> Option<&SaidRow> {
        self.rows.iter().find(|row| row.check == check)
    }

    /// True if every check of the node is ok.
    pub fn is_healthy(&self) -> bool {
        self.problem.is_none() && self.rows.iter().all(SaidRow::is_ok)
    }

    /// What keeps the cluster, as this node sees it, from being whole: each voter healthy. None if it is whole.
    pub fn not_whole(&self) -> Option<&str> {
        match (&self.problem, self.row(CLUSTER)) {
            (Some(problem), _) => Some(problem),
            (None, Some(row)) if row.is_ok() => None,
            (None, Some(row)) => Some(&row.detail),
            (None, None) => Some("the node does not say how the cluster is"),
        }
    }
}

/// The checks of which not every node says ok, in the order of the nodes' own reports.
pub fn differing(nodes: &[SaidNode]) -> Vec<&str> {
    let mut checks: Vec<&str> = Vec::new();
    for row in nodes.iter().flat_map(|node| &node.rows).filter(|row| !row.is_ok()) {
        if !checks.contains(&row.check.as_str()) {
            checks.push(&row.check);
        }
    }
    let all: Vec<_> = nodes.iter().flat_map(|node| &node.rows).map(|row| row.check.as_str()).collect();
    checks.sort_by_key(|check| all.iter().position(|other| other == check));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{CHECKS, Outcome, Report, Row, Severity};

    /// What this program prints for a node of which every check is ok, but these.
    fn printed(bad: &[(&'static str, &str)]) -> String {
        let rows = CHECKS.iter().map(|check| Row {
            check: check.name,
            protects: check.protects,
            severity: Severity::Critical,
            outcome: match bad.iter().find(|(name, _)| *name == check.name) {
                Some((_, why)) => Outcome::Found((*why).into()),
                None => Outcome::Ok("as it should be".into()),
            },
        });
        serde_json::json!({ "version": 1, "health": Report { rows: rows.collect() } }).to_string()
    }

    #[test]
    fn its_own_report_is_read() {
        let well = SaidNode::parse("master-0", &printed(&[])).unwrap();
        assert!(well.is_healthy() && well.rows.len() == CHECKS.len() && well.not_whole().is_none());
        let ill =
            SaidNode::parse("master-1", &printed(&[("session", "gone"), ("cluster", "2 of 3")])).unwrap();
        assert!(!ill.is_healthy());
        assert_eq!(ill.not_whole(), Some("2 of 3"));
        let silent = SaidNode::silent("master-2", "no route".into());
        assert!(!silent.is_healthy());
        assert_eq!(silent.not_whole(), Some("no route"));
        assert_eq!(differing(&[well, ill, silent]), ["session", "cluster"]);
    }

    #[test]
    fn what_is_no_report() {
        for (text, why) in [
            ("", "no report"),
            ("Starting pod/master-0-debug\n", "no report"),
            ("{\"version\":2}", "version 2"),
            ("{\"version\":1}", "version 1"),
            ("{\"version\":1,\"health\":{\"rows\":[{}]}}", "no report"),
            (
                "{\"version\":1,\"error\":\"x\",\"message\":\"error [no-config]: no config\"}",
                "error [no-config]",
            ),
        ] {
            let said = SaidNode::parse("a", text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
        // An older release does not know the check.
        let old = SaidNode::parse("a", "{\"version\":1,\"health\":{\"rows\":[]}}").unwrap();
        assert!(old.not_whole().unwrap().contains("does not say"));
    }
}

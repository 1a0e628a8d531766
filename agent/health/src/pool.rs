//! The health of all nodes of a pool, from what each says of itself (`health --json`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A row of a node's report, as `health --json` prints it there. The node may have another release: its checks may be others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaidRow {
    /// The name of the check.
    #[schemars(regex(pattern = "^[a-z]+(-[a-z]+)*$"))]
    pub check: String,
    /// `critical` or `warning`.
    pub severity: String,
    /// `ok`, `found` or `cannot-tell`.
    pub outcome: String,
    /// The observation and, unless it is ok, the cure or the reason.
    pub detail: String,
}

impl SaidRow {
    /// True if all is well.
    pub fn is_ok(&self) -> bool {
        self.outcome == "ok"
    }
}

/// The answer of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SaidNode {
    /// Its name in the config.
    pub node: String,
    /// Why it says nothing; none if it has answered.
    pub problem: Option<String>,
    /// The checks that apply, in the node's own order. Empty if it has not answered.
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
            Printed { version: 1, .. } => Err("it printed no report of `health`".to_owned()),
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

    /// The reason why the cluster, as this node sees it, is not whole: each voter healthy. None if it is whole.
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

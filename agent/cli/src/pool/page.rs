//! The health of a pool as one table: checks that differ as rows, nodes as columns.

use health::{SaidNode, differing};
use std::fmt::Write as _;

const CHECK: usize = 16;
/// What a column needs for its outcome.
const OUTCOME: usize = 11;

/// The table, then what was found, then the cluster.
pub(super) fn table(nodes: &[SaidNode]) -> String {
    let mut text = String::new();
    let width = nodes.iter().map(|node| node.node.len()).max().unwrap_or_default().max(OUTCOME);
    let mut line = |first: &str, rest: &mut dyn Iterator<Item = String>| {
        let cells: String = rest.map(|cell| format!("  {cell:<width$}")).collect();
        let _ = writeln!(text, "{}", format!("{first:<CHECK$}{cells}").trim_end());
    };
    let checks = differing(nodes);
    line("CHECK", &mut nodes.iter().map(|node| node.node.clone()));
    for check in &checks {
        line(check, &mut nodes.iter().map(|node| word(node, check).to_owned()));
    }
    let most = nodes.iter().map(|node| node.rows.len()).max().unwrap_or_default();
    if checks.is_empty() {
        let all = if most == 0 { "all checks".to_owned() } else { format!("all {most} checks") };
        line(&all, &mut nodes.iter().map(|node| rest(node, &checks, most)));
    } else if most > checks.len() {
        let others = format!("{} more", most - checks.len());
        line(&others, &mut nodes.iter().map(|node| rest(node, &checks, most)));
    }
    for node in nodes {
        for row in node.rows.iter().filter(|row| !row.is_ok() && row.detail != health::AT_WORK) {
            let _ = write!(text, "\n{}, {}: {}", node.node, row.check, row.detail);
        }
        // Without the LUN there is less to check. A node whose data is on the local disk on purpose is healthy all the same.
        if let Some(record) = node.row("record").filter(|row| row.is_ok() && node.rows.len() < most) {
            let _ = write!(text, "\n{}, {}: {}", node.node, record.check, record.detail);
        }
        if let Some(problem) = &node.problem {
            let _ = write!(text, "\n{}: no answer: {problem}", node.node);
        }
    }
    let cluster = nodes.iter().find_map(|node| Some((node, node.row("cluster").filter(|row| row.is_ok())?)));
    if let Some((node, row)) = cluster {
        let _ = write!(text, "\ncluster, as {} sees it: {}", node.node, row.detail);
    }
    text
}

/// What a node says of the checks without a row: they are ok, and a node before its migration has fewer.
fn rest(node: &SaidNode, rows: &[&str], most: usize) -> String {
    let others = node.rows.iter().filter(|row| !rows.contains(&row.check.as_str())).count();
    match &node.problem {
        Some(_) => "no answer".into(),
        None if node.rows.len() == most => "ok".into(),
        None if others == 0 => "-".into(),
        None => format!("{others} of them ok"),
    }
}

fn word(node: &SaidNode, check: &str) -> &'static str {
    if node.problem.is_some() {
        return "no answer";
    }
    match node.row(check).map(|row| row.outcome.as_str()) {
        Some("ok") => "ok",
        Some("found") => "FOUND",
        Some(_) => "CANNOT TELL",
        // A node before its migration has fewer checks.
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use health::SaidRow;

    /// Else nobody would see that a rollback has left one behind.
    #[test]
    fn a_node_with_fewer_checks_says_where_its_data_is() {
        let node = |name: &str, rows: Vec<SaidRow>| SaidNode { node: name.into(), problem: None, rows };
        let moved = node("a", vec![row("record", "ok", "generation 1"), row("mount", "ok", "xfs")]);
        let back = node("b", vec![row("record", "ok", "rolled back on purpose")]);
        let text = table(&[moved, back]);
        assert!(text.contains("all 2 checks"), "{text}");
        assert!(text.ends_with("\nb, record: rolled back on purpose"), "{text}");
    }

    fn row(check: &str, outcome: &str, detail: &str) -> SaidRow {
        let severity = "critical".into();
        SaidRow { check: check.into(), severity, outcome: outcome.into(), detail: detail.into() }
    }

    fn node(name: &str, rows: Vec<SaidRow>) -> SaidNode {
        SaidNode { node: name.into(), problem: None, rows }
    }

    #[test]
    fn all_is_well() {
        let rows =
            || vec![row("session", "ok", "logged in"), row("cluster", "ok", "3 of 3 voters are healthy")];
        let text = table(&[node("master-0", rows()), node("master-1", rows())]);
        let expected = "CHECK             master-0     master-1
all 2 checks      ok           ok

cluster, as master-0 sees it: 3 of 3 voters are healthy";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_run_at_work_is_named_once() {
        let rows = ["mount", "etcd"].map(|check| row(check, "cannot-tell", health::AT_WORK));
        let busy = node("a", [vec![row("record", "cannot-tell", "UNDER WAY")], rows.into()].concat());
        let text = table(&[busy]);
        assert!(text.ends_with("etcd              CANNOT TELL\n\na, record: UNDER WAY"), "{text}");
    }

    #[test]
    fn nobody_answers() {
        let text = table(&[SaidNode::silent("master-0", "why".into())]);
        assert_eq!(
            text,
            "CHECK             master-0\nall checks        no answer\n\nmaster-0: no answer: why"
        );
    }

    #[test]
    fn what_differs_is_a_row_and_a_line() {
        let nodes = [
            node("master-0", vec![row("session", "ok", ""), row("mount", "ok", ""), row("etcd", "ok", "")]),
            node(
                "master-1",
                vec![row("session", "found", "there is no session"), row("mount", "cannot-tell", "why")],
            ),
            SaidNode::silent("master-2", "the command exited with 255: no route to host".into()),
        ];
        let expected = "CHECK             master-0     master-1     master-2
session           ok           FOUND        no answer
mount             ok           CANNOT TELL  no answer
1 more            ok           -            no answer

master-1, session: there is no session
master-1, mount: why
master-2: no answer: the command exited with 255: no route to host";
        assert_eq!(table(&nodes), expected);
    }
}

//! Makes `docs/design/decisions.md`, a table of the decisions of `apply`, with the planner itself.

use super::*;
use plan::Horizon;
use std::{env, fmt::Write as _, fs};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/decisions.md");

const HEAD: &str = "# What `apply` decides

This page is for administrators who want to know what `apply` does in a given situation. A situation is what the record
says, what the LUN holds, and what the data directory on the local disk holds. In this table etcd is a systemd unit
whose cluster has two other members, both healthy, and the LUN is attached and matches the config in all other respects.
Of a static pod that `apply` stops, `prove` is followed by `await-pod-end` and `confirm`.

- `…` means that `apply` observes the node again and plans the next steps.
- *LUN newer* means that the LUN has a use which the record does not know: this node's disk went back in time, or
  another computer uses the LUN. See [recovery.md](../recovery.md#a-disk-that-was-restored-or-cloned).
- *refused* means that `apply` goes no further: it neither stops nor starts etcd. The message says what to do.

A test makes this page from the function that decides. `ETCD_LUN_REWRITE=1 cargo test --test laws decisions` writes it.

";

fn records() -> Vec<(&'static str, Option<Record>)> {
    vec![
        ("none", None),
        ("local disk: a migration was begun", Some(record())),
        ("local disk: rolled back on purpose", Some(rolled_back(DATA))),
        ("LUN", Some(used(2))),
        ("LUN, committed and never used", Some(record().commit(Some(DATA)))),
    ]
}

fn views() -> Vec<(&'static str, Option<Lun>)> {
    let stamped = |stamp| Some(lun(xfs(OURS, Some(stamp), true)));
    let other = foreign_stamp(2);
    let good = lun(xfs(OURS, Some(stamp(1, 2)), true));
    vec![
        ("not reachable: no session", None),
        ("blank", Some(lun(Content::Blank))),
        (
            "an unfinished filesystem of an interrupted `mkfs` of ours",
            Some(lun(Content::Unfinished { uuid: OURS })),
        ),
        ("our filesystem, without a stamp", Some(lun(xfs(OURS, None, true)))),
        ("our filesystem, with the right stamp", Some(good.clone())),
        ("LUN newer: the same, a use that the record did not announce", stamped(stamp(1, 3))),
        ("the same, use counter one behind the record (restored snapshot)", stamped(stamp(1, 1))),
        ("LUN newer: our filesystem, a later generation", stamped(stamp(7, 2))),
        ("our filesystem, the stamp of this attempt, never used", stamped(stamp(1, 0))),
        ("our filesystem, released by a rollback", stamped(stamp(1, 2).release())),
        (
            "LUN newer: another filesystem that this node has used",
            Some(lun(xfs(FOREIGN, Some(stamp(7, 2)), false))),
        ),
        ("our filesystem, stamped by another node", stamped(other.clone())),
        ("another XFS, stamped by another node", Some(lun(xfs(FOREIGN, Some(other), false)))),
        ("something else", Some(lun(Content::Foreign { found: "an ext4 filesystem".into() }))),
        ("the right content, another WWID", Some(Lun { wwid: Fact::Known(other_wwid()), ..good.clone() })),
        ("the right content, read-only", Some(Lun { read_only: true, ..good.clone() })),
        (
            "the right content, mounted elsewhere",
            Some(Lun {
                users: Fact::Known(vec![User { at: "/mnt".into(), pid: 7, command: "sh".into() }]),
                ..good.clone()
            }),
        ),
        ("unknown: it cannot be read", Some(Lun { content: unknown(), ..good })),
    ]
}

fn locals() -> Vec<(&'static str, LocalDir)> {
    let data = |print| match dir(&["member"], false) {
        LocalDir::Present { entries, barred, immutable, with_state, size, .. } => {
            LocalDir::Present { entries, barred, immutable, fingerprint: Some(print), with_state, size }
        }
        LocalDir::Absent => LocalDir::Absent,
    };
    vec![
        ("none", LocalDir::Absent),
        ("the fence", barred(true)),
        ("the migrated data", data(DATA)),
        ("other data", data(OTHER_DATA)),
    ]
}

/// The state of etcd, and the occasion.
fn occasions() -> [(&'static str, Etcd, Occasion); 3] {
    [
        ("by hand, etcd runs or starts", etcd("active"), Occasion::ByHand),
        ("by hand, etcd is down", etcd("failed"), Occasion::ByHand),
        (
            "at boot, etcd waits for the service",
            Etcd { start_queued: true, ..etcd("inactive") },
            Occasion::Boot,
        ),
    ]
}

fn outcome(node: &Node, occasion: Occasion) -> String {
    match plan(&config(), node, occasion) {
        Err(refusal) => format!("*refused [{}]*", refusal.name()),
        Ok(plan) if plan.is_empty() => "nothing".into(),
        Ok(plan) => {
            let mut steps: Vec<_> = plan.steps.iter().map(Step::id).collect();
            if matches!(
                plan.horizon,
                Some(Horizon::Lun | Horizon::Stamp | Horizon::Mount | Horizon::Sessions)
            ) {
                steps.push("…");
            }
            steps.join(", ")
        }
    }
}

fn table() -> String {
    let mut text = HEAD.to_owned();
    for (said, record) in records() {
        let _ = writeln!(text, "## The record: {said}\n");
        let heads: Vec<_> = occasions().iter().map(|(name, ..)| *name).collect();
        let _ = writeln!(text, "| the LUN | local data | {} |\n|---|---|---|---|---|", heads.join(" | "));
        for (holds, view) in views() {
            let mut rows: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
            for (lies, local) in locals() {
                let row: Vec<_> = occasions()
                    .into_iter()
                    .map(|(_, etcd, occasion)| {
                        let mut node = match &view {
                            Some(lun) => attached(lun.content.known().cloned().unwrap_or(Content::Blank)),
                            None => node(),
                        };
                        if let Some(lun) = &view {
                            node.lun = Fact::Known(LunView::Seen(Box::new(lun.clone())));
                        }
                        node.initiator.name = Fact::Known(Some(INITIATOR.into()));
                        node.record = Fact::Known(record.clone());
                        node.local = Fact::Known(local.clone());
                        node.etcd = Fact::Known(etcd);
                        outcome(&node, occasion)
                    })
                    .collect();
                match rows.iter_mut().find(|(_, found)| *found == row) {
                    Some((places, _)) => places.push(lies),
                    None => rows.push((vec![lies], row)),
                }
            }
            for (places, row) in rows {
                let place = if places.len() == locals().len() { "any".into() } else { places.join("; ") };
                let _ = writeln!(text, "| {holds} | {place} | {} |", row.join(" | "));
            }
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

#[test]
fn the_table_in_the_docs_is_what_is_decided() {
    let table = table();
    if env::var_os("ETCD_LUN_REWRITE").is_some() {
        fs::write(PATH, &table).unwrap();
    }
    let written = fs::read_to_string(PATH).unwrap_or_default();
    let differs =
        table.lines().zip(written.lines().chain(std::iter::repeat(""))).find(|(one, other)| one != other);
    assert!(
        table == written,
        "docs/design/decisions.md is not what the planner decides; `ETCD_LUN_REWRITE=1 cargo test --test laws decisions` writes it: {differs:?}"
    );
}

//! `pool apply`: one node after the other, and never two members away.

use super::reach::{ANSWER_LIMIT, Reach, healths, names, printed};
use crate::{
    config,
    exit::Exit,
    output::{print_err, print_err_part, print_out},
};
use anyhow::Context as _;
use clap::Args;
use host::{Host, terminal, via::Via};
use serde::Deserialize;
use std::{
    io::{self, IsTerminal as _},
    path::Path,
    time::{Duration, Instant},
};
use terms::{ErrorName, Span, fail};

/// `pool apply`
#[derive(Debug, Args)]
pub(crate) struct ApplyOptions {
    #[command(flatten)]
    reach: Reach,
    /// Do not ask before each node
    #[arg(long)]
    yes: bool,
}

/// How long the cluster may take after a move until each of its members is healthy. A member that was away reads its log first, and
/// gets what it missed.
const WHOLE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The pause between two looks at the cluster.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long a node may refuse because of its cluster. A run whose terminal has closed goes on, and its member is away for as long
/// as a restart takes.
const PASSING_LIMIT: Duration = Duration::from_secs(2 * 60);

/// What a node would do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Intent {
    Nothing,
    /// Its entry says that it stays on the local disk for now.
    Held,
    /// So says the entry on the node, and not the one of this config.
    HeldThere,
    /// So many steps, as far as they can be planned.
    Steps(usize),
    /// It refuses for a reason that may pass ([`PASSING_LIMIT`]).
    NotNow(String),
    /// It refuses, or does not answer.
    Cannot(String),
}

fn intent(answer: Result<String, String>) -> Intent {
    #[derive(Deserialize)]
    struct Printed {
        plan: Option<Steps>,
        refused: Option<Refused>,
        name: Option<String>,
        message: Option<String>,
    }
    /// By its name: a refusal of another version may have other fields.
    #[derive(Deserialize)]
    #[serde(tag = "refusal", rename_all = "kebab-case")]
    enum Refused {
        ClusterUnknown,
        NoQuorum,
        MigrationOff,
        #[serde(other)]
        Other,
    }
    #[derive(Deserialize)]
    struct Steps {
        steps: Vec<serde_json::Value>,
    }
    let text = match answer {
        Ok(text) => text,
        Err(why) => return Intent::Cannot(format!("no answer: {why}")),
    };
    match serde_json::from_str(&text) {
        Ok(Printed { plan: Some(Steps { steps }), .. }) if steps.is_empty() => Intent::Nothing,
        Ok(Printed { plan: Some(Steps { steps }), .. }) => Intent::Steps(steps.len()),
        Ok(Printed {
            refused: Some(Refused::ClusterUnknown | Refused::NoQuorum),
            message: Some(message),
            ..
        }) => Intent::NotNow(message),
        Ok(Printed { refused: Some(Refused::MigrationOff), .. }) => Intent::Held,
        Ok(Printed { name: Some(name), message: Some(message), .. })
            if name == ErrorName::AnotherRun.as_str() =>
        {
            Intent::NotNow(message)
        }
        Ok(Printed { message: Some(message), .. }) => Intent::Cannot(message),
        Ok(Printed { .. }) | Err(_) => Intent::Cannot("it printed no plan".into()),
    }
}

fn intents(host: &Host, via: &Via, nodes: &[String]) -> Vec<Intent> {
    let answers = via.ask_all(host, nodes, &["etcd-lun", "plan", "--json"], ANSWER_LIMIT);
    answers.into_iter().map(|answer| intent(printed(answer))).collect()
}

/// The same. If nodes refuse only for what may pass, they are asked again for a while.
fn settled_intents(host: &Host, via: &Via, nodes: &[String]) -> anyhow::Result<Vec<Intent>> {
    let begun = Instant::now();
    let mut told = false;
    loop {
        let found = intents(host, via, nodes);
        let waits = found.iter().any(|intent| matches!(intent, Intent::NotNow(_)));
        let cannot = found.iter().any(|intent| matches!(intent, Intent::Cannot(_)));
        if !waits || cannot || begun.elapsed() >= PASSING_LIMIT {
            return Ok(found);
        }
        if !told {
            for (node, intent) in nodes.iter().zip(&found) {
                if let Intent::NotNow(why) = intent {
                    print_err(&format!("  {node}: {why}"));
                }
            }
            print_err(&format!(
                "Asking again for up to {}: a run may be at work there.",
                Span(PASSING_LIMIT)
            ));
            told = true;
        }
        host.pause(LOOK_AGAIN).context("waiting for a run to end")?;
    }
}

/// `pool apply`
pub(crate) fn apply(file: Option<&Path>, options: &ApplyOptions) -> Result<(), Exit> {
    let (host, pool, _) = config::load_pool(file)?;
    let nodes = names(&pool, &options.reach.node)?;
    let via = &options.reach.via;
    if !options.yes && !io::stdin().is_terminal() {
        return Err(Exit::Usage(
            "standard input is no terminal, so nobody can answer before each node: add --yes".into(),
        ));
    }
    print_err(&format!("Asking {} for their plans.", counted(nodes.len())));
    let mut intents = settled_intents(&host, via, &nodes)?;
    for (node, intent) in nodes.iter().zip(&mut intents) {
        if *intent == Intent::Held && pool.moves(node) {
            *intent = Intent::HeldThere;
        }
    }
    let mut waiting = Vec::new();
    let mut cannot = Vec::new();
    for (node, intent) in nodes.iter().zip(&intents) {
        match intent {
            Intent::Nothing => print_err(&format!("  {node}: nothing to do")),
            Intent::Held => print_err(&format!("  {node}: stays on the local disk (`migrate = false`)")),
            Intent::HeldThere => {
                print_err(&format!(
                    "  {node}: the config on the node has `migrate = false`, and this one has not: deliver it first"
                ));
                cannot.push(node.as_str());
            }
            Intent::Steps(count) => {
                print_err(&format!("  {node}: {count} steps, as far as can be planned now"));
                waiting.push(node);
            }
            Intent::Cannot(why) | Intent::NotNow(why) => {
                print_err(&format!("  {node}: {why}"));
                cannot.push(node.as_str());
            }
        }
    }
    if !cannot.is_empty() {
        fail!(
            PoolCannotBegin,
            "no node was changed, because {} cannot be moved (see above); fix that, or choose nodes with --node",
            cannot.join(", ")
        );
    }
    for (at, node) in waiting.iter().enumerate() {
        let before = Progress { done: at, of: waiting.len() };
        await_whole(&host, via, node).with_context(|| before.stopped(node))?;
        if !options.yes && !is_confirmed(node, before)? {
            fail!(PoolStopped, "{}: that was the answer", before.stopped(node));
        }
        move_one(&host, via, node, before)?;
    }
    if let Some(last) = waiting.last() {
        let all = Progress { done: waiting.len(), of: waiting.len() };
        await_whole(&host, via, last).with_context(|| all.to_string())?;
    }
    let held = intents.iter().filter(|intent| **intent == Intent::Held).count();
    let not_yet = if held == 0 { String::new() } else { format!(", {} not moved yet", counted(held)) };
    print_out(&format!(
        "Done: {} moved, {} had nothing to do{not_yet}.",
        counted(waiting.len()),
        counted(nodes.len() - waiting.len() - held)
    ));
    Ok(())
}

fn counted(nodes: usize) -> String {
    if nodes == 1 { "1 node".into() } else { format!("{nodes} nodes") }
}

/// How far the command is.
#[derive(Debug, Clone, Copy)]
struct Progress {
    done: usize,
    of: usize,
}

impl Progress {
    fn stopped(self, node: &str) -> String {
        format!("stopped before {node}, with {self}; run this again to go on there")
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} done", self.done, counted(self.of))
    }
}

fn is_confirmed(node: &str, before: Progress) -> Result<bool, Exit> {
    // What was typed before the question is no answer to it.
    terminal::discard_input().context("preparing to ask")?;
    print_err_part(&format!("Run `etcd-lun apply` on {node} now ({before})? [y/N] "));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("reading the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Runs `apply` on a node. What it prints is shown.
fn move_one(host: &Host, via: &Via, node: &str, before: Progress) -> Result<(), Exit> {
    print_err(&format!("{node}: etcd-lun apply"));
    let ended = via.run(host, node, &["etcd-lun", "apply"]).with_context(|| before.stopped(node))?;
    // The node itself says whether it is done: an exit code may be that of something between, and the connection may have broken
    // while the run went on.
    let now = match intents(host, via, &[node.to_owned()]).pop() {
        Some(Intent::Nothing) if ended.success() => return Ok(()),
        Some(Intent::Nothing) => {
            print_err(&format!(
                "{node}: the command ended with {ended}, and the node has nothing left to do"
            ));
            return Ok(());
        }
        Some(Intent::Cannot(why) | Intent::NotNow(why)) => why,
        Some(Intent::Steps(_) | Intent::Held | Intent::HeldThere) | None => "it is not done there".to_owned(),
    };
    fail!(
        PoolStopped,
        "`etcd-lun apply` on {node} ended with {ended}, and now: {now}; {before}, no further node was touched. Look at {node} \
         (`etcd-lun status`), then run this again"
    )
}

/// Waits until each member of the cluster is healthy, as this node's etcd sees it.
fn await_whole(host: &Host, via: &Via, node: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut told = String::new();
    loop {
        let said = healths(host, via, &[node.to_owned()]);
        let Some(why) = said.first().and_then(|said| said.not_whole().map(str::to_owned)) else {
            return Ok(());
        };
        if begun.elapsed() >= WHOLE_LIMIT {
            fail!(
                PoolNotWhole,
                "the cluster is not whole, as {node} sees it, for {}: {why}",
                Span(WHOLE_LIMIT)
            );
        }
        if told != why {
            print_err(&format!("{node}: waiting until the cluster is whole: {why}"));
            told = why;
        }
        host.pause(LOOK_AGAIN).context("waiting until the cluster is whole")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{ClusterRefusal, Refusal};

    #[test]
    fn plans_of_nodes() {
        let said = |text: &str| intent(Ok(text.to_owned()));
        assert_eq!(said(r#"{"version":1,"plan":{"steps":[],"horizon":null}}"#), Intent::Nothing);
        assert_eq!(
            said(r#"{"version":1,"plan":{"steps":[{"step":"log-in"}],"horizon":"lun"}}"#),
            Intent::Steps(1)
        );
        let refused =
            r#"{"version":1,"refused":{"refusal":"lun-not-blank"},"message":"refused [lun-not-blank]: why"}"#;
        assert_eq!(said(refused), Intent::Cannot("refused [lun-not-blank]: why".into()));
        let printed = |refusal: Refusal| {
            serde_json::json!({ "version": 1, "refused": refusal, "message": "why" }).to_string()
        };
        let missing = String::new();
        for passing in [
            ClusterRefusal::ClusterUnknown { found: "x".into() },
            ClusterRefusal::NoQuorum { voters: 3, needed: 2, healthy: 1, missing },
        ] {
            assert_eq!(said(&printed(passing.into())), Intent::NotNow("why".into()));
        }
        let held = Refusal::MigrationOff { entry: "hostname = \"a\"".into() };
        assert_eq!(said(&printed(held)), Intent::Held);
        // A run whose terminal has closed goes on.
        let another = r#"{"version":1,"error":"x","name":"another-run","message":"why"}"#;
        assert_eq!(said(another), Intent::NotNow("why".into()));
        assert_eq!(said(r#"{"version":1}"#), Intent::Cannot("it printed no plan".into()));
        assert_eq!(intent(Err("gone".into())), Intent::Cannot("no answer: gone".into()));
    }
}

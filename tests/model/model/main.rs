//! An exhaustive model of the protocol. It visits every reachable state and runs every step of `apply` and
//! `rollback`, with a crash before, within and after each step.
//!
//! The program's own `plan` makes the decisions, and its own steps (`apply/protocol.rs`) run on a simulated [`machine`]: each
//! look and each effect of theirs is one of this world. [`sessions`] has the steps before and after them.
//! Between any two effects, any of these can happen: the run is killed, the power fails, someone else starts etcd, etcd
//! writes, the target is lost or comes back, or the array has another volume behind the LUN while nobody has it mounted. Near the
//! initial states two of these happen in one run.
//!
//! The world is small: one node, one LUN, few writes, few generations. A fault of the protocol also shows in
//! a small world.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod copying;
mod facts;
mod machine;
mod mutants;
mod outside;
mod paths;
mod planner;
mod restored;
mod run;
mod search;
mod sessions;
mod world;

use run::Runtime;
use search::{Seen, visit};
use support::say;
use world::Guards;

/// Searches the protocol with all guards. No state may break an invariant. Two generations are enough for a
/// migration, or one that is tried again, and a rollback.
#[test]
fn nothing_is_lost_and_nothing_is_stale() {
    is_thorough(look(2, Runtime::Unit, NEAR));
}

/// The same for a static pod, whose other containers may write after etcd has ended.
#[test]
fn nothing_is_lost_of_what_a_container_of_the_pod_writes() {
    is_thorough(look(2, Runtime::StaticPod, NEAR));
}

/// From worlds that are less than this number of changes away from an initial state, runs have two events: those of a first
/// migration, and of whatever is run after it. Each change more makes the search ten times as long.
const NEAR: u8 = 2;

/// A search that visits few states proves little.
fn is_thorough(found: Seen) {
    assert!(found.states > 10_000 && found.cuts > 100_000, "{found:?}");
    assert!(found.done > 0 && found.refused > 0 && found.failed > 0 && found.pairs > 100_000, "{found:?}");
}

/// The same with one more generation, so that the node also migrates again after a rollback, and with more runs of two events. Takes
/// an hour.
#[test]
#[ignore = "takes an hour: `cargo test --release --test model -- --ignored --nocapture`"]
fn the_same_further_on() {
    look(3, Runtime::Unit, NEAR + 1);
    look(3, Runtime::StaticPod, NEAR + 1);
}

fn look(generations: u8, runtime: Runtime, near: u8) -> Seen {
    let search = visit(Guards::ALL, generations, runtime, near).unwrap_or_else(|broken| panic!("{broken}"));
    search.planner.printed.lock().unwrap().is_as_said();
    let found = search.seen.into_inner().unwrap();
    say!(
        "{runtime:?}: {} states, {} runs of apply and rollback from them, {} places where one was cut short: no invariant broken",
        found.states,
        found.runs,
        found.cuts
    );
    say!(
        "runs ended: {} done, {} refused, {} with an error; {} runs had two events",
        found.done,
        found.refused,
        found.failed,
        found.pairs
    );
    found
}

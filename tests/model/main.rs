//! An exhaustive model of the protocol: every state that can be reached, every step of `apply` and `rollback`, and a crash before, within
//! and after each.
//!
//! What is decided is decided by the program's own `plan`; what a step does to disk, record and stamp is [`steps`]'s,
//! effect by effect, in the order in which `apply` makes them durable. Between any two effects a run can be killed, the
//! power can go, etcd can be started by somebody else or write, the target can go.
//!
//! The world is small on purpose: one node, one LUN, few writes, few generations. What goes wrong goes wrong there too.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "each test takes what it needs")]
#[path = "../support/mod.rs"]
mod support;

mod facts;
mod mutants;
mod outside;
mod run;
#[path = "../support/say.rs"]
mod say;
mod search;
mod steps;
mod world;

use say::say;
use search::{Seen, search};
use world::Guards;

/// The protocol as it is: no state breaks an invariant. Two generations: a migration, or one that is tried again, and a
/// rollback.
#[test]
fn nothing_is_lost_and_nothing_is_stale() {
    let found = look(2);
    // A search that sees little proves little.
    assert!(found.states > 10_000 && found.cuts > 100_000, "{found:?}");
    assert!(found.done > 0 && found.refused > 0 && found.failed > 0, "{found:?}");
}

/// The same with one more: back to the LUN after a rollback, too. Takes minutes.
#[test]
#[ignore = "takes minutes: `cargo test --release --test model -- --ignored --nocapture`"]
fn the_same_further_on() {
    look(3);
}

fn look(generations: u8) -> Seen {
    let found = search(Guards::ALL, generations).unwrap_or_else(|broken| panic!("{broken}"));
    say!(
        "{} states, {} runs of apply and rollback from them, {} places where one was cut short: no invariant broken",
        found.states,
        found.runs,
        found.cuts
    );
    say!("runs ended: {} done, {} refused, {} with an error", found.done, found.refused, found.failed);
    found
}

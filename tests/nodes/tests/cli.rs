//! Tests the bed's command line without root and without a machine.
//!
//! This test also makes `cargo test` build the program, which `tests/all` then runs.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test, which runs a program")]

use std::collections::BTreeSet;
use std::process::{Command, Output};

fn bed(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bed")).args(arguments).output().unwrap()
}

fn names(only: &str) -> Vec<String> {
    let listed = bed(&["suite", "--list", "--agent", "/nowhere", "--only", only]);
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8(listed.stdout).unwrap().lines().map(String::from).collect()
}

#[test]
fn each_scenario_has_a_name_of_its_own() {
    let all = names("/");
    assert!(all.len() > 80, "{}", all.len());
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert!(all.iter().all(|name| name.contains('/')), "{all:?}");
}

#[test]
fn some_are_chosen_by_parts_of_their_names() {
    let all = names("/");
    let some = names("login/ways-in,copy/");
    assert!(some.len() > 2 && some.contains(&"login/ways-in".into()), "{some:?}");
    let wanted = |name: &&String| name.contains("login/ways-in") || name.contains("copy/");
    assert_eq!(some, all.iter().filter(wanted).cloned().collect::<Vec<_>>());
    assert_eq!(names("no such scenario"), Vec::<String>::new());
}

/// A name of the core that no scenario has any more would silently be a test less.
#[test]
fn without_a_choice_the_core_and_a_share_are_played() {
    let (all, played) = (names("/"), names(""));
    assert!(nodes::core::CORE.iter().all(|name| all.contains(&(*name).into())), "{all:?}");
    assert!(played.len() > nodes::core::CORE.len() && played.len() < all.len() / 3, "{played:?}");
}

#[test]
fn what_it_does_not_know_is_a_usage_error() {
    for wrong in
        [&["sweet"][..], &["suite"], &["shell", "--static-pod"], &["shell", "--enforcing"], &["demo"]]
    {
        let output = bed(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: bed"), "{output:?}");
    }
}

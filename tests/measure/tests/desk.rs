//! Runs the test of the desk's `oc debug`.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test, which runs a program")]

#[test]
fn oc_debug_is_like_the_real_one() {
    let test = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oc-debug");
    assert!(std::process::Command::new("python3").arg(test).status().unwrap().success());
}

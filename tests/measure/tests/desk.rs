//! Runs the tests of the desk's stand-ins.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test, which runs a program")]

#[test]
fn the_stand_ins_are_like_the_real_ones() {
    for test in ["oc-debug", "oc-and-sudo"] {
        let test = format!("{}/tests/{test}", env!("CARGO_MANIFEST_DIR"));
        assert!(std::process::Command::new("python3").arg(test).status().unwrap().success());
    }
}

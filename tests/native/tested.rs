//! The program that a test runs.

use std::{env, path::PathBuf};

const VARIABLE: &str = "ETCD_LUN_TEST_PROGRAM";

/// The program of this build, or the one that the variable names: a build for another architecture, behind a script that
/// emulates its processor (`tests/native/emulated`).
pub fn tested_program() -> PathBuf {
    env::var_os(VARIABLE).map_or_else(|| env!("CARGO_BIN_EXE_native-program").into(), PathBuf::from)
}

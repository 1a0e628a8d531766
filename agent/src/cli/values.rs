//! How the values of options are read.

use clap::builder::{PathBufValueParser, TypedValueParser};
use std::path::PathBuf;

/// Reads a path, relative to the working directory. The program itself has another base (`host::root`).
pub(super) fn absolute() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(std::path::absolute)
}

//! How a command line of the bed or of `measure` ends.

use std::process::ExitCode;

use anyhow::Result;

/// The exit code. An error is printed.
pub fn code(done: Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

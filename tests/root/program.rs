//! The program that these tests run.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main().into()
}

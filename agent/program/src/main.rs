//! The program; everything is in `cli` and the layers below it.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main().into()
}

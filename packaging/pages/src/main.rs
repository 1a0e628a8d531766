//! Makes `docs/config.md` from the fields that the config is read into.

use std::process::ExitCode;

mod keys;

fn main() -> ExitCode {
    match keys::text() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

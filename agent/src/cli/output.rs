//! Printing to standard output and standard error.

use super::exit::Exit;
use std::io::{self, Write as _};

/// How facts are printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputFormat {
    pub(super) json: bool,
}

/// The format of every JSON output.
pub(super) const JSON_VERSION: u32 = 1;

/// Prints to standard output. A reader that has gone away (`| head`) is not an error.
pub(super) fn print_out(text: &str) {
    let _ = writeln!(io::stdout(), "{}", text.trim_end());
}

/// Prints to standard error.
pub(super) fn print_err(text: &str) {
    let _ = writeln!(io::stderr(), "{}", text.trim_end());
}

/// Prints a value as JSON, beside the version of the format.
pub(super) fn print_json(kind: &str, value: &impl serde::Serialize) -> Result<(), Exit> {
    let text = serde_json::to_string_pretty(&serde_json::json!({ "version": JSON_VERSION, kind: value }))
        .map_err(anyhow::Error::from)?;
    print_out(&text);
    Ok(())
}

/// Prints a document. A full disk is an error, because half a document is useless. A reader that has gone away is not.
pub(super) fn print_document(text: &str) -> Result<(), Exit> {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Exit::Error(anyhow::Error::from(error).context("printing")))
        }
        _ => Ok(()),
    }
}

//! Printing to standard output and standard error.

use super::{document::Document, env, exit::Exit, wrapped::wrapped};
use host::terminal::{self, Stream, Terminal, reader_has_gone};
use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::OnceLock,
    time::Duration,
};

/// How facts are printed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct OutputFormat {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Writes for a run by hand, so that the run never waits for its terminal.
static TERMINAL: OnceLock<Terminal> = OnceLock::new();

/// From now on nothing that is printed waits for its reader.
pub(super) fn outlive_terminal() -> io::Result<()> {
    // A second terminal would be one too many; the first one stays.
    let _first = TERMINAL.set(Terminal::start(write_now)?);
    Ok(())
}

/// Waits for what is not printed yet, if somebody reads it.
pub(super) fn finish() {
    if let Some(terminal) = TERMINAL.get() {
        terminal.finish(FINISH_LIMIT);
    }
}

/// A terminal over a slow line takes the last lines within this time. After it nobody reads them.
const FINISH_LIMIT: Duration = Duration::from_secs(2);

fn write(stream: Stream, text: &str) -> io::Result<()> {
    match TERMINAL.get() {
        Some(terminal) => {
            terminal.write(stream, text);
            Ok(())
        }
        None => write_now(stream, text),
    }
}

/// Writes a text, and waits until it is written. An error means that nobody reads it any more.
fn write_now(stream: Stream, text: &str) -> io::Result<()> {
    match stream {
        Stream::Out => {
            let written = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
            if let Err(error) = &written
                && !reader_has_gone(error, io::stdout())
            {
                LOST.get_or_init(|| error.to_string());
            }
            written
        }
        Stream::Err => io::stderr().write_all(text.as_bytes()),
    }
}

/// True if somebody may watch the stream.
pub(super) fn is_terminal(stream: Stream) -> bool {
    match stream {
        Stream::Out => io::stdout().is_terminal(),
        Stream::Err => io::stderr().is_terminal(),
    }
}

/// Why standard output could not be written.
static LOST: OnceLock<String> = OnceLock::new();

/// Why standard output could not be written. A reader that has gone away (`| head`, a closed terminal) is no reason.
pub(super) fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Prints to standard output. If that fails, [`lost`] says why at the end of the run.
pub(super) fn print_out(text: &str) {
    let _ = write(Stream::Out, &format!("{}\n", text.trim_end()));
}

/// Prints a text in Markdown, fitted to the terminal. A pager shows what is longer than that.
pub(super) fn print_markdown(text: &str) {
    let Some((columns, rows)) = terminal::size(io::stdout()) else { return print_out(text) };
    // The sources of the documents have no longer lines, which are hard to read.
    let text = wrapped(text, columns.min(120));
    if text.lines().map(|line| line.chars().count().div_ceil(columns).max(1)).sum::<usize>() >= rows {
        // Without the pager the text is printed as it is.
        let _failed = terminal::become_pager(&env::pager(), &text);
    }
    print_out(&text);
}

/// Prints to standard error.
pub(super) fn print_err(text: &str) {
    print_err_part(&format!("{}\n", text.trim_end()));
}

/// Prints to standard error, without ending the line.
pub(super) fn print_err_part(text: &str) {
    let _ = write(Stream::Err, text);
}

/// Standard error, for log events.
#[derive(Debug)]
pub(super) struct Errors;

impl io::Write for Errors {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(Stream::Err, &String::from_utf8_lossy(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints a document with this content.
pub(super) fn print_json<T: serde::Serialize>(document: &Document<T>, content: &T) -> Result<(), Exit> {
    print_value(&document.of(content))
}

/// Prints a JSON value.
pub(super) fn print_value(value: &serde_json::Value) -> Result<(), Exit> {
    let text = serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?;
    print_out(&text);
    Ok(())
}

/// Prints a document. A full disk is an error, because half a document is useless. A reader that has gone away is not.
pub(super) fn print_document(text: &str) -> Result<(), Exit> {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if !reader_has_gone(&error, io::stdout()) => {
            Err(Exit::Error(anyhow::Error::from(error).context("printing")))
        }
        _ => Ok(()),
    }
}

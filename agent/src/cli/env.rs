//! The only code that reads environment variables and arguments.
#![allow(clippy::disallowed_methods)] // the only allowed place

use crate::host::notify;

/// A variable's value, if it is set and UTF-8.
pub(super) fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The arguments, without the program's name.
pub(super) fn arguments() -> impl Iterator<Item = std::ffi::OsString> {
    std::env::args_os().skip(1)
}

/// True if our standard error leads to the journal. A shell in a unit inherits the variable but may have redirected the stream.
/// So the stream itself is compared.
pub(super) fn under_systemd() -> bool {
    var("JOURNAL_STREAM").is_some_and(|stream| notify::is_journal(std::io::stderr(), &stream))
}

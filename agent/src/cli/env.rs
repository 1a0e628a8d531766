//! The environment, read here and nowhere else.
#![allow(clippy::disallowed_methods)] // this is the place

use crate::host::notify;

/// A variable's value, when it is set to UTF-8.
pub(super) fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The command line, without the program's name.
pub(super) fn arguments() -> impl Iterator<Item = std::ffi::OsString> {
    std::env::args_os().skip(1)
}

/// Whether our standard error leads to the journal. A shell inside a unit inherits the variable
/// and may have redirected the stream, so the stream itself is compared.
pub(super) fn under_systemd() -> bool {
    var("JOURNAL_STREAM").is_some_and(|stream| notify::is_journal(std::io::stderr(), &stream))
}

//! The only code that reads environment variables and arguments.
#![allow(clippy::disallowed_methods)] // the only allowed place

use host::terminal;

/// The environment variables, and what each does.
pub const ENVIRONMENT: [(&str, &str); 3] = [
    ("ETCD_LUN_LOG", "The level of the log: error, warn, info, debug, trace or off"),
    ("NO_COLOR", "Print no colours if it is set and not empty; so does TERM=dumb"),
    ("PAGER", "Shows a long text of explain on a terminal; cat for none"),
];

/// A variable's value, if it is set and UTF-8.
pub(super) fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What shows a text that is longer than the terminal, as a command for a shell: `$PAGER`, or less where there is less, as with
/// git(1).
pub(super) fn pager() -> String {
    match var("PAGER").as_deref() {
        None => "command -v less >/dev/null || exec cat; exec less -FRX".into(),
        Some(pager) => format!("{} || cat", if pager.is_empty() { "cat" } else { pager }),
    }
}

/// The arguments, without the program's name.
pub(super) fn arguments() -> impl Iterator<Item = std::ffi::OsString> {
    std::env::args_os().skip(1)
}

/// The whole command line.
pub(super) fn command_line() -> impl Iterator<Item = std::ffi::OsString> {
    std::env::args_os()
}

/// True unless somebody asked for no colours (no-color.org), or the terminal has none.
pub(super) fn wants_colour() -> bool {
    var("NO_COLOR").is_none_or(|value| value.is_empty()) && !is_dumb()
}

/// True for a terminal that cannot move its cursor. Progress is then printed in whole lines only.
pub(super) fn is_dumb() -> bool {
    var("TERM").is_some_and(|term| term == "dumb")
}

/// True if our standard error leads to the journal. A shell in a unit inherits the variable but may have redirected the stream.
/// So the stream itself is compared.
pub(super) fn under_systemd() -> bool {
    var("JOURNAL_STREAM").is_some_and(|stream| terminal::is_journal(std::io::stderr(), &stream))
}

//! Sends log events to the journal under systemd, and to standard error elsewhere. A run by hand sends them to both, because
//! its terminal may be gone before it ends.

use super::{
    env::{self, under_systemd},
    events,
    exit::Exit,
    failure::failure,
    output::{Errors, print_err, print_out},
};
use tracing::{level_filters::LevelFilter, subscriber::set_global_default};
use tracing_subscriber::{Layer as _, layer::SubscriberExt as _, registry};

/// Installs the subscriber. `ETCD_LUN_LOG` sets the level, such as `debug` or `trace`. Steps are logged at `info`. `both` is
/// for a run by hand, `helper` for what does a request: its domain does not reach the journal's socket. A wrong level is an error:
/// nobody would find the lines that were asked for.
pub(super) fn install(both: bool, helper: bool) -> Result<(), String> {
    let level = match env::var("ETCD_LUN_LOG") {
        None => LevelFilter::INFO,
        Some(level) => level.parse().map_err(|_| {
            format!("ETCD_LUN_LOG: `{level}` is not a level: set it to error, warn, info, debug, trace or off, or unset it")
        })?,
    };
    let journal = || tracing_journald::layer().map(|journal| journal.with_field_prefix(None));
    // On a terminal the progress lines already say what info events say.
    let shown = if level == LevelFilter::INFO { LevelFilter::WARN } else { level };
    let is_unit = under_systemd();
    // If a subscriber is installed already, that one stays.
    let _installed = if is_unit && helper {
        set_global_default(registry().with(level).with(events::lines(events::Leveled, false)))
    } else if is_unit && let Ok(journal) = journal() {
        set_global_default(registry().with(level).with(journal))
    } else if both && let Ok(journal) = journal() {
        let lines = events::lines(|| Errors, true).with_filter(shown);
        set_global_default(registry().with(level).with(journal).with(lines))
    } else {
        set_global_default(registry().with(shown).with(events::lines(|| Errors, true)))
    };
    Ok(())
}

/// Prints why the program failed, on standard error. This is also done under systemd: journald may not know the unit of an
/// entry that a process sends just before it ends. `systemctl status` would then lack the reason (systemd.exec(5),
/// `StandardError=`). The prefix is the level (sd-daemon(3)).
pub(super) fn report_failure(exit: &Exit, json: bool) {
    let Some(line) = exit.line() else { return };
    let level = if under_systemd() { "<3>" } else { "" };
    // Each line is an entry of the journal.
    for line in line.lines() {
        print_err(&format!("{level}{line}"));
    }
    // A run that was followed has said this to the journal itself.
    if !matches!(exit, Exit::Followed(_)) {
        note_end(&line);
    }
    if json {
        report_failure_as_json(exit);
    }
}

/// Says in the journal how the program has ended. What a unit prints is there already.
pub(super) fn note_end(text: &str) {
    if !under_systemd() {
        tracing::info!("ended: {text}");
    }
}

/// Prints why the program failed as JSON, on standard output.
pub(super) fn report_failure_as_json(exit: &Exit) {
    if let Some(document) = failure(exit) {
        print_out(&document.to_string());
    }
}

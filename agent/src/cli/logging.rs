//! Where log events go: the journal under systemd, standard error elsewhere, and never both.

use super::{
    Exit,
    env::{self, under_systemd},
    events,
};
use tracing::{level_filters::LevelFilter, subscriber::set_global_default};
use tracing_subscriber::{layer::SubscriberExt as _, registry};

/// Installs the subscriber. `ETCD_LUN_LOG` sets the level (`debug`, `trace`); steps are `info`.
pub(super) fn install() {
    let level = env::var("ETCD_LUN_LOG").and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::INFO);
    if under_systemd()
        && let Ok(journal) = tracing_journald::layer()
    {
        // Fails where there is one already, which stays.
        let _installed = set_global_default(registry().with(level).with(journal.with_field_prefix(None)));
        return;
    }
    // The progress lines say what info events say; only what is rarer comes through.
    let level = if level == LevelFilter::INFO { LevelFilter::WARN } else { level };
    let _installed = set_global_default(registry().with(level).with(events::lines(std::io::stderr)));
}

/// The line that a person reads last, on standard error. Under systemd too: what a process sends to the journal itself just
/// before it ends may come too late to be told whose it is, and `systemctl status` would lack the one line that says why
/// (systemd.exec(5), `StandardError=`). The prefix is the level (sd-daemon(3)).
pub(super) fn last_word(exit: &Exit, json: bool) {
    let Some(line) = exit.line().filter(|line| !line.trim_end_matches("error: ").is_empty()) else { return };
    let level = if under_systemd() { "<3>" } else { "" };
    super::complain(&format!("{level}{line}"));
    if !json {
        return;
    }
    let (kind, detail) = match exit {
        // The report is on standard output already.
        Exit::Success | Exit::Unhealthy(_) => return,
        Exit::Error(error) => ("error", serde_json::json!(format!("{error:#}"))),
        Exit::Usage(text) => ("error", serde_json::json!(text)),
        Exit::Refused(refusal) => ("refused", serde_json::json!(refusal)),
    };
    super::say(
        &serde_json::json!({ "version": super::JSON_VERSION, kind: detail, "message": line }).to_string(),
    );
}

//! The errors of talking to PID 1 over the bus, and their messages.

use crate::exec::one_line;
use std::{io, time::Duration};
use terms::{ErrorName, Named};
use zbus::DBusError as _;

/// Why a request to PID 1 failed.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// There is no bus to talk to.
    #[error("connecting to the system bus at {path}; is it running? (`systemctl status dbus.socket`)")]
    NoBus {
        /// The socket.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// PID 1 knows no such unit.
    #[error("there is no unit {unit}: install it, then `systemctl daemon-reload`")]
    NoSuchUnit {
        /// The unit.
        unit: String,
    },
    /// The job has ended, and the unit is not as it should be.
    #[error("{doing} {unit} failed: it is `{state}` now (`{result}`); see `journalctl -u {unit}`")]
    JobFailed {
        /// The job's act, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
        /// The unit's state.
        state: String,
        /// The result of its last run (`exit-code`, `timeout`, `success`), or its finer state where it has no result.
        result: String,
    },
    /// The time limit was reached. A queued job continues in systemd.
    #[error("{doing} {unit} did not end within {} s; see `systemctl status {unit}` and `systemctl list-jobs`", .limit.as_secs())]
    TimedOut {
        /// The act, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
        /// The limit.
        limit: Duration,
    },
    /// This program was interrupted. A queued job continues in systemd.
    #[error("interrupted while {doing} {unit}")]
    Interrupted {
        /// The act, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
    },
    /// Access was denied: the caller is not root, or SELinux denies it.
    #[error("{doing} is not allowed: {said}; run as root, and see `ausearch -m user_avc,avc -ts recent`")]
    Denied {
        /// The act, and its unit.
        doing: String,
        /// The answer of the bus or of PID 1.
        said: String,
    },
    /// Everything else: masked, conflicting, garbled.
    #[error("{doing}: {said}")]
    Other {
        /// The act, and its unit.
        doing: String,
        /// The answer of the bus or of PID 1.
        said: String,
    },
}

impl Named for SystemdError {
    fn name(&self) -> Option<ErrorName> {
        Some(match self {
            Self::Interrupted { .. } => ErrorName::Interrupted,
            _ => ErrorName::SystemdFailed,
        })
    }
}

/// Why work failed without an error reply.
#[derive(Debug, thiserror::Error)]
enum Broken {
    /// The connection ended.
    #[error("the connection to the bus broke: {0}; try again, and see `systemctl status dbus.socket`")]
    Lost(zbus::Error),
    /// The bus does not accept this process.
    #[error("{0}; run as root, and see `systemctl status dbus.socket`")]
    NotLetIn(zbus::Error),
    /// An answer of another type, or one that is not D-Bus.
    #[error("what came over the bus cannot be read: {0}; please report it, with `systemctl --version`")]
    Unreadable(zbus::Error),
}

/// Returns the error of work that was about to do `doing` with `unit`.
pub(super) fn explain(error: zbus::Error, doing: &str, unit: &str) -> SystemdError {
    let whole = format!("{doing} {unit}");
    let Some((name, said)) = reply(&error) else {
        return SystemdError::Other { doing: whole, said: one_line(&broken(error).to_string()) };
    };
    let said = one_line(said);
    match name.as_str() {
        "org.freedesktop.systemd1.NoSuchUnit" => SystemdError::NoSuchUnit { unit: unit.to_owned() },
        "org.freedesktop.DBus.Error.AccessDenied"
        | "org.freedesktop.DBus.Error.AuthFailed"
        | "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired" => {
            SystemdError::Denied { doing: whole, said }
        }
        _ => SystemdError::Other { doing: whole, said: format!("{said} ({name})") },
    }
}

/// Returns true if PID 1 has no connection at this moment, as during `systemctl daemon-reexec`, which keeps its jobs.
pub(super) fn is_reexecuting(error: &zbus::Error) -> bool {
    let Some((name, _)) = reply(error) else { return false };
    let gone = ["NoReply", "ServiceUnknown", "NameHasNoOwner"];
    name.strip_prefix("org.freedesktop.DBus.Error.")
        .is_some_and(|name| gone.contains(&name) || name.starts_with("Spawn."))
}

/// The name of an error reply, and what it says.
fn reply(error: &zbus::Error) -> Option<(String, &str)> {
    let (name, said) = match error {
        zbus::Error::MethodError(name, said, _) => (name.to_string(), said.as_deref()),
        zbus::Error::FDO(error) => (error.name().to_string(), error.description()),
        _ => return None,
    };
    Some((name, said.unwrap_or_default()))
}

fn broken(error: zbus::Error) -> Broken {
    match error {
        zbus::Error::InputOutput(_) => Broken::Lost(error),
        zbus::Error::Handshake(_) => Broken::NotLetIn(error),
        _ => Broken::Unreadable(error),
    }
}

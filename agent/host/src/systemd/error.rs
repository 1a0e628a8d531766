//! The errors of talking to PID 1 over the bus, and their messages.

use crate::exec::one_line;
use std::{io, time::Duration};
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
    /// The job did not end with the result `done`.
    #[error("{doing} {unit}: the job ended as `{result}`; see `journalctl -u {unit}`")]
    JobFailed {
        /// What the job was to do, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
        /// As systemd says it: `failed`, `timeout`, `dependency`, `canceled` and others.
        result: String,
    },
    /// The time limit was reached. A queued job continues in systemd.
    #[error("{doing} {unit} did not end within {} s; see `systemctl status {unit}` and `systemctl list-jobs`", .limit.as_secs())]
    TimedOut {
        /// What was to be done, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
        /// The limit.
        limit: Duration,
    },
    /// This program was interrupted. A queued job continues in systemd.
    #[error("interrupted while {doing} {unit}")]
    Interrupted {
        /// What was to be done, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
    },
    /// Access was denied: the caller is not root, or SELinux denies it.
    #[error("{doing} is not allowed: {said}; run as root, and see `ausearch -m user_avc,avc -ts recent`")]
    Denied {
        /// What was to be done, and with which unit.
        doing: String,
        /// What the bus or PID 1 said.
        said: String,
    },
    /// Everything else: masked, conflicting, garbled.
    #[error("{doing}: {said}")]
    Other {
        /// What was to be done, and with which unit.
        doing: String,
        /// What the bus or PID 1 said.
        said: String,
    },
}

/// Why a conversation failed without an error reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The connection ended.
    #[error("the connection to the bus broke: {0}; try again, and see `systemctl status dbus.socket`")]
    Lost(zbus::Error),
    /// The bus does not accept this process.
    #[error("{0}; run as root, and see `systemctl status dbus.socket`")]
    NotLetIn(zbus::Error),
    /// An answer of another type, or one that is not D-Bus.
    #[error("what came over the bus cannot be read: {0}; please report it, with `systemctl --version`")]
    Unreadable(zbus::Error),
    /// Signals came faster than they were taken.
    #[error("more signals came than can be kept; try again")]
    Flooded,
    /// A name that no message can carry; zbus would send it, and the bus would hang up.
    #[error("an argument holds a null character")]
    Null,
}

/// What an error of zbus means for a conversation that is about to do `doing` with `unit`.
pub(super) fn explain(error: zbus::Error, doing: &str, unit: &str) -> SystemdError {
    let whole = format!("{doing} {unit}");
    let (name, said) = match &error {
        zbus::Error::MethodError(name, said, _) => (name.as_str().to_owned(), said.as_deref()),
        zbus::Error::FDO(error) => (error.name().as_str().to_owned(), error.description()),
        _ => return SystemdError::Other { doing: whole, said: one_line(&broken(error).to_string()) },
    };
    let said = one_line(said.unwrap_or_default());
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

fn broken(error: zbus::Error) -> Broken {
    match error {
        zbus::Error::InputOutput(_) => Broken::Lost(error),
        zbus::Error::Handshake(_) => Broken::NotLetIn(error),
        _ => Broken::Unreadable(error),
    }
}

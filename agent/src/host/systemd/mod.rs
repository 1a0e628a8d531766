//! Units, asked for and started through PID 1's D-Bus interface: org.freedesktop.systemd1(5), as
//! of systemd 252.
//!
//! Each function connects, asks and hangs up. A connection that is kept would be read by nobody
//! while this program copies for minutes, and be thrown out by the bus for the signals that it
//! doesn't take.

mod bus;
pub mod dbus;
mod job;
mod unit;

pub use unit::{MountProperties, Unit};

use super::Host;
use bus::Bus;
use dbus::Reader;
use job::Verb;
use std::{io, time::Duration};

/// How long a question may take. It is libdbus's own limit for the answer to a call.
const ASK_LIMIT: Duration = Duration::from_secs(25);

/// Why PID 1 did not do or tell what it was asked for.
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
    /// The job ended otherwise than well.
    #[error("{doing} {unit}: the job ended as `{result}`; see `journalctl -u {unit}`")]
    JobFailed {
        /// What the job was to do, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
        /// As systemd says it: `failed`, `timeout`, `dependency`, `canceled` and others.
        result: String,
    },
    /// It took too long. A job that was queued goes on.
    #[error("{doing} {unit} did not end within {} s; see `systemctl status {unit}` and `systemctl list-jobs`", .limit.as_secs())]
    TimedOut {
        /// What was to be done, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
        /// The limit.
        limit: Duration,
    },
    /// Somebody asked this program to stop. A job that was queued goes on.
    #[error("interrupted while {doing} {unit}")]
    Interrupted {
        /// What was to be done, a gerund.
        doing: &'static str,
        /// The unit.
        unit: String,
    },
    /// We may not: not root, or SELinux.
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

/// What PID 1 knows of a unit; it loads the unit for that, if it has to.
///
/// A unit that is not installed is no error: see [`Unit::exists`]. Not interrupted, 25 s at most.
pub fn unit(host: &Host, name: &str) -> Result<Unit, SystemdError> {
    let doing = "asking for";
    host.wait(async {
        let asked = async { unit::read(&mut Bus::connect(host, doing, name).await?, name).await };
        let late = |_| SystemdError::TimedOut { doing, unit: name.to_owned(), limit: ASK_LIMIT };
        tokio::time::timeout(ASK_LIMIT, asked).await.map_err(late)?
    })
}

/// Starts a unit and waits until its job has ended. Well for a unit that runs already.
///
/// It ends well, too, for a unit whose `Condition…=` did not hold: ask [`unit`] what came of it.
pub fn start(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    run(host, Verb::Start, name, limit)
}

/// Queues the start of a unit and does not wait: the unit may be ordered after the caller's own.
/// 25 s at most.
pub fn queue_start(host: &Host, name: &str) -> Result<(), SystemdError> {
    ask(host, "starting", name, "StartUnit", &[name, "replace"])
}

/// Stops a unit and waits until its job has ended. Well for a unit that doesn't run.
pub fn stop(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    run(host, Verb::Stop, name, limit)
}

/// Stops and starts a unit and waits until its job has ended. Starts a unit that doesn't run.
pub fn restart(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    run(host, Verb::Restart, name, limit)
}

/// Forgets that a unit failed, and with it the count of its starts (`StartLimitBurst=`). Well for a
/// unit that is not there or has not failed. 25 s at most.
pub fn reset_failed(host: &Host, name: &str) -> Result<(), SystemdError> {
    match ask(host, "resetting the failed state of", name, "ResetFailedUnit", &[name]) {
        Err(SystemdError::NoSuchUnit { .. }) => Ok(()),
        done => done,
    }
}

/// Whether the system is on its way down: the manager's `SystemState` (org.freedesktop.systemd1(5)). 25 s at most.
pub fn is_stopping(host: &Host) -> Result<bool, SystemdError> {
    let (doing, of) = ("asking for the state of", "the system");
    host.wait(async {
        let asked = async {
            let mut bus = Bus::connect(host, doing, of).await?;
            let told = bus.properties(bus::MANAGER_PATH, bus::MANAGER).await?;
            let told = told.properties().map_err(|error| bus.explain(error.into()))?;
            let state = unit::value(&told, "SystemState", "s", Reader::text);
            state.map(|state| state == "stopping").map_err(|said| bus.confused(said))
        };
        let late = |_| SystemdError::TimedOut { doing, unit: of.into(), limit: ASK_LIMIT };
        tokio::time::timeout(ASK_LIMIT, asked).await.map_err(late)?
    })
}

/// Has PID 1 read the unit files anew, and with them their labels. 25 s at most.
pub fn reload(host: &Host) -> Result<(), SystemdError> {
    ask(host, "reloading", "systemd", "Reload", &[])
}

/// A call whose answer is that it was done.
fn ask(
    host: &Host,
    doing: &'static str,
    name: &str,
    method: &str,
    arguments: &[&str],
) -> Result<(), SystemdError> {
    host.wait(async {
        let call = async { Bus::connect(host, doing, name).await?.call(method, arguments).await.map(drop) };
        let late = |_| SystemdError::TimedOut { doing, unit: name.to_owned(), limit: ASK_LIMIT };
        tokio::time::timeout(ASK_LIMIT, call).await.map_err(late)?
    })
}

fn run(host: &Host, verb: Verb, name: &str, limit: Duration) -> Result<(), SystemdError> {
    host.wait(job::run(host, verb, name, limit, host.interrupt.requested()))
}

#[cfg(test)]
mod tests;

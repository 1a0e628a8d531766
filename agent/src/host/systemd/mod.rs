//! Units, asked for and started through PID 1's D-Bus interface: org.freedesktop.systemd1(5), as
//! of systemd 252.
//!
//! Each function connects, asks and hangs up. A connection that is kept would be read by nobody
//! while this program copies for minutes, and be thrown out by the bus for the signals that it
//! doesn't take.

mod bus;
mod job;
mod proxies;
mod removals;
mod socket;
mod unit;

pub use unit::{MountProperties, Unit};

use super::Host;
use bus::{Bus, converse};
use job::Verb;
use proxies::ManagerProxy;
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
    within(ASK_LIMIT, "asking for", name, async |doing| {
        unit::read(&Bus::connect(host, doing, name).await?, name).await
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
    ask(host, "starting", name, async |manager| manager.start_unit(name, "replace").await.map(drop))
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
    let doing = "resetting the failed state of";
    match ask(host, doing, name, async |manager| manager.reset_failed_unit(name).await) {
        Err(SystemdError::NoSuchUnit { .. }) => Ok(()),
        done => done,
    }
}

/// Whether the system is on its way down: the manager's `SystemState` (org.freedesktop.systemd1(5)). 25 s at most.
pub fn is_stopping(host: &Host) -> Result<bool, SystemdError> {
    let state =
        ask(host, "asking for the state of", "the system", async |manager| manager.system_state().await);
    state.map(|state| state == "stopping")
}

/// Has PID 1 read the unit files anew, and with them their labels. 25 s at most.
pub fn reload(host: &Host) -> Result<(), SystemdError> {
    ask(host, "reloading", "systemd", async |manager| manager.reload().await)
}

/// One call of the manager.
fn ask<T>(
    host: &Host,
    doing: &'static str,
    name: &str,
    call: impl AsyncFnOnce(ManagerProxy<'static>) -> zbus::Result<T>,
) -> Result<T, SystemdError> {
    within(ASK_LIMIT, doing, name, async |doing| {
        let bus = Bus::connect(host, doing, name).await?;
        call(bus.manager().await?).await.map_err(|error| bus.explain(error))
    })
}

/// A conversation that ends in time, the connecting included.
fn within<T>(
    limit: Duration,
    doing: &'static str,
    name: &str,
    conversation: impl AsyncFnOnce(&'static str) -> Result<T, SystemdError>,
) -> Result<T, SystemdError> {
    converse(async {
        let late = |_| SystemdError::TimedOut { doing, unit: name.to_owned(), limit };
        tokio::time::timeout(limit, conversation(doing)).await.map_err(late)?
    })
}

fn run(host: &Host, verb: Verb, name: &str, limit: Duration) -> Result<(), SystemdError> {
    converse(job::run(host, verb, name, limit, host.interrupt.requested()))
}

#[cfg(test)]
mod tests;

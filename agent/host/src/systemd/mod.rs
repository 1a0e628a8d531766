//! Units, asked for and started through PID 1's D-Bus interface: org.freedesktop.systemd1(5), as
//! of systemd 252.
//!
//! Each function opens a connection, sends its request and closes the connection. While this program copies data for
//! minutes, it would not read an open connection. The bus would then close it, because unread signals fill its queue.

mod bus;
mod conversation;
mod error;
mod job;
mod proxies;
mod removals;
mod socket;
mod unit;

pub use error::SystemdError;
pub use unit::{MountProperties, Unit};

use super::Host;
use bus::Bus;
use conversation::Conversation;
use job::Verb;
use std::time::Duration;

/// Reads what PID 1 knows about a unit. PID 1 loads the unit if it is not loaded.
///
/// A unit that is not installed is not an error: see [`Unit::exists`]. Not interruptible. Time limit: 25 s.
pub fn unit(host: &Host, name: &str) -> Result<Unit, SystemdError> {
    unit::read(&ask(host, "asking for", name)?, name)
}

/// Reads what PID 1 knows about several units, over one connection: see [`unit`]. Each has a time limit of its own. None is read after
/// one that systemd did not answer about in time. An error of its own if there is no connection.
pub fn units(host: &Host, names: &[&str]) -> Result<Vec<Result<Unit, SystemdError>>, SystemdError> {
    let Some(first) = names.first() else { return Ok(Vec::new()) };
    let mut bus = ask(host, "asking for", first)?;
    let mut said = Vec::new();
    for name in names {
        let read = bus.about(name).and_then(|bus| unit::read(bus, name));
        let is_silent = matches!(read, Err(SystemdError::TimedOut { .. }));
        said.push(read);
        if is_silent {
            break;
        }
    }
    Ok(said)
}

/// Starts a unit and waits until its job has ended. Succeeds for a unit that runs already.
///
/// Also succeeds for a unit whose `Condition…=` did not hold. Use [`unit`] to see whether it runs.
pub fn start(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    job::run(host, Verb::Start, name, limit)
}

/// Queues the start of a unit and does not wait, because the unit may be ordered after the caller's own. Time limit: 25 s.
pub fn queue_start(host: &Host, name: &str) -> Result<(), SystemdError> {
    let bus = ask(host, "starting", name)?;
    bus.conversation.wait(bus.manager.start_unit(name, "replace")).map(drop)
}

/// Stops a unit and waits until its job has ended. Succeeds for a unit that does not run.
pub fn stop(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    job::run(host, Verb::Stop, name, limit)
}

/// Stops and starts a unit and waits until its job has ended. A unit that does not run is started.
pub fn restart(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    job::run(host, Verb::Restart, name, limit)
}

/// Makes a scope, moves this process into its cgroup and waits until that is done. Fails if a unit of that name is active.
/// The process keeps everything else: terminal, namespaces, SELinux domain. Programs that it starts later are in the scope
/// too. Time limit: 25 s.
pub fn enter_scope(host: &Host, name: &str, description: &str) -> Result<(), SystemdError> {
    job::run(host, Verb::Scope { description }, name, conversation::ASK_LIMIT)
}

/// Resets a unit's failed state and the count of its starts (`StartLimitBurst=`). Succeeds for a unit that does not exist
/// or has not failed. Time limit: 25 s.
pub fn reset_failed(host: &Host, name: &str) -> Result<(), SystemdError> {
    let bus = ask(host, "resetting the failed state of", name)?;
    match bus.conversation.wait(bus.manager.reset_failed_unit(name)) {
        Err(SystemdError::NoSuchUnit { .. }) => Ok(()),
        done => done,
    }
}

/// Whether the system is shutting down: the manager's `SystemState` (org.freedesktop.systemd1(5)). Time limit: 25 s.
pub fn is_stopping(host: &Host) -> Result<bool, SystemdError> {
    Ok(ask(host, "asking for the state of", "the system")?.system_state()? == "stopping")
}

/// Tells PID 1 to reload the unit files and their SELinux labels. Time limit: 25 s.
pub fn reload(host: &Host) -> Result<(), SystemdError> {
    let bus = ask(host, "reloading", "systemd")?;
    bus.conversation.wait(bus.manager.reload())
}

/// A connection for one question.
fn ask<'h>(host: &Host, doing: &'static str, unit: &'h str) -> Result<Bus<'h>, SystemdError> {
    Bus::connect(host, Conversation::ask(doing, unit)?)
}

#[cfg(test)]
mod tests;

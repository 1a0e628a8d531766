//! Units, asked for and started through PID 1's D-Bus interface: org.freedesktop.systemd1(5), as
//! of systemd 252.
//!
//! Each function connects, asks and hangs up. A connection that is kept would be read by nobody
//! while this program copies for minutes, and be thrown out by the bus for the signals that it
//! doesn't take.

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

/// What PID 1 knows of a unit; it loads the unit for that, if it has to.
///
/// A unit that is not installed is no error: see [`Unit::exists`]. Not interrupted, 25 s at most.
pub fn unit(host: &Host, name: &str) -> Result<Unit, SystemdError> {
    unit::read(&ask(host, "asking for", name)?, name)
}

/// Starts a unit and waits until its job has ended. Well for a unit that runs already.
///
/// It ends well, too, for a unit whose `Condition…=` did not hold: ask [`unit`] what came of it.
pub fn start(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    job::run(host, Verb::Start, name, limit)
}

/// Queues the start of a unit and does not wait: the unit may be ordered after the caller's own.
/// 25 s at most.
pub fn queue_start(host: &Host, name: &str) -> Result<(), SystemdError> {
    let bus = ask(host, "starting", name)?;
    bus.conversation.wait(bus.manager.start_unit(name, "replace")).map(drop)
}

/// Stops a unit and waits until its job has ended. Well for a unit that doesn't run.
pub fn stop(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    job::run(host, Verb::Stop, name, limit)
}

/// Stops and starts a unit and waits until its job has ended. Starts a unit that doesn't run.
pub fn restart(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    job::run(host, Verb::Restart, name, limit)
}

/// Forgets that a unit failed, and with it the count of its starts (`StartLimitBurst=`). Well for a
/// unit that is not there or has not failed. 25 s at most.
pub fn reset_failed(host: &Host, name: &str) -> Result<(), SystemdError> {
    let bus = ask(host, "resetting the failed state of", name)?;
    match bus.conversation.wait(bus.manager.reset_failed_unit(name)) {
        Err(SystemdError::NoSuchUnit { .. }) => Ok(()),
        done => done,
    }
}

/// Whether the system is on its way down: the manager's `SystemState` (org.freedesktop.systemd1(5)). 25 s at most.
pub fn is_stopping(host: &Host) -> Result<bool, SystemdError> {
    Ok(ask(host, "asking for the state of", "the system")?.system_state()? == "stopping")
}

/// Has PID 1 read the unit files anew, and with them their labels. 25 s at most.
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

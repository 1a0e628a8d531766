//! Units, asked for and started through PID 1's D-Bus interface: org.freedesktop.systemd1(5), as of systemd 252.
//!
//! Each function opens a connection, sends its request and closes the connection. While this program copies data for
//! minutes, it would not read an open connection. The bus would then close it, because unread messages fill its queue.
//!
//! The end of a job is seen by looking at its unit. Any process on the bus can send systemd's signal of it (`JobRemoved`), and
//! at boot very many come.

mod bus;
mod error;
mod unit;

pub use error::SystemdError;
pub use unit::Unit;

use super::Host;
use bus::{ASK_LIMIT, Bus, Task, wait};
use std::time::Duration;
use zbus::Variant;

/// How often a unit is looked at while it has a job.
const LOOK: Duration = Duration::from_millis(100);
/// As systemctl does: the job replaces queued jobs of the unit that conflict with it.
const REPLACE: &str = "replace";

/// Reads what PID 1 knows about a unit. PID 1 loads the unit if it is not loaded.
///
/// A unit that is not installed is not an error: see [`Unit::exists`]. Not interruptible. Time limit: 25 s.
pub fn unit(host: &Host, name: &str) -> Result<Unit, SystemdError> {
    Task::ask("asking for", name).run(host, async |bus| bus.unit(name).await)
}

/// Reads what PID 1 knows about several units, over one connection: see [`unit`]. Each has a time limit of its own. None is
/// read after one that systemd did not answer about in time. Returns an error if there is no connection.
pub fn units(host: &Host, names: &[&str]) -> Result<Vec<Result<Unit, SystemdError>>, SystemdError> {
    let Some(first) = names.first() else { return Ok(Vec::new()) };
    let ask = |name| Task::ask("asking for", name);
    wait(host, async {
        let bus = ask(first).connect(host).await?;
        let mut found = Vec::new();
        for name in names {
            found.push(ask(name).read(&bus).await);
            if let Some(Err(SystemdError::TimedOut { .. })) = found.last() {
                break;
            }
        }
        Ok(found)
    })
}

/// Starts a unit and waits until its job has ended. Succeeds for a unit that runs already. Fails for one that does not run
/// afterwards, also because a `Condition…=` of it did not hold.
pub fn start(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    let queue = async |bus: &Bus| bus.manager.start_unit(name, REPLACE).await.map(drop);
    job(host, "starting", name, limit, queue, Unit::is_active)
}

/// Restarts a unit, or starts one that does not run, and waits until its job has ended.
pub fn restart(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    let queue = async |bus: &Bus| bus.manager.restart_unit(name, REPLACE).await.map(drop);
    job(host, "restarting", name, limit, queue, Unit::is_active)
}

/// Queues the start of a unit and does not wait, because the unit may be ordered after the caller's own. Time limit: 25 s.
pub fn queue_start(host: &Host, name: &str) -> Result<(), SystemdError> {
    Task::ask("starting", name).run(host, async |bus| bus.manager.start_unit(name, REPLACE).await.map(drop))
}

/// Stops a unit and waits until its job has ended. Succeeds for a unit that does not run.
pub fn stop(host: &Host, name: &str, limit: Duration) -> Result<(), SystemdError> {
    let queue = async |bus: &Bus| bus.manager.stop_unit(name, REPLACE).await.map(drop);
    job(host, "stopping", name, limit, queue, Unit::is_stopped)
}

/// Makes a scope, moves this process into its cgroup and waits until that is done. Fails if a unit of that name is active.
/// The process keeps everything else: terminal, namespaces, SELinux domain. Programs that it starts later are in the scope
/// too. Time limit: 25 s.
pub fn enter_scope(host: &Host, name: &str, description: &str) -> Result<(), SystemdError> {
    let properties = [
        // 0 is the caller: PID 1 asks the bus for its process id (systemd `src/core/dbus-scope.c`). The id that this process
        // knows may be that of another PID namespace.
        ("PIDs", Variant::from(vec![0_u32])),
        ("Description", Variant::from(description)),
        // A scope that failed is forgotten too. Otherwise its name would stay taken.
        ("CollectMode", Variant::from("inactive-or-failed")),
    ];
    let queue =
        async |bus: &Bus| bus.manager.start_transient_unit(name, "fail", &properties, &[]).await.map(drop);
    job(host, "making", name, ASK_LIMIT, queue, Unit::is_active)
}

/// Resets a unit's failed state and the count of its starts (`StartLimitBurst=`). Succeeds for a unit that does not exist
/// or has not failed. Time limit: 25 s.
pub fn reset_failed(host: &Host, name: &str) -> Result<(), SystemdError> {
    let task = Task::ask("resetting the failed state of", name);
    match task.run(host, async |bus| bus.manager.reset_failed_unit(name).await) {
        Err(SystemdError::NoSuchUnit { .. }) => Ok(()),
        done => done,
    }
}

/// Returns true if the system is shutting down: the manager's `SystemState` (org.freedesktop.systemd1(5)). Time limit: 25 s.
pub fn is_stopping(host: &Host) -> Result<bool, SystemdError> {
    let task = Task::ask("asking for the state of", "the system");
    Ok(task.run(host, async |bus| bus.manager.system_state().await)? == "stopping")
}

/// Tells PID 1 to reload the unit files and their SELinux labels. Time limit: 25 s.
pub fn reload(host: &Host) -> Result<(), SystemdError> {
    Task::ask("reloading", "systemd").run(host, async |bus| bus.manager.reload().await)
}

/// Queues a job, waits until the unit has none, for the limit or for the interrupt, and then looks whether it is done.
fn job(
    host: &Host,
    doing: &'static str,
    unit: &str,
    limit: Duration,
    queue: impl AsyncFnOnce(&Bus) -> zbus::Result<()>,
    is_done: impl FnOnce(&Unit) -> bool,
) -> Result<(), SystemdError> {
    let task = Task { doing, unit, limit, interrupt: Some(&host.interrupt) };
    let after = task.run(host, async |bus| {
        queue(bus).await?;
        loop {
            match bus.unit(unit).await {
                Ok(unit) if !unit.job_pending => return Ok(unit),
                Err(error) if !error::is_reexecuting(&error) => return Err(error),
                Ok(_) | Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    })?;
    match is_done(&after) {
        true => Ok(()),
        false => Err(SystemdError::JobFailed {
            doing,
            unit: unit.to_owned(),
            state: after.active_state,
            result: after.result.unwrap_or(after.sub_state),
        }),
    }
}

#[cfg(test)]
mod tests;

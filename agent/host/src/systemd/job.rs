//! Queues a job and waits until it has ended.

use super::{
    bus::Bus,
    conversation::Conversation,
    error::SystemdError,
    proxies::{JobRemoved, ManagerProxy},
    removals::Removals,
};
use crate::Host;
use std::time::Duration;
use zbus::{OwnedObjectPath, Variant, names::OwnedUniqueName};

/// What a job does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verb<'a> {
    /// `systemctl start`.
    Start,
    /// `systemctl stop`.
    Stop,
    /// `systemctl restart`.
    Restart,
    /// `systemd-run --scope`, for this process.
    Scope {
        /// What `systemctl status` shows beside the name.
        description: &'a str,
    },
}

impl Verb<'_> {
    /// Mode "replace", as systemctl uses it: the job replaces queued jobs of the unit that conflict with it.
    async fn queue(self, manager: &ManagerProxy<'_>, name: &str) -> zbus::Result<OwnedObjectPath> {
        match self {
            Self::Start => manager.start_unit(name, "replace").await,
            Self::Stop => manager.stop_unit(name, "replace").await,
            Self::Restart => manager.restart_unit(name, "replace").await,
            Self::Scope { description } => {
                let properties = vec![
                    // 0 is the caller: PID 1 asks the bus for its process id (systemd `src/core/dbus-scope.c`). The id
                    // that this process knows may be that of another PID namespace.
                    ("PIDs", Variant::from(vec![0_u32])),
                    ("Description", Variant::from(description)),
                    // A scope that failed is forgotten too. Otherwise its name would stay taken.
                    ("CollectMode", Variant::from("inactive-or-failed")),
                ];
                manager.start_transient_unit(name, "fail", &properties, &[]).await
            }
        }
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Start => "starting",
            Self::Stop => "stopping",
            Self::Restart => "restarting",
            Self::Scope { .. } => "making",
        }
    }
}

/// Queues a job and waits for its end, for the limit or for the interrupt, whichever is first.
pub(super) fn run(host: &Host, verb: Verb<'_>, name: &str, limit: Duration) -> Result<(), SystemdError> {
    let doing = verb.doing();
    let conversation = Conversation::begin(doing, name, limit, Some(&host.interrupt))?;
    match result(&Bus::connect(host, conversation)?, verb, name)?.as_str() {
        "done" => Ok(()),
        result => Err(SystemdError::JobFailed { doing, unit: name.to_owned(), result: result.to_owned() }),
    }
}

/// Queues a job, waits, and returns the job's result.
fn result(bus: &Bus<'_>, verb: Verb<'_>, name: &str) -> Result<String, SystemdError> {
    // Before the call: a job may have ended before its path is known here.
    let mut removals = Removals::listen(bus)?;
    removals.during(bus.manager.subscribe())?;
    let systemd = removals.during(bus.owner_of_systemd())?;
    let job = removals.during(verb.queue(&bus.manager, name))?;
    loop {
        let signal = removals.next()?;
        let result = match signal.args() {
            Ok(removed) if *removed.job() == *job => removed.result().to_string(),
            _ => continue, // it belongs to another job, or PID 1 did not send it
        };
        if is_from_systemd(bus, &mut removals, &signal, &systemd)? {
            return Ok(result);
        }
    }
}

/// Whether PID 1 sent a signal. Any process on the bus could send one.
///
/// PID 1's connection may have changed since the call, because `systemctl daemon-reexec` makes a new one.
fn is_from_systemd(
    bus: &Bus<'_>,
    removals: &mut Removals<'_>,
    signal: &JobRemoved,
    before: &OwnedUniqueName,
) -> Result<bool, SystemdError> {
    let header = signal.message().header();
    let Some(sender) = header.sender() else { return Ok(false) };
    Ok(**before == *sender || *removals.during(bus.owner_of_systemd())? == *sender)
}

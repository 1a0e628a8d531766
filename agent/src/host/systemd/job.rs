//! A job: queued, and waited for until its very end.

use super::{
    SystemdError,
    bus::Bus,
    proxies::{JobRemoved, ManagerProxy},
    removals::Removals,
};
use crate::host::Host;
use std::{future::Future, time::Duration};
use zbus::{OwnedObjectPath, names::OwnedUniqueName};

/// What a job does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verb {
    /// `systemctl start`.
    Start,
    /// `systemctl stop`.
    Stop,
    /// `systemctl restart`.
    Restart,
}

impl Verb {
    /// "replace": what is queued for the unit and conflicts with this job goes, as systemctl has it.
    async fn queue(self, manager: &ManagerProxy<'_>, name: &str) -> zbus::Result<OwnedObjectPath> {
        match self {
            Self::Start => manager.start_unit(name, "replace").await,
            Self::Stop => manager.stop_unit(name, "replace").await,
            Self::Restart => manager.restart_unit(name, "replace").await,
        }
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Start => "starting",
            Self::Stop => "stopping",
            Self::Restart => "restarting",
        }
    }
}

/// Queues a job and waits for its end, for the limit or for the interrupt, whichever is first.
pub(super) async fn run(
    host: &Host,
    verb: Verb,
    name: &str,
    limit: Duration,
    interrupted: impl Future<Output = ()>,
) -> Result<(), SystemdError> {
    let (doing, unit) = (verb.doing(), name.to_owned());
    tokio::select! {
        biased; // an interrupt that is already there leaves nothing queued
        () = interrupted => Err(SystemdError::Interrupted { doing, unit }),
        () = tokio::time::sleep(limit) => Err(SystemdError::TimedOut { doing, unit, limit }),
        result = job(host, verb, name) => match result?.as_str() {
            "done" => Ok(()),
            result => Err(SystemdError::JobFailed { doing, unit, result: result.to_owned() }),
        },
    }
}

/// Queues a job; its result.
async fn job(host: &Host, verb: Verb, name: &str) -> Result<String, SystemdError> {
    let bus = Bus::connect(host, verb.doing(), name).await?;
    let manager = bus.manager().await?;
    // Before the call: a job may have ended before its path is known here.
    let mut removals = Removals::listen(&bus).await?;
    removals.during(manager.subscribe()).await?;
    let systemd = removals.during(bus.owner_of_systemd()).await?;
    let job = removals.during(verb.queue(&manager, name)).await?;
    loop {
        let signal = removals.next().await?;
        let result = match signal.args() {
            Ok(removed) if *removed.job() == *job => removed.result().to_string(),
            _ => continue, // another job's, or of a form that isn't PID 1's
        };
        if is_from_systemd(&bus, &mut removals, &signal, &systemd).await? {
            return Ok(result);
        }
    }
}

/// Whether a signal is PID 1's: anybody on the bus may send us one.
///
/// Its connection may be another than the one that had the name before the call; `systemctl daemon-reexec`
/// makes a new one.
async fn is_from_systemd(
    bus: &Bus,
    removals: &mut Removals<'_>,
    signal: &JobRemoved,
    before: &OwnedUniqueName,
) -> Result<bool, SystemdError> {
    let header = signal.message().header();
    let Some(sender) = header.sender() else { return Ok(false) };
    Ok(**before == *sender || *removals.during(bus.owner_of_systemd()).await? == *sender)
}

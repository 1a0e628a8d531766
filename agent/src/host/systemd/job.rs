//! A job: queued, and waited for until its very end.

use super::{
    SystemdError,
    bus::Bus,
    dbus::{Garbled, Message},
};
use crate::host::Host;
use std::{future::Future, time::Duration};

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
    fn method(self) -> &'static str {
        match self {
            Self::Start => "StartUnit",
            Self::Stop => "StopUnit",
            Self::Restart => "RestartUnit",
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
    let mut bus = Bus::connect(host, verb.doing(), name).await?;
    // Before the call: a job may have ended before its path is known here.
    bus.listen_to_jobs().await?;
    bus.call("Subscribe", &[]).await?;
    // "replace": what is queued for the unit and conflicts with this job goes, as systemctl has it.
    let reply = bus.call(verb.method(), &[name, "replace"]).await?;
    let path = reply.body("o").and_then(|mut body| body.path());
    let path = path.map_err(|error| bus.explain(error.into()))?;
    loop {
        let signal = bus.signal().await?;
        let Ok((job, result)) = ended(&signal) else {
            continue; // a signal of another form isn't PID 1's
        };
        if job == path && is_from_systemd(&mut bus, &signal, &reply).await? {
            return Ok(result.to_owned());
        }
    }
}

/// Which job has ended, and how.
fn ended(signal: &Message) -> Result<(&str, &str), Garbled> {
    let mut body = signal.body("uoss")?;
    let (_id, job, _unit, result) = (body.number()?, body.path()?, body.text()?, body.text()?);
    Ok((job, result))
}

/// Whether a signal is PID 1's: anybody on the bus may send us one.
///
/// Its connection may be another than the one that took the call; `systemctl daemon-reexec`
/// makes a new one.
async fn is_from_systemd(bus: &mut Bus, signal: &Message, reply: &Message) -> Result<bool, SystemdError> {
    let Some(sender) = &signal.sender else { return Ok(false) };
    Ok(Some(sender) == reply.sender.as_ref() || *sender == bus.owner_of_systemd().await?)
}

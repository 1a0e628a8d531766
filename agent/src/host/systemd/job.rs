//! A job: queued, and waited for until its very end.

use super::{
    SystemdError,
    bus::{Bus, MANAGER, MANAGER_PATH, SYSTEMD},
};
use crate::host::Host;
use futures_core::Stream;
use std::{future::Future, pin::Pin, time::Duration};
use zbus::{MatchRule, Message, MessageStream, ObjectPath, OwnedObjectPath, message::Type};

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
    let bus = Bus::connect(host, verb.doing(), name).await?;
    // Before the call: a job may have ended before its path is known here.
    let mut signals = removed_jobs(&bus).await?;
    bus.call("Subscribe", &()).await?;
    // "replace": what is queued for the unit and conflicts with this job goes, as systemctl has it.
    let arguments = (name, "replace");
    let mut call = Box::pin(bus.call(verb.method(), &arguments));
    let mut ended: Vec<Message> = Vec::new();
    // Signals are taken while the call waits: at boot more jobs end than the connection queues,
    // and behind a full queue the reply would never be read.
    let reply = loop {
        tokio::select! {
            reply = &mut call => break reply?,
            signal = next(&mut signals) => ended.push(signal.map_err(|said| bus.confused(said))?),
        }
    };
    let path: OwnedObjectPath = reply.body().deserialize().map_err(|error| bus.explain(&error))?;
    let mut ended = ended.into_iter();
    loop {
        let signal = match ended.next() {
            Some(signal) => signal,
            None => next(&mut signals).await.map_err(|said| bus.confused(said))?,
        };
        let body = signal.body();
        let Ok((_id, job, _unit, result)) = body.deserialize::<(u32, ObjectPath<'_>, &str, &str)>() else {
            continue; // a signal of another form isn't PID 1's
        };
        if job == *path && is_from_systemd(&bus, &signal, &reply).await? {
            return Ok(result.to_owned());
        }
    }
}

/// Whether a signal is PID 1's: anybody on the bus may send us one.
///
/// Its connection may be another than the one that took the call; `systemctl daemon-reexec`
/// makes a new one.
async fn is_from_systemd(bus: &Bus, signal: &Message, reply: &Message) -> Result<bool, SystemdError> {
    let (signal, reply) = (signal.header(), reply.header());
    let Some(sender) = signal.sender() else { return Ok(false) };
    Ok(Some(sender) == reply.sender() || sender.as_str() == bus.owner_of_systemd().await?)
}

async fn removed_jobs(bus: &Bus) -> Result<MessageStream, SystemdError> {
    let rule = MatchRule::builder().msg_type(Type::Signal).sender(SYSTEMD).path(MANAGER_PATH);
    let rule = rule.interface(MANAGER).member("JobRemoved").build().map_err(|error| bus.explain(&error))?;
    MessageStream::for_match_rule(rule, &bus.connection, None).await.map_err(|error| bus.explain(&error))
}

async fn next(signals: &mut MessageStream) -> Result<Message, String> {
    match std::future::poll_fn(|context| Pin::new(&mut *signals).poll_next(context)).await {
        Some(Ok(signal)) => Ok(signal),
        Some(Err(error)) => Err(format!("listening on the system bus: {error}")),
        None => Err("the system bus has closed the connection".into()),
    }
}

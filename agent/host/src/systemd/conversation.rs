//! One conversation over the bus: its purpose, its time limit and its runtime.

use super::{
    error::{SystemdError, explain},
    socket::SOCKET,
};
use crate::{Interrupt, exec::one_line};
use std::{
    future::{Future, pending},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

/// How long a question may take. It is libdbus's own limit for the answer to a call.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(25);

/// A conversation that ends in time, the connecting included.
///
/// zbus reads its socket in a task. A task that is dropped lives on until its runtime runs again. So each conversation has
/// its own runtime in this thread. When the runtime ends, every task ends and the socket is closed, also after a time limit.
#[derive(Debug)]
pub(super) struct Conversation<'h> {
    runtime: Runtime,
    interrupt: Option<&'h Interrupt>,
    limit: Duration,
    end: Instant,
    doing: &'static str,
    unit: &'h str,
}

impl<'h> Conversation<'h> {
    /// A question: 25 s at most, not interrupted. `doing` is a gerund: what is about to be done with `unit`.
    pub(super) fn ask(doing: &'static str, unit: &'h str) -> Result<Self, SystemdError> {
        Self::begin(doing, unit, ASK_LIMIT, None)
    }

    /// As [`Conversation::ask`], with the limit and the interrupt that end it early.
    pub(super) fn begin(
        doing: &'static str,
        unit: &'h str,
        limit: Duration,
        interrupt: Option<&'h Interrupt>,
    ) -> Result<Self, SystemdError> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|source| SystemdError::NoBus { path: SOCKET.into(), source })?;
        Ok(Self { runtime, interrupt, limit, end: Instant::now() + limit, doing, unit })
    }

    /// Goes on with another unit, and with the whole limit.
    pub(super) fn about(&mut self, unit: &'h str) {
        self.unit = unit;
        self.end = Instant::now() + self.limit;
    }

    /// What the conversation is about.
    pub(super) fn unit(&self) -> &'h str {
        self.unit
    }

    /// Waits for work, for the limit or for the interrupt, whichever is first.
    pub(super) fn wait<T>(&self, work: impl Future<Output = zbus::Result<T>>) -> Result<T, SystemdError> {
        self.wait_beside(work, pending())
    }

    /// Waits for work as [`Conversation::wait`] does, and for an error of what must go on meanwhile.
    pub(super) fn wait_beside<T>(
        &self,
        work: impl Future<Output = zbus::Result<T>>,
        beside: impl Future<Output = SystemdError>,
    ) -> Result<T, SystemdError> {
        let (doing, unit) = (self.doing, self.unit.to_owned());
        let interrupted = async {
            match self.interrupt {
                Some(interrupt) => interrupt.requested().await,
                None => pending().await,
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                biased; // an interrupt that is already there leaves nothing queued
                () = interrupted => Err(SystemdError::Interrupted { doing, unit }),
                () = tokio::time::sleep_until(self.end) => {
                    Err(SystemdError::TimedOut { doing, unit, limit: self.limit })
                }
                done = work => done.map_err(|error| self.explain(error)),
                error = beside => Err(error),
            }
        })
    }

    /// What an error of this conversation means.
    pub(super) fn explain(&self, error: zbus::Error) -> SystemdError {
        explain(error, self.doing, self.unit)
    }

    /// The error for an unexpected answer.
    pub(super) fn confused(&self, said: String) -> SystemdError {
        SystemdError::Other { doing: one_line(&format!("{} {}", self.doing, self.unit)), said }
    }
}

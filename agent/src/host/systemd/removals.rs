//! The ends of jobs, as PID 1 tells them.

use super::{
    SystemdError,
    bus::{Broken, Bus, MANAGER, MANAGER_PATH, SYSTEMD},
    proxies::JobRemoved,
};
use futures_core::Stream;
use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::{Pin, pin},
};
use zbus::{MatchRule, Message, MessageStream, message::Type};

/// How much is kept while a call waits. dbus-daemon's limit for one message (`max_message_size` in its
/// `bus/config-parser.c`); thousands of jobs end in a hundredth of it.
pub(super) const KEPT_MAX: usize = 32 << 20;

/// The signals `JobRemoved` that come over a connection.
///
/// zbus queues 64 of them and then reads nothing more from its socket, so the answer to a call would wait behind them
/// for ever. At boot more jobs than that end at once. Signals are therefore taken while a call waits, and kept.
#[derive(Debug)]
pub(super) struct Removals<'b> {
    bus: &'b Bus,
    stream: MessageStream,
    kept: VecDeque<Message>,
    size: usize,
}

impl<'b> Removals<'b> {
    /// From here on they come.
    pub(super) async fn listen(bus: &'b Bus) -> Result<Self, SystemdError> {
        let asked = async {
            let rule = MatchRule::builder().msg_type(Type::Signal).sender(SYSTEMD).path(MANAGER_PATH);
            let rule = rule.interface(MANAGER).member("JobRemoved").build()?;
            MessageStream::for_match_rule(rule, &bus.connection, None).await
        };
        let stream = asked.await.map_err(|error| bus.explain(error))?;
        Ok(Self { bus, stream, kept: VecDeque::new(), size: 0 })
    }

    /// Waits for a call, and keeps the signals that come meanwhile.
    pub(super) async fn during<T>(
        &mut self,
        call: impl Future<Output = zbus::Result<T>>,
    ) -> Result<T, SystemdError> {
        let mut call = pin!(call);
        loop {
            tokio::select! {
                biased; // the answer, once it is there
                answer = &mut call => return answer.map_err(|error| self.bus.explain(error)),
                signal = next(&mut self.stream) => self.keep(self.signal(signal)?)?,
            }
        }
    }

    /// The next of them. Anyone on the bus may have sent it to this connection: zbus does not compare its sender with the
    /// owner of systemd's name.
    pub(super) async fn next(&mut self) -> Result<JobRemoved, SystemdError> {
        loop {
            let signal = match self.kept.pop_front() {
                Some(signal) => {
                    self.size -= signal.data().len();
                    signal
                }
                None => {
                    let signal = next(&mut self.stream).await;
                    self.signal(signal)?
                }
            };
            if let Some(removed) = JobRemoved::from_message(signal) {
                return Ok(removed);
            }
        }
    }

    fn keep(&mut self, signal: Message) -> Result<(), SystemdError> {
        self.size += signal.data().len();
        if self.size > KEPT_MAX {
            return Err(self.bus.confused(Broken::Flooded.to_string()));
        }
        self.kept.push_back(signal);
        Ok(())
    }

    fn signal(&self, signal: Option<zbus::Result<Message>>) -> Result<Message, SystemdError> {
        let closed =
            || Err(zbus::Error::InputOutput(std::sync::Arc::new(std::io::ErrorKind::BrokenPipe.into())));
        signal.unwrap_or_else(closed).map_err(|error| self.bus.explain(error))
    }
}

async fn next(stream: &mut MessageStream) -> Option<zbus::Result<Message>> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

//! PID 1's signals that a job has ended (`JobRemoved`).

use super::{
    bus::{Bus, MANAGER, MANAGER_PATH, SYSTEMD},
    conversation::Conversation,
    error::{Broken, SystemdError},
    proxies::JobRemoved,
};
use futures_util::StreamExt as _;
use std::{collections::VecDeque, future::Future, io, sync::Arc};
use zbus::{MatchRule, Message, MessageStream, message::Type};

/// The limit, in bytes, of the signals that are kept while a call waits. It is dbus-daemon's limit for one message
/// (`max_message_size` in its `bus/config-parser.c`). The signals of thousands of jobs need a hundredth of it.
pub(super) const KEPT_MAX: usize = 32 << 20;

/// The signals `JobRemoved` that come over a connection.
///
/// zbus's own stream of a signal (`receive_job_removed`) queues 64 and then stops reading the socket, so the answer to a call
/// would never arrive (zbus 6.2, `socket_reader.rs`). At boot more than 64 jobs end at the same time. A longer queue would be
/// limited by number, and any process on the bus can send large signals. So they are taken and kept while a call waits.
#[derive(Debug)]
pub(super) struct Removals<'b> {
    conversation: &'b Conversation<'b>,
    stream: MessageStream,
    kept: VecDeque<Message>,
    size: usize,
}

impl<'b> Removals<'b> {
    /// Subscribes to the signals.
    pub(super) fn listen(bus: &'b Bus<'b>) -> Result<Self, SystemdError> {
        let stream = bus.conversation.wait(async {
            let rule = MatchRule::builder().msg_type(Type::Signal).sender(SYSTEMD).path(MANAGER_PATH);
            let rule = rule.interface(MANAGER).member("JobRemoved").build()?;
            MessageStream::for_match_rule(rule, &bus.connection, None).await
        })?;
        Ok(Self { conversation: &bus.conversation, stream, kept: VecDeque::new(), size: 0 })
    }

    /// Waits for a call, and keeps the signals that come meanwhile.
    pub(super) fn during<T>(
        &mut self,
        call: impl Future<Output = zbus::Result<T>>,
    ) -> Result<T, SystemdError> {
        self.conversation.wait_beside(call, self.keep())
    }

    /// The next signal. The caller must check the sender: any process on the bus can send it, and zbus does not compare the
    /// sender with the owner of systemd's name.
    pub(super) fn next(&mut self) -> Result<JobRemoved, SystemdError> {
        loop {
            let signal = match self.kept.pop_front() {
                Some(signal) => {
                    self.size -= signal.data().len();
                    signal
                }
                None => self.conversation.wait(next(&mut self.stream))?,
            };
            if let Some(removed) = JobRemoved::from_message(signal) {
                return Ok(removed);
            }
        }
    }

    /// Keeps the signals that arrive, until an error ends the stream or the limit is reached.
    async fn keep(&mut self) -> SystemdError {
        loop {
            match next(&mut self.stream).await {
                Ok(signal) => {
                    self.size += signal.data().len();
                    if self.size > KEPT_MAX {
                        return self.conversation.confused(Broken::Flooded.to_string());
                    }
                    self.kept.push_back(signal);
                }
                Err(error) => return self.conversation.explain(error),
            }
        }
    }
}

async fn next(stream: &mut MessageStream) -> zbus::Result<Message> {
    let closed = || Err(zbus::Error::InputOutput(Arc::new(io::ErrorKind::BrokenPipe.into())));
    stream.next().await.unwrap_or_else(closed)
}

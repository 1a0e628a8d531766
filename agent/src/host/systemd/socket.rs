//! The socket of a connection to the bus.
//!
//! zbus has a socket of its own, and this one differs in three ways. It bounds the first line of the handshake: zbus
//! 6.2 would keep a line without an end, and it panics at a line that begins with its end. It takes no file descriptors,
//! which anyone on the bus could send. It shuts nothing down, which the confined domain may not.

use std::{io, os::fd::BorrowedFd, os::fd::OwnedFd, sync::Arc};
use tokio::net::UnixStream;
use zbus::connection::socket::{BoxedSplit, ReadHalf, Split, WriteHalf};

/// Where the bus listens. Not `$DBUS_SYSTEM_BUS_ADDRESS`: whom root asks to start units must not
/// depend on who calls.
pub(super) const SOCKET: &str = "/run/dbus/system_bus_socket";

/// The first line is `OK` and 32 digits, or the names of mechanisms.
const LINE_MAX: usize = 1024;

/// A stream as zbus takes it.
pub(super) fn split(stream: UnixStream) -> BoxedSplit {
    let stream = Arc::new(stream);
    let reader = Reader { stream: Arc::clone(&stream), line: Some(0) };
    Split::new(Box::new(reader), Box::new(Writer { stream }))
}

#[derive(Debug)]
struct Reader {
    stream: Arc<UnixStream>,
    /// How much of the first line has come, until it has ended.
    line: Option<usize>,
}

impl Reader {
    fn check(&mut self, read: &[u8]) -> io::Result<()> {
        let Some(before) = self.line else { return Ok(()) };
        let end = read.iter().position(|&byte| byte == b'\n');
        let length = before + end.unwrap_or(read.len());
        if length > LINE_MAX || (length == 0 && end.is_some()) {
            let kind = io::ErrorKind::InvalidData;
            return Err(io::Error::new(kind, "the handshake's first line is empty or has no end"));
        }
        self.line = if end.is_some() { None } else { Some(length) };
        Ok(())
    }
}

#[async_trait::async_trait]
impl ReadHalf for Reader {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.check(buffer.get(..length).unwrap_or_default())?;
                    return Ok((length, Vec::new()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[derive(Debug)]
struct Writer {
    stream: Arc<UnixStream>,
}

#[async_trait::async_trait]
impl WriteHalf for Writer {
    async fn sendmsg(&mut self, bytes: &[u8], _: &[BorrowedFd<'_>]) -> io::Result<usize> {
        loop {
            self.stream.writable().await?;
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }

    /// Nothing to do: the socket is closed with its last owner, at the end of the conversation.
    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

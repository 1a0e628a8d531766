//! The socket of a connection to the bus, in place of zbus's own, for three reasons:
//!
//! - zbus 6.2 panics at a first line that begins with a line feed (`recv_buffer[lf_index - 1]` in its
//!   `connection/handshake/common.rs`, `read_commands`), and keeps an endless line in memory. A broken bus must be an error.
//! - zbus accepts file descriptors, which any process on the bus could send.
//! - zbus calls shutdown(2) when it closes the socket, and the confined domain has no right to it.

use std::{io, os::fd::BorrowedFd, os::fd::OwnedFd, sync::Arc};
use tokio::net::UnixStream;
use zbus::connection::socket::{BoxedSplit, ReadHalf, Split, WriteHalf};

/// The socket of the system bus. `$DBUS_SYSTEM_BUS_ADDRESS` is not used: the caller must not decide which process gets
/// root's requests to start units.
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

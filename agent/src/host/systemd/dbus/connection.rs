//! A connection to a bus: let in, asking, listening.

use super::{Call, DbusError, Garbled, Kind, LENGTH_MAX, Message, message::START};
use std::collections::VecDeque;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

/// The bus itself ("Message Bus Specification").
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
/// A line of the handshake is a word and 32 digits, or the names of mechanisms.
const LINE_MAX: usize = 1024;

/// A signal to be listened for.
#[derive(Debug, Clone, Copy)]
pub struct Signal {
    /// Whose: a name on the bus, which is also why that sender is only who the bus routes it for.
    pub sender: &'static str,
    /// Of which object.
    pub path: &'static str,
    /// Of which interface.
    pub interface: &'static str,
    /// Which.
    pub member: &'static str,
}

/// A connection. Signals that were asked for are kept while a call waits for its answer.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    serial: u32,
    listened: Option<Signal>,
    kept: VecDeque<Message>,
    kept_bytes: usize,
}

impl Connection {
    /// Has the bus let us in as the user we are ("Authentication Protocol": EXTERNAL, and no file descriptors).
    pub async fn open(mut stream: UnixStream) -> Result<Self, DbusError> {
        // The user's number in decimal, and each digit's character in hexadecimal.
        let user = nix::unistd::geteuid().to_string();
        let user: String = user.bytes().map(|digit| format!("{digit:x}")).collect();
        // The null byte carries the credentials.
        stream.write_all(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes()).await?;
        let line = line(&mut stream).await?;
        if !line.starts_with("OK ") {
            return Err(DbusError::NotLetIn(line));
        }
        stream.write_all(b"BEGIN\r\n").await?;
        let mut bus = Self { stream, serial: 0, listened: None, kept: VecDeque::new(), kept_bytes: 0 };
        bus.ask_bus("Hello", &[]).await?;
        Ok(bus)
    }

    /// Calls a method of the bus itself and waits for the answer.
    pub async fn ask_bus(&mut self, method: &str, arguments: &[&str]) -> Result<Message, DbusError> {
        self.call(&Call { destination: BUS, path: BUS_PATH, interface: BUS, method, arguments }).await
    }

    /// Calls a method and waits for the answer.
    pub async fn call(&mut self, call: &Call<'_>) -> Result<Message, DbusError> {
        // Never zero ("Message Format"), and of no two calls that wait at once.
        self.serial = self.serial.wrapping_add(1).max(1);
        self.stream.write_all(&call.message(self.serial)?).await?;
        loop {
            let message = self.read().await?;
            match message.kind {
                Kind::Return if message.reply_serial == Some(self.serial) => return Ok(message),
                Kind::Error if message.reply_serial == Some(self.serial) => {
                    let said = message.text();
                    return Err(DbusError::Refused { name: message.error_name.unwrap_or_default(), said });
                }
                // Kept, not left in the socket: at boot more jobs end than a socket holds, and behind them the answer
                // would never be read.
                _ if self.is_listened_for(&message) => {
                    self.kept_bytes += message.size();
                    if self.kept_bytes > LENGTH_MAX {
                        return Err(DbusError::Flooded);
                    }
                    self.kept.push_back(message);
                }
                _ => {}
            }
        }
    }

    /// From here on a signal comes, and no other.
    pub async fn listen(&mut self, signal: Signal) -> Result<(), DbusError> {
        let Signal { sender, path, interface, member } = signal;
        self.listened = Some(signal);
        // "Match Rules".
        let rule = format!(
            "type='signal',sender='{sender}',path='{path}',interface='{interface}',member='{member}'"
        );
        self.ask_bus("AddMatch", &[&rule]).await.map(drop)
    }

    /// The next signal that was asked for. Anybody on the bus may have sent it, to us alone.
    pub async fn signal(&mut self) -> Result<Message, DbusError> {
        if let Some(message) = self.kept.pop_front() {
            self.kept_bytes -= message.size();
            return Ok(message);
        }
        loop {
            let message = self.read().await?;
            if self.is_listened_for(&message) {
                return Ok(message);
            }
        }
    }

    fn is_listened_for(&self, message: &Message) -> bool {
        self.listened.is_some_and(|Signal { path, interface, member, .. }| {
            message.kind == Kind::Signal
                && message.path.as_deref() == Some(path)
                && message.interface.as_deref() == Some(interface)
                && message.member.as_deref() == Some(member)
        })
    }

    async fn read(&mut self) -> Result<Message, DbusError> {
        let mut start = [0; START];
        self.stream.read_exact(&mut start).await?;
        let length = Message::length(&start)?;
        let mut bytes = Vec::from(start);
        // Grows with what comes, not by what was announced.
        let mut rest = (&mut self.stream).take((length - START) as u64);
        rest.read_to_end(&mut bytes).await?;
        if bytes.len() < length {
            return Err(Garbled("it ends in the middle").into());
        }
        Ok(Message::parse(bytes)?)
    }
}

/// One line of the handshake, byte by byte: what follows isn't its.
async fn line(stream: &mut UnixStream) -> Result<String, DbusError> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() >= LINE_MAX {
            return Err(Garbled("a line of the handshake has no end").into());
        }
        line.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

//! Telling systemd how far we are: sd_notify(3).

use super::exec::one_line;
use std::{
    io,
    os::{
        fd::AsFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

/// Where messages to the service manager go, or nowhere.
///
/// Sending never fails to the caller: what the manager is told is for people, and work must not
/// end because nobody listens.
#[derive(Debug, Clone, Default)]
pub struct Notify {
    address: Option<SocketAddr>,
}

/// How long a full socket may hold us up.
const SEND_LIMIT: Duration = Duration::from_secs(1);

/// Whether a stream is the one that `$JOURNAL_STREAM` names: device and inode number in decimal,
/// with a colon between (systemd.exec(5)).
pub fn is_journal(stream: impl AsFd, journal_stream: &str) -> bool {
    let found = rustix::fs::fstat(stream);
    found.is_ok_and(|found| journal_stream == format!("{}:{}", found.st_dev, found.st_ino))
}

impl Notify {
    /// One that speaks to the socket named by `$NOTIFY_SOCKET`, a path or `@` and an abstract
    /// name; silent without one, or with one of another family.
    pub fn new(notify_socket: Option<&str>) -> Self {
        let address = notify_socket.and_then(|name| match parse(name) {
            Ok(address) => Some(address),
            Err(error) => {
                tracing::debug!("NOTIFY_SOCKET={}: {error}", one_line(name));
                None
            }
        });
        Self { address }
    }

    /// What is being done, in one line: `systemctl status` shows it.
    pub fn status(&self, text: &str) {
        self.send(&format!("STATUS={}\n", one_line(text)));
    }

    /// Asks that the time limits of start, run or stop not strike within `more` from now
    /// (`EXTEND_TIMEOUT_USEC`); to be repeated before it is over.
    pub fn extend(&self, more: Duration) {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}\n", more.as_micros()));
    }

    /// Start-up is finished (for `Type=notify`), and what `systemctl status` shall show from here.
    pub fn ready(&self, text: &str) {
        self.send(&format!("READY=1\nSTATUS={}\n", one_line(text)));
    }

    fn send(&self, message: &str) {
        let Some(address) = &self.address else { return };
        let attempt = || {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(SEND_LIMIT))?;
            socket.send_to_addr(message.as_bytes(), address)
        };
        if let Err(error) = attempt() {
            tracing::debug!("notifying the service manager: {error}");
        }
    }
}

fn parse(name: &str) -> io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None if name.starts_with('/') => SocketAddr::from_pathname(name),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor an abstract name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(buffer.get(..length).unwrap()).into_owned()
    }

    #[test]
    fn by_path_and_by_abstract_name() {
        let name = format!("etcd-lun-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let bound = [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
                format!("@{name}"),
            ),
        ];
        for (socket, name) in &bound {
            let notify = Notify::new(Some(name));
            notify.status("copying\nMAINPID=1 \u{1b}[1m");
            assert_eq!(received(socket), "STATUS=copying; MAINPID=1 [1m\n");
            notify.extend(Duration::from_secs(90));
            assert_eq!(received(socket), "EXTEND_TIMEOUT_USEC=90000000\n");
            notify.ready("done");
            assert_eq!(received(socket), "READY=1\nSTATUS=done\n");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn silent_when_nobody_listens() {
        let long = format!("/{}", "x".repeat(200));
        for name in [None, Some(""), Some("vsock:2:1234"), Some("/nonexistent/notify"), Some(long.as_str())] {
            Notify::new(name).status("nothing");
        }
    }
}

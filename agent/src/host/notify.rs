//! Telling systemd how far we are: sd_notify(3).

use super::exec::one_line;
use sd_notify::NotifyState;
use std::{
    io,
    os::{
        fd::AsFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

/// Where messages to the service manager go, or nowhere.
///
/// Sending never fails to the caller: what the manager is told is for people, and work must not
/// end because nobody listens.
#[derive(Debug, Clone, Default)]
pub struct Notify {
    socket: Option<Socket>,
    /// Whether a message waits for room in a full socket.
    waiting: Arc<AtomicBool>,
}

/// What `$NOTIFY_SOCKET` names.
#[derive(Debug, Clone)]
enum Socket {
    /// A file, which sd_notify finds by the variable itself.
    File,
    /// An abstract name, which sd_notify 0.5 takes for that of a file.
    Abstract(SocketAddr),
}

/// One message.
#[derive(Debug, Clone)]
enum Word {
    Status(String),
    Extend(Duration),
    Ready(String),
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
        let socket = notify_socket.and_then(|name| match parse(name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::debug!("NOTIFY_SOCKET={}: {error}", one_line(name));
                None
            }
        });
        Self { socket, waiting: Arc::default() }
    }

    /// What is being done, in one line: `systemctl status` shows it.
    pub fn status(&self, text: &str) {
        self.send(Word::Status(one_line(text)));
    }

    /// Asks that the time limits of start, run or stop not strike within `more` from now
    /// (`EXTEND_TIMEOUT_USEC`); to be repeated before it is over.
    pub fn extend(&self, more: Duration) {
        self.send(Word::Extend(more));
    }

    /// Start-up is finished (for `Type=notify`), and what `systemctl status` shall show from here.
    pub fn ready(&self, text: &str) {
        self.send(Word::Ready(one_line(text)));
    }

    /// Sends from another thread: sd_notify waits without a limit while the manager's socket is full, and it stays full
    /// when PID 1 has crashed. The message then waits there, and later ones are left out.
    fn send(&self, word: Word) {
        let Some(socket) = self.socket.clone() else { return };
        if self.waiting.swap(true, Ordering::SeqCst) {
            return tracing::debug!("the service manager does not read what it is told");
        }
        let waiting = Arc::clone(&self.waiting);
        let (sent, done) = mpsc::sync_channel(1);
        let sender = std::thread::Builder::new().name("notify".into()).spawn(move || {
            let result = socket.send(&word);
            waiting.store(false, Ordering::SeqCst);
            sent.send(result).ok();
        });
        match sender.map(|_| done.recv_timeout(SEND_LIMIT)) {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::debug!("notifying the service manager: {error}"),
            Ok(Err(_)) => tracing::debug!("the service manager does not read what it is told"),
            Err(error) => {
                self.waiting.store(false, Ordering::SeqCst);
                tracing::debug!("starting a thread to notify the service manager: {error}");
            }
        }
    }
}

impl Socket {
    fn send(&self, word: &Word) -> io::Result<()> {
        let long;
        let states = match word {
            Word::Status(text) => vec![NotifyState::Status(text)],
            Word::Ready(text) => vec![NotifyState::Ready, NotifyState::Status(text)],
            Word::Extend(more) => match u32::try_from(more.as_micros()) {
                Ok(more) => vec![NotifyState::ExtendTimeoutUsec(more)],
                // More than 71 minutes, for which sd_notify has no number.
                Err(_) => {
                    long = format!("EXTEND_TIMEOUT_USEC={}", more.as_micros());
                    vec![NotifyState::Custom(&long)]
                }
            },
        };
        match self {
            Self::File => sd_notify::notify(&states),
            Self::Abstract(address) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect_addr(address)?;
                let message: String = states.iter().map(|state| format!("{state}\n")).collect();
                socket.send(message.as_bytes()).map(drop)
            }
        }
    }
}

fn parse(name: &str) -> io::Result<Socket> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name).map(Socket::Abstract),
        None if name.starts_with('/') => SocketAddr::from_pathname(name).map(|_| Socket::File),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor an abstract name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        process::{Command, Stdio},
        time::Instant,
    };

    const LONG: Duration = Duration::from_secs(7200);

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(buffer.get(..length).unwrap()).into_owned()
    }

    /// Runs an ignored test of this module in a process of its own, with the variable set: sd_notify reads it itself.
    fn with_socket(name: &str, test: &str) {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program);
        child.args(["--ignored", "--exact", &format!("host::notify::tests::{test}")]);
        let done = child.env("NOTIFY_SOCKET", name).stdout(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
    }

    fn notify() -> Notify {
        Notify::new(std::env::var("NOTIFY_SOCKET").ok().as_deref())
    }

    #[test]
    #[ignore = "another test runs it with $NOTIFY_SOCKET set"]
    fn says_all() {
        let notify = notify();
        notify.status("copying\nMAINPID=1 \u{1b}[1m");
        notify.extend(Duration::from_secs(90));
        notify.extend(LONG);
        notify.ready("done");
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
            with_socket(name, "says_all");
            assert_eq!(received(socket), "STATUS=copying; MAINPID=1 [1m\n");
            assert_eq!(received(socket), "EXTEND_TIMEOUT_USEC=90000000\n");
            assert_eq!(received(socket), "EXTEND_TIMEOUT_USEC=7200000000\n");
            assert_eq!(received(socket), "READY=1\nSTATUS=done\n");
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0]).is_err());
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    #[ignore = "another test runs it with $NOTIFY_SOCKET set"]
    fn says_more_than_a_socket_holds() {
        let (notify, begun) = (notify(), Instant::now());
        for _ in 0..10_000 {
            notify.status("copying");
        }
        // Once the limit, and not for each message.
        assert!(begun.elapsed() >= SEND_LIMIT, "nothing was in its way");
        assert!(begun.elapsed() < SEND_LIMIT * 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn held_up_once_when_nobody_reads() {
        let name = format!("etcd-lun-notify-full-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let socket = UnixDatagram::bind(&path).unwrap();
        with_socket(path.to_str().unwrap(), "says_more_than_a_socket_holds");
        assert_eq!(received(&socket), "STATUS=copying\n");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    #[ignore = "another test runs it with $NOTIFY_SOCKET set"]
    fn says_nothing() {
        notify().status("nothing");
    }

    #[test]
    fn silent_when_nobody_listens() {
        let long = format!("/{}", "x".repeat(200));
        for name in ["", "vsock:2:1234", "/nonexistent/notify", "@nonexistent", long.as_str()] {
            with_socket(name, "says_nothing");
        }
        Notify::new(None).status("nothing");
    }
}

//! Asking a server on this node: plain HTTP by ourselves, TLS through curl.

use super::{ExecError, Host, Invocation, Tool};
use crate::terms::AbsPath;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(5);
/// etcd's metrics are some 100 KiB.
const ANSWER_MAX: u64 = 8 << 20;

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The server can't be reached, or speaks no HTTP.
    #[error("asking http://{address}{path}")]
    Io {
        /// The server.
        address: SocketAddr,
        /// What was asked for.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// curl could not be run.
    #[error(transparent)]
    Curl(#[from] ExecError),
    /// curl was run and got no answer.
    #[error("asking {url}: {said}")]
    NoAnswer {
        /// What was asked.
        url: String,
        /// What curl said.
        said: String,
    },
}

/// With what curl shows who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates {
    /// Whom to trust.
    pub authority: AbsPath,
    /// Our own.
    pub certificate: AbsPath,
    /// Its key.
    pub key: AbsPath,
}

/// GET, as HTTP/1.0: then the body comes whole and ends with the connection (RFC 1945).
pub fn get(address: SocketAddr, path: &str) -> Result<Answer, HttpError> {
    let ask = || -> io::Result<Answer> {
        let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: text/plain\r\n\r\n")?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        parse(&text).ok_or_else(|| io::Error::other("the answer is not HTTP"))
    };
    ask().map_err(|source| HttpError::Io { address, path: path.to_owned(), source })
}

/// The same over TLS. curl is on every node of Red Hat CoreOS; certificates and key are arguments by name only.
pub fn get_tls(host: &Host, url: &str, with: &Certificates) -> Result<Answer, HttpError> {
    let limit = LIMIT.as_secs().to_string();
    let args = [
        "--silent",
        "--show-error",
        "--max-time",
        &limit,
        "--cacert",
        with.authority.as_str(),
        "--cert",
        with.certificate.as_str(),
        "--key",
        with.key.as_str(),
        "--write-out",
        "\n%{http_code}",
        url,
    ];
    let what = Invocation::new(Tool::Curl, args).limit(LIMIT * 2);
    let output = host.run(&what)?;
    let none = |said: &str| HttpError::NoAnswer { url: url.to_owned(), said: said.trim().to_owned() };
    if output.code != 0 {
        return Err(none(&output.stderr));
    }
    let (body, status) = output.stdout.rsplit_once('\n').ok_or_else(|| none("no status"))?;
    Ok(Answer { status: status.parse().map_err(|_| none("no status"))?, body: body.to_owned() })
}

/// `HTTP/1.x STATUS REASON`, headers, an empty line, the body.
fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    /// A stand-in for a server that says one thing.
    fn server(said: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            // All of it: a connection that is closed with something unread is reset.
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.extend(byte);
            }
            assert!(asked.starts_with(b"GET /metrics HTTP/1.0\r\nHost: 127."));
            stream.write_all(said.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn plain() {
        let answer = get(server("HTTP/1.0 503 No\r\nX: y\r\n\r\na\r\n\r\nb"), "/metrics").unwrap();
        assert_eq!(answer, Answer { status: 503, body: "a\r\n\r\nb".into() });
        assert!(get(server("SSH-2.0\r\n"), "/metrics").is_err());
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let said = get(free, "/metrics").unwrap_err().to_string();
        assert_eq!(said, format!("asking http://{free}/metrics"));
    }
}

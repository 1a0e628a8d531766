//! One request to an etcd's JSON gateway over plain HTTP, on a connection of its own.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns};
use serde_json::Value;

/// How long `post` waits for a connection, and for each part of an answer.
pub const WAIT: Duration = Duration::from_secs(4);

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// There was no connection, so etcd got nothing.
    NotSent(String),
    /// The request was sent, at least in part. etcd may have done what it asks for, or may do it later.
    Unknown(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::NotSent(why) => write!(f, "cannot connect: {why}"),
            NoAnswer::Unknown(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NoAnswer {}

/// Moves this thread into a network namespace. The thread cannot go back.
pub fn enter(namespace: &Path) -> Result<()> {
    let file = File::open(namespace).with_context(|| format!("cannot open {}", namespace.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET).context("cannot enter the network namespace")
}

/// Does something in a network namespace, in a thread of its own, and waits for its end.
pub fn within<T: Send>(namespace: &Path, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(namespace)?;
            work()
        });
        thread.join().map_err(|_| anyhow!("a thread of the bed panicked"))?
    })
}

/// Sends a request and waits for the answer.
pub fn post(address: &str, path: &str, body: &Value) -> Result<Value> {
    Ok(ask(address, path, body, WAIT)?)
}

/// Sends a request. Waits this long for a connection, and this long for each part of the answer.
pub fn ask(address: &str, path: &str, body: &Value, wait: Duration) -> Result<Value, NoAnswer> {
    let mut stream = connect(address, wait).map_err(|error| NoAnswer::NotSent(error.to_string()))?;
    let answer = exchange(&mut stream, path, &body.to_string());
    let answer = answer.map_err(|error| NoAnswer::Unknown(error.to_string()))?;
    parse(&answer).map_err(NoAnswer::Unknown)
}

fn connect(address: &str, wait: Duration) -> io::Result<TcpStream> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let stream = TcpStream::connect_timeout(&address, wait)?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    Ok(stream)
}

fn exchange(stream: &mut TcpStream, path: &str, body: &str) -> io::Result<String> {
    // With HTTP/1.0 the answer ends with the connection and is not chunked.
    write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn parse(answer: &str) -> Result<Value, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer is incomplete")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        return Err(format!("etcd answers {status}: {body}"));
    }
    let value: Value = serde_json::from_str(body).map_err(|error| format!("{error} in {body}"))?;
    match value["header"].is_object() {
        true => Ok(value),
        false => Err(format!("the answer has no header: {body}")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_refused_connection_is_told_from_a_lost_answer() {
        let body = serde_json::json!({});
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || drop(listener.accept().unwrap()));
        let lost = ask(&address, "/", &body, Duration::from_secs(5)).unwrap_err();
        assert!(matches!(lost, NoAnswer::Unknown(_)), "{lost:?}");
        server.join().unwrap();
        // The listener is closed now.
        let refused = ask(&address, "/", &body, Duration::from_secs(5)).unwrap_err();
        assert!(matches!(refused, NoAnswer::NotSent(_)), "{refused:?}");
    }

    #[test]
    fn only_a_complete_answer_of_etcd_is_an_answer() {
        assert!(parse("HTTP/1.0 200 OK\r\n\r\n{\"header\":{\"revision\":\"7\"}}").is_ok());
        for wrong in ["", "HTTP/1.0 200 OK\r\n", "HTTP/1.0 200 OK\r\n\r\n{}", "HTTP/1.0 503 No\r\n\r\n{}"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

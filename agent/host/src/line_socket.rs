//! One question and one answer over a Unix socket. The answer may come with a handle of a file (`unix(7)`, `SCM_RIGHTS`). The peer
//! closes the connection behind its answer.

use super::Host;
use rustix::{
    cmsg_space,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recvmsg, sendmsg,
    },
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};
use tokio::{
    io::{AsyncWriteExt as _, Interest},
    net::UnixStream,
};

/// The longest answer that is read, in bytes. An answer is a line with an error message at most.
const ANSWER_MAX: usize = 64 << 10;

/// An answer.
#[derive(Debug)]
pub struct Heard {
    /// The whole text.
    pub text: String,
    /// The handle that came with it.
    pub handle: Option<OwnedFd>,
}

/// Asks, and returns the whole answer. Fails after the limit, if this process is asked to stop meanwhile, and if the answer is
/// no UTF-8.
pub fn ask(host: &Host, socket: &str, question: &str, limit: Duration) -> io::Result<Heard> {
    let path = host.root.locate(socket);
    let conversation = async {
        let mut stream = UnixStream::connect(path).await?;
        stream.write_all(question.as_bytes()).await?;
        stream.shutdown().await?;
        heard(&stream).await
    };
    host.wait(async {
        tokio::select! {
            done = tokio::time::timeout(limit, conversation) => done.unwrap_or_else(|_| {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs())))
            }),
            () = host.interrupt.requested() => Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
        }
    })
}

async fn heard(stream: &UnixStream) -> io::Result<Heard> {
    let (mut bytes, mut handle) = (Vec::new(), None);
    loop {
        stream.readable().await?;
        let part = stream.try_io(Interest::READABLE, || receive(stream));
        let (part, with) = match part {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            part => part?,
        };
        if part.is_empty() {
            let text = String::from_utf8(bytes).map_err(io::Error::other)?;
            return Ok(Heard { text, handle });
        }
        bytes.extend(part);
        handle = with.or(handle);
        if bytes.len() > ANSWER_MAX {
            return Err(io::Error::other("the answer is too long"));
        }
    }
}

fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut buffer = [0; 4096];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let count = recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let handles = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(handles) => Some(handles),
        _ => None,
    });
    let handle = handles.flatten().last();
    Ok((buffer.get(..count).unwrap_or_default().to_vec(), handle))
}

/// Answers over a connection.
pub fn answer(to: impl AsFd, text: &str, handle: Option<&OwnedFd>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let handles: Vec<_> = handle.iter().map(|handle| handle.as_fd()).collect();
    if !handles.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(io::Error::other("no space for a handle"));
    }
    let parts = [IoSlice::new(text.as_bytes())];
    match sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL)? == text.len() {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::WriteZero)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, files::Files, transcript::NoTools};
    use std::{
        fs::File,
        io::{Read as _, Write as _},
        os::unix::net::UnixListener,
        thread,
    };

    /// Asks a peer that answers with these bytes, and returns what the peer was asked.
    fn asked(name: &str, answer: &'static [u8], with: Option<OwnedFd>) -> (io::Result<Heard>, String) {
        let files = Files::new(name);
        let listener = UnixListener::bind(files.0.join("socket")).unwrap();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = String::new();
            stream.read_to_string(&mut question).unwrap();
            match with {
                Some(handle) => {
                    super::answer(&stream, std::str::from_utf8(answer).unwrap(), Some(&handle)).unwrap()
                }
                None => stream.write_all(answer).unwrap(),
            }
            question
        });
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        (ask(&host, "/socket", "how?\n", Duration::from_secs(30)), peer.join().unwrap())
    }

    #[test]
    fn a_question_and_its_answer() {
        let (heard, question) = asked("line-socket", b"so\n", None);
        assert_eq!(question, "how?\n");
        assert!(matches!(heard.unwrap(), Heard { text, handle: None } if text == "so\n"));
        assert_eq!(asked("line-socket-none", b"", None).0.unwrap().text, "");
        assert!(asked("line-socket-odd", b"\xff", None).0.is_err());
        static LONG: [u8; ANSWER_MAX + 1] = [b'a'; ANSWER_MAX + 1];
        assert!(asked("line-socket-long", &LONG, None).0.unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn a_handle_comes_with_the_answer() {
        let files = Files::new("line-socket-file");
        files.put("file", "its content");
        let file = File::open(files.0.join("file")).unwrap();
        let (heard, _) = asked("line-socket-handle", b"so\n", Some(file.into()));
        let Heard { text, handle } = heard.unwrap();
        let mut content = String::new();
        File::from(handle.unwrap()).read_to_string(&mut content).unwrap();
        assert_eq!((text.as_str(), content.as_str()), ("so\n", "its content"));
    }

    #[test]
    fn a_peer_that_is_silent_or_absent() {
        let files = Files::new("line-socket-silent");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        let ask = || ask(&host, "/socket", "", Duration::from_millis(20)).unwrap_err();
        assert_eq!(ask().kind(), io::ErrorKind::NotFound);
        let _listener = UnixListener::bind(files.0.join("socket")).unwrap();
        assert_eq!(ask().kind(), io::ErrorKind::TimedOut);
    }
}

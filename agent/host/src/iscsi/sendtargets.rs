//! Asking a portal for its targets without open-iscsi: a discovery session of our own, from a machine that has no initiator, such
//! as an administrator's. On a node, iscsiadm asks ([`super::discover`]).
//!
//! Formats and numbers are those of RFC 7143: 11.10 and 11.11 (text), 11.12 and 11.13 (login), 6.3 (phases of a login), appendix C
//! (SendTargets). Only what a discovery without CHAP needs is here. No library does it that is kept well: iscsi-client-rs 0.0.9 was
//! tried with one target only, and its licence (AGPL) is not ours.

use super::discovery::{Announced, Discovered, parse_portal};
use std::{
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};
use terms::{Iqn, Portal};

/// How long a portal may take to accept a connection. A live one takes milliseconds.
const CONNECT: Duration = Duration::from_secs(2);
/// How long the whole talk may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The length of a header.
const HEADER: usize = 48;
/// The longest data of one message: what a target may send to an initiator that declares nothing
/// (`MaxRecvDataSegmentLength`, 13.12).
const SEGMENT: usize = 8192;
/// After so many messages without an end a target is given up.
const MESSAGES: usize = 64;

const LOGIN: u8 = 0x03;
const TEXT: u8 = 0x04;
/// An answer has the request's code and this bit.
const ANSWER: u8 = 0x20;
/// What a target sends to see whether the initiator is alive.
const NOP_IN: u8 = 0x20;
/// The request does not wait for others. Each login request is so.
const IMMEDIATE: u8 = 0x40;
/// The last message of a text; in a login: into the next phase.
const FINAL: u8 = 0x80;
/// The text goes on in the next message.
const CONTINUE: u8 = 0x40;

/// The phases of a login.
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Why a portal did not say what its targets are.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It cannot be reached, or does not answer in time.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The target refuses: status class and detail (11.13.5).
    #[error("it refuses the discovery with status {class:02x}{detail:02x} ({})", meaning(*class, *detail))]
    Refused {
        /// 1: it is elsewhere; 2: the initiator's fault; 3: the target's.
        class: u8,
        /// Which of them.
        detail: u8,
    },
    /// It ends the connection without an answer, as LIO does to an initiator that offers no CHAP where it wants CHAP.
    #[error("it ended the connection during the log-in: it may want CHAP, or not allow this initiator name")]
    Closed,
    /// It says something else than what was asked for.
    #[error("it answers with {0}, as no iSCSI target does")]
    Unexpected(String),
}

fn meaning(class: u8, detail: u8) -> &'static str {
    match (class, detail) {
        (1, _) => "the target is elsewhere",
        (2, 1) => "it wants CHAP",
        (2, 2) => "it does not allow this initiator name",
        (2, 3) => "there is no such target",
        (2, _) => "it does not accept what was asked",
        (3, _) => "it has an error of its own, or is busy",
        _ => "unknown status",
    }
}

/// Asks a portal for the targets that it shows to an initiator of this name, without CHAP. The connection ends with the answer.
pub fn send_targets(portal: &Portal, initiator: &Iqn) -> Result<Announced, AskError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (portal.host(), portal.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                let mut talk = Talk { stream, deadline: Instant::now() + LIMIT, seen: 0 };
                talk.log_in(initiator).map_err(closed)?;
                return Ok(targets(&talk.ask("SendTargets=All\0")?, portal));
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

fn closed(error: AskError) -> AskError {
    match error {
        AskError::Io(error)
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ) =>
        {
            AskError::Closed
        }
        other => other,
    }
}

/// One connection.
struct Talk {
    stream: TcpStream,
    deadline: Instant,
    /// The number of the target's last answer (StatSN).
    seen: u32,
}

/// What the other side has sent.
struct Message {
    header: [u8; HEADER],
    data: Vec<u8>,
}

impl Message {
    fn has(&self, flag: u8) -> bool {
        self.header[1] & flag != 0
    }
}

impl Talk {
    fn log_in(&mut self, initiator: &Iqn) -> Result<(), AskError> {
        let mut phase = SECURITY;
        let mut keys = format!("InitiatorName={initiator}\0SessionType=Discovery\0AuthMethod=None\0");
        for _ in 0..MESSAGES {
            let next = if phase == SECURITY { OPERATIONAL } else { FULL_FEATURE };
            let mut header = header(LOGIN | IMMEDIATE, FINAL | phase << 2 | next, &keys);
            // A random one, by its type (11.12.5): open-iscsi's have another type, so this is nobody's session.
            header[8] = 0x80;
            header[9..12].copy_from_slice(&std::process::id().to_be_bytes()[1..]);
            self.send(header, &keys)?;
            let answer = self.receive(LOGIN | ANSWER)?;
            if answer.header[36] != 0 {
                return Err(AskError::Refused { class: answer.header[36], detail: answer.header[37] });
            }
            keys.clear();
            if answer.has(FINAL) {
                phase = answer.header[1] & 3;
                if phase == FULL_FEATURE {
                    return Ok(());
                }
                // LIO sends nothing at all to an initiator that does not say how much it receives (seen with Linux 6.12).
                keys.push_str(&format!(
                    "HeaderDigest=None\0DataDigest=None\0MaxRecvDataSegmentLength={SEGMENT}\0"
                ));
            }
        }
        Err(AskError::Unexpected("a login without an end".into()))
    }

    /// Sends a text request, and receives all parts of its answer.
    fn ask(&mut self, keys: &str) -> Result<Vec<u8>, AskError> {
        let mut said = Vec::new();
        let mut request = header(TEXT, FINAL, keys);
        request[20..24].fill(0xff); // a new request: no transfer tag of the target
        self.send(request, keys)?;
        for _ in 0..MESSAGES {
            let answer = self.receive(TEXT | ANSWER)?;
            said.extend_from_slice(&answer.data);
            if answer.has(FINAL) && !answer.has(CONTINUE) {
                return Ok(said);
            }
            let mut more = header(TEXT | IMMEDIATE, FINAL, "");
            more[20..24].copy_from_slice(&answer.header[20..24]);
            more[27] = 1; // the next command's number (CmdSN)
            self.send(more, "")?;
        }
        Err(AskError::Unexpected("a list without an end".into()))
    }

    fn send(&mut self, mut header: [u8; HEADER], data: &str) -> Result<(), AskError> {
        header[28..32].copy_from_slice(&self.seen.wrapping_add(1).to_be_bytes()); // ExpStatSN
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(data.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.set_write_timeout(Some(self.left()?))?;
        Ok(self.stream.write_all(&bytes)?)
    }

    fn receive(&mut self, wanted: u8) -> Result<Message, AskError> {
        loop {
            let mut header = [0; HEADER];
            self.read(&mut header)?;
            let length = usize::from(header[5]) << 16 | usize::from(header[6]) << 8 | usize::from(header[7]);
            let code = header[0] & 0x3f;
            if header[4] != 0 || length > SEGMENT || ![wanted, NOP_IN].contains(&code) {
                return Err(AskError::Unexpected(format!(
                    "message {code:02x} of {length} bytes where {wanted:02x} should be"
                )));
            }
            let mut data = vec![0; length.next_multiple_of(4)];
            self.read(&mut data)?;
            data.truncate(length);
            if code == wanted {
                self.seen = u32::from_be_bytes([header[24], header[25], header[26], header[27]]);
                return Ok(Message { header, data });
            }
        }
    }

    fn read(&mut self, mut into: &mut [u8]) -> Result<(), AskError> {
        while !into.is_empty() {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(into) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => into = into.split_at_mut(count).1,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// A request's header. Its task has the number 0, and so has its command: nothing else is asked for in the session.
fn header(code: u8, flags: u8, data: &str) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    (header[0], header[1]) = (code, flags);
    // The length has three bytes; what is asked for is always shorter than 64 KiB.
    header[6..8].copy_from_slice(&u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
    header
}

/// The targets in an answer: each name is followed by its addresses. A target without any is at the portal that was asked.
fn targets(said: &[u8], asked: &Portal) -> Announced {
    let mut found = Announced::default();
    let mut name: Option<(String, bool)> = None;
    let here = |name: Option<(String, bool)>, found: &mut Announced| {
        if let Some((target, false)) = name {
            found.targets.push(Discovered { target, portal: Some(asked.clone()), tpgt: None });
        }
    };
    for part in said.split(|byte| *byte == 0).filter(|part| !part.is_empty()) {
        let text = String::from_utf8_lossy(part);
        let plain = text.chars().all(|letter| !letter.is_control() && !letter.is_whitespace());
        match (text.split_once('='), &mut name) {
            (Some(("TargetName", target)), _) if plain && !target.is_empty() => {
                here(name.replace((target.to_owned(), false)), &mut found);
            }
            (Some(("TargetAddress", address)), Some((target, has_address))) if plain => {
                let (address, tag) = address.rsplit_once(',').unwrap_or((address, ""));
                let portal = parse_portal(address).or_else(|| address.parse().ok());
                found.targets.push(Discovered { target: target.clone(), portal, tpgt: tag.parse().ok() });
                *has_address = true;
            }
            _ => found.skipped.push(format!("`{}`", text.escape_debug())),
        }
    }
    here(name, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    /// A portal that sends these bytes, whatever it hears, and then ends or stays silent.
    fn portal(bytes: Vec<u8>, ends: bool) -> Portal {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&bytes).unwrap();
            while !ends && stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        });
        format!("127.0.0.1:{port}").parse().unwrap()
    }

    fn message(code: u8, flags: u8, data: &str) -> Vec<u8> {
        let mut bytes = header(code, flags, data).to_vec();
        bytes.extend_from_slice(data.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn logged_in() -> Vec<u8> {
        let first = message(0x23, FINAL | OPERATIONAL, "AuthMethod=None\0TargetPortalGroupTag=1\0");
        [first, message(0x23, FINAL | OPERATIONAL << 2 | FULL_FEATURE, "HeaderDigest=None\0")].concat()
    }

    fn ask(bytes: Vec<u8>) -> Result<Announced, AskError> {
        send_targets(&portal(bytes, false), &"iqn.1994-05.com.redhat:a".parse().unwrap())
    }

    #[test]
    fn a_list_in_two_parts_with_a_question_between() {
        let nop = message(NOP_IN, FINAL, "");
        let first = message(0x24, CONTINUE, "TargetName=iqn.2024-02.com.example:a\0TargetAddress=10.0");
        let rest = ".0.1:3260,1\0TargetAddress=[2001:db8::1]:3260,2\0TargetName=iqn.2024-02.com.example:b\0";
        let found = ask([logged_in(), nop, first, message(0x24, FINAL, rest)].concat()).unwrap();
        let shown: Vec<_> = found
            .targets
            .iter()
            .map(|one| {
                (one.target.rsplit(':').next().unwrap(), one.portal.clone().unwrap().to_string(), one.tpgt)
            })
            .collect();
        assert_eq!(
            shown[..2],
            [("a", "10.0.0.1:3260".into(), Some(1)), ("a", "[2001:db8::1]:3260".into(), Some(2))]
        );
        assert!(shown[2].0 == "b" && shown[2].1.starts_with("127.0.0.1:"), "{shown:?}");
        assert_eq!((shown.len(), found.skipped.len()), (3, 0));
    }

    #[test]
    fn what_is_no_target_is_said() {
        let refused = |class, detail| {
            let mut bytes = message(0x23, 0, "");
            (bytes[36], bytes[37]) = (class, detail);
            bytes
        };
        let long = message(0x24, FINAL, &"x".repeat(SEGMENT + 1));
        for (bytes, says) in [
            (refused(2, 1), "status 0201 (it wants CHAP)"),
            (refused(2, 2), "does not allow this initiator name"),
            (
                b"SSH-2.0-OpenSSH_9.6\r\n                                   ".to_vec(),
                "as no iSCSI target does",
            ),
            ([logged_in(), long].concat(), "message 24 of 8193 bytes"),
            (message(0x23, 0, "").repeat(MESSAGES), "a login without an end"),
            ([logged_in(), message(0x24, 0, "").repeat(MESSAGES)].concat(), "a list without an end"),
        ] {
            let said = ask(bytes).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
        let ended = send_targets(&portal(Vec::new(), true), &"iqn.1994-05.com.redhat:a".parse().unwrap());
        assert!(matches!(ended, Err(AskError::Closed)), "{ended:?}");
        let odd = targets(
            b"TargetAddress=1.1.1.1:1,1\0TargetName=a b\0X\0TargetName=\x1b[2J\0",
            &"10.0.0.1".parse().unwrap(),
        );
        assert_eq!((odd.targets.len(), odd.skipped.len()), (0, 4));
        assert!(odd.skipped.iter().all(|line| !line.contains('\u{1b}')), "{odd:?}");
    }
}

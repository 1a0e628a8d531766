//! Asking a portal for its targets without open-iscsi: a discovery session of our own, from a machine that has no initiator, such
//! as an administrator's. On a node, iscsiadm asks ([`super::discover`]).
//!
//! Formats and numbers are those of RFC 7143: 11.10 and 11.11 (text), 11.12 and 11.13 (login), 11.14 (log-out), 6.3 (phases of a
//! login), appendix C (SendTargets). Only what a discovery without CHAP needs is here. No library does it that is kept well:
//! iscsi-client-rs 0.0.9 was tried with one target only, and its licence (AGPL) is not ours.

use super::discovery::{Announced, parse_targets};
use crate::route::CONNECT;
use std::{
    collections::BTreeSet,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};
use terms::{Iqn, Portal};

/// How long the talk with all addresses of a portal may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The length of a header.
const HEADER: usize = 48;
/// The longest data of one message: what this initiator says that it takes (`MaxRecvDataSegmentLength`, 13.12).
const SEGMENT: usize = 256 << 10;
/// After so many messages without an end a target is given up. A list of all targets of a large array has one or two.
const MESSAGES: usize = 16;

const LOGIN: u8 = 0x03;
const TEXT: u8 = 0x04;
const LOGOUT: u8 = 0x06;
/// An answer has the request's code and this bit.
const ANSWER: u8 = 0x20;
/// What a target sends to see whether the initiator is alive.
const NOP_IN: u8 = 0x20;
/// What a target sends of its own accord, such as that it will end the connection.
const ASYNC: u8 = 0x32;
const REJECT: u8 = 0x3f;
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

/// The keys with which a target declares something. Each other key is an offer, which has to be answered (6.1, 13).
const DECLARED: [&str; 4] =
    ["TargetAlias", "TargetAddress", "TargetPortalGroupTag", "MaxRecvDataSegmentLength"];

/// Why a portal did not say what its targets are.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It cannot be reached.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Somebody listens, and says nothing.
    #[error("it accepts connections, and does not answer within {} s: something else may listen there", LIMIT.as_secs())]
    Silent,
    /// It ends the connection without an answer, as LIO does to an initiator that offers no CHAP where it wants CHAP.
    #[error("it ended the connection during the log-in: it may want CHAP, or not allow this initiator name")]
    Closed,
    /// The target refuses: status class and detail (11.13.5).
    #[error("it refuses the discovery with status {class:02x}{detail:02x} ({})", meaning(*class, *detail))]
    Refused {
        /// 2: the initiator's fault; 3: the target's.
        class: u8,
        /// Which of them.
        detail: u8,
    },
    /// It sends initiators to another address.
    #[error("it sends initiators to {0}: ask that portal")]
    Elsewhere(String),
    /// It rejects a message, for this reason (11.17.1).
    #[error("it rejects the discovery (reason {0:02x}): type the name")]
    Rejected(u8),
    /// It says something else than what was asked for.
    #[error("it answers with {0}, as no iSCSI target does")]
    Unexpected(String),
}

fn meaning(class: u8, detail: u8) -> &'static str {
    match (class, detail) {
        (2, 1) => "it wants CHAP",
        (2, 2) => "it does not allow this initiator name",
        (2, 3) => "there is no such target",
        (2, _) => "it does not accept what was asked",
        (3, _) => "it has an error of its own, or is busy",
        _ => "unknown status",
    }
}

/// Asks a portal for the targets that it shows to an initiator of this name, without CHAP. A name may have several addresses: the
/// first that answers counts.
pub fn send_targets(portal: &Portal, initiator: &Iqn) -> Result<Announced, AskError> {
    within(portal, initiator, LIMIT)
}

fn within(portal: &Portal, initiator: &Iqn, limit: Duration) -> Result<Announced, AskError> {
    let deadline = Instant::now() + limit;
    let mut last = AskError::Io(io::ErrorKind::AddrNotAvailable.into());
    for address in (portal.host(), portal.port()).to_socket_addrs()? {
        match Talk::with(&address, initiator, deadline) {
            Ok(said) => return Ok(parse_targets(&said, portal)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One connection.
struct Talk {
    stream: TcpStream,
    deadline: Instant,
    /// The number of the target's last answer (StatSN). Before the first one the next is 0.
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

    /// Its keys and values, as far as they are text.
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.data.split(|byte| *byte == 0).filter_map(|part| std::str::from_utf8(part).ok()?.split_once('='))
    }
}

impl Talk {
    /// Log-in, question, log-out: what the target has said.
    fn with(address: &SocketAddr, initiator: &Iqn, deadline: Instant) -> Result<Vec<u8>, AskError> {
        let stream = TcpStream::connect_timeout(address, left(deadline)?.min(CONNECT))?;
        let mut talk = Self { stream, deadline, seen: u32::MAX };
        talk.log_in(initiator).map_err(|error| closed(error, AskError::Closed))?;
        let said = talk.ask("SendTargets=All\0").map_err(|error| {
            closed(error, AskError::Unexpected("the end of the connection in place of a list".into()))
        })?;
        // The list is there already, whatever becomes of this.
        let _ = talk.log_out();
        Ok(said)
    }

    fn log_in(&mut self, initiator: &Iqn) -> Result<(), AskError> {
        let mut phase = SECURITY;
        let mut keys = format!("InitiatorName={initiator}\0SessionType=Discovery\0AuthMethod=None\0");
        let mut ours: BTreeSet<String> = BTreeSet::new();
        for _ in 0..MESSAGES {
            let next = if phase == SECURITY { OPERATIONAL } else { FULL_FEATURE };
            ours.extend(
                keys.split('\0').filter_map(|pair| pair.split_once('=')).map(|(key, _)| key.to_owned()),
            );
            let mut header = header(LOGIN | IMMEDIATE, FINAL | phase << 2 | next, &keys);
            // A random one, by its type (11.12.5): open-iscsi's have another type, so this is nobody's session.
            header[8] = 0x80;
            header[9..12].copy_from_slice(&std::process::id().to_be_bytes()[1..]);
            self.send(header, &keys)?;
            let answer = self.receive(LOGIN | ANSWER)?;
            match (answer.header[36], answer.header[37]) {
                (0, _) => {}
                (1, _) => {
                    let address = answer.pairs().find(|(key, _)| *key == "TargetAddress");
                    let address = address.map_or("an address that it does not say", |(_, address)| address);
                    return Err(AskError::Elsewhere(address.escape_debug().to_string()));
                }
                (class, detail) => return Err(AskError::Refused { class, detail }),
            }
            // What it offers beside that has no meaning in a discovery.
            let offers = answer.pairs().map(|(key, _)| key);
            let offers = offers.filter(|key| !ours.contains(*key) && !DECLARED.contains(key));
            keys = offers.map(|key| format!("{key}=Irrelevant\0")).collect();
            if answer.has(FINAL) {
                let entered = answer.header[1] & 3;
                if entered == FULL_FEATURE {
                    return Ok(());
                }
                if phase == SECURITY && entered == OPERATIONAL {
                    // LIO sends nothing at all to an initiator that does not say how much it takes (seen with Linux 6.12).
                    keys.push_str(&format!(
                        "HeaderDigest=None\0DataDigest=None\0MaxRecvDataSegmentLength={SEGMENT}\0\
                         ErrorRecoveryLevel=0\0DefaultTime2Wait=2\0DefaultTime2Retain=0\0"
                    ));
                }
                phase = entered;
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
        Err(AskError::Unexpected(format!("a list of more than {MESSAGES} messages")))
    }

    /// Ends the session, as a target expects it.
    fn log_out(&mut self) -> Result<(), AskError> {
        let mut request = header(LOGOUT | IMMEDIATE, FINAL, "");
        request[27] = 1;
        self.send(request, "")?;
        self.receive(LOGOUT | ANSWER).map(drop)
    }

    fn send(&mut self, mut header: [u8; HEADER], data: &str) -> Result<(), AskError> {
        header[28..32].copy_from_slice(&self.seen.wrapping_add(1).to_be_bytes()); // ExpStatSN
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(data.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write_all(&bytes).map_err(late)
    }

    fn receive(&mut self, wanted: u8) -> Result<Message, AskError> {
        loop {
            let mut header = [0; HEADER];
            self.read(&mut header)?;
            let length = usize::from(header[5]) << 16 | usize::from(header[6]) << 8 | usize::from(header[7]);
            let code = header[0] & 0x3f;
            if code == REJECT {
                return Err(AskError::Rejected(header[2]));
            }
            if header[4] != 0 || length > SEGMENT || ![wanted, NOP_IN, ASYNC].contains(&code) {
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
            self.stream.set_read_timeout(Some(left(self.deadline)?))?;
            match self.stream.read(into) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => into = into.split_at_mut(count).1,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(late(error)),
            }
        }
        Ok(())
    }
}

fn left(deadline: Instant) -> Result<Duration, AskError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(AskError::Silent) } else { Ok(left) }
}

/// The time limit of a socket is EAGAIN (socket(7), `SO_RCVTIMEO`).
fn late(error: io::Error) -> AskError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::Silent,
        _ => AskError::Io(error),
    }
}

/// The error, or this one if the other side has ended the connection.
fn closed(error: AskError, otherwise: AskError) -> AskError {
    match error {
        AskError::Io(error)
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ) =>
        {
            otherwise
        }
        other => other,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, sync::mpsc, thread};

    /// A portal that answers each request with the next of these, and then ends the connection. The requests come out at the end.
    fn portal(answers: Vec<Vec<u8>>) -> (Portal, mpsc::Receiver<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard, requests) = mpsc::channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let mut request = vec![0; HEADER];
                if stream.read_exact(&mut request).is_err() {
                    return;
                }
                let length = usize::from(request[6]) << 8 | usize::from(request[7]);
                request.resize(HEADER + length.next_multiple_of(4), 0);
                stream.read_exact(&mut request[HEADER..]).unwrap();
                request.truncate(HEADER + length);
                heard.send(request).unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        (format!("127.0.0.1:{port}").parse().unwrap(), requests)
    }

    fn message(code: u8, flags: u8, number: u8, data: &str) -> Vec<u8> {
        let mut bytes = header(code, flags, data).to_vec();
        bytes[27] = number;
        bytes.extend_from_slice(data.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn logged_in() -> Vec<Vec<u8>> {
        let first = message(
            0x23,
            FINAL | OPERATIONAL,
            7,
            "AuthMethod=None\0TargetPortalGroupTag=1\0ImmediateData=Yes\0",
        );
        vec![first, message(0x23, FINAL | OPERATIONAL << 2 | FULL_FEATURE, 8, "HeaderDigest=None\0")]
    }

    fn initiator() -> Iqn {
        "iqn.1994-05.com.redhat:a".parse().unwrap()
    }

    fn ask(answers: Vec<Vec<u8>>) -> Result<Announced, AskError> {
        send_targets(&portal(answers).0, &initiator())
    }

    #[test]
    fn a_list_in_two_parts_with_a_question_between() {
        let mut first = message(NOP_IN, FINAL, 0, "");
        first.extend(message(0x24, CONTINUE, 9, "TargetName=iqn.2024-02.com.example:a\0TargetAddress=10.0"));
        let tagged = first.len()
            - 36
            - "TargetName=iqn.2024-02.com.example:a\0TargetAddress=10.0".len().next_multiple_of(4);
        first[tagged + 8..tagged + 12].copy_from_slice(&[1, 2, 3, 4]);
        let rest = ".0.1:3260,1\0TargetAddress=[2001:db8::1]:3260,2\0TargetName=iqn.2024-02.com.example:b\0";
        let mut answers = logged_in();
        answers.extend([first, message(0x24, FINAL, 10, rest), message(0x26, FINAL, 11, "")]);
        let (portal, requests) = portal(answers);
        let found = send_targets(&portal, &initiator()).unwrap();
        let shown: Vec<_> = found
            .targets
            .iter()
            .map(|one| {
                (one.target.rsplit(':').next().unwrap(), one.portal.clone().unwrap().to_string(), one.tpgt)
            })
            .collect();
        let expected = [
            ("a", "10.0.0.1:3260".to_owned(), Some(1)),
            ("a", "[2001:db8::1]:3260".to_owned(), Some(2)),
            ("b", portal.to_string(), None),
        ];
        assert_eq!((shown.as_slice(), found.skipped.len()), (&expected[..], 0));
        let requests: Vec<_> = requests.iter().collect();
        let of = |at: usize| (requests[at][0], requests[at][1], requests[at][27], requests[at][31]);
        // Code, flags, CmdSN, ExpStatSN: one more than the number of the last answer.
        let codes = [
            (0x43, 0x81, 0, 0),
            (0x43, 0x87, 0, 8),
            (0x04, 0x80, 0, 9),
            (0x44, 0x80, 1, 10),
            (0x46, 0x80, 1, 11),
        ];
        assert_eq!((0..5).map(of).collect::<Vec<_>>(), codes);
        assert_eq!((&requests[2][20..24], &requests[3][20..24]), (&[0xff; 4][..], &[1, 2, 3, 4][..]));
        let says = |at: usize| String::from_utf8_lossy(&requests[at][HEADER..]).into_owned();
        assert!(
            says(0).contains("InitiatorName=iqn.1994-05.com.redhat:a\0SessionType=Discovery\0"),
            "{}",
            says(0)
        );
        assert!(says(1).contains("ImmediateData=Irrelevant\0"), "an offer has its answer: {}", says(1));
        assert!(says(1).contains("MaxRecvDataSegmentLength=262144\0"), "{}", says(1));
        assert_eq!(says(2), "SendTargets=All\0");
    }

    #[test]
    fn what_is_no_target_is_said() {
        let status = |class, detail, data: &str| {
            let mut bytes = message(0x23, 0, 1, data);
            (bytes[36], bytes[37]) = (class, detail);
            vec![bytes]
        };
        let after = |answer: Vec<u8>| [logged_in(), vec![answer]].concat();
        let mut long = message(0x24, FINAL, 1, "");
        long[5..8].copy_from_slice(&[0x04, 0, 1]);
        let mut rejected = message(REJECT, FINAL, 1, "");
        rejected[2] = 0x05;
        for (answers, says) in [
            (status(2, 1, ""), "status 0201 (it wants CHAP)"),
            (status(2, 2, ""), "does not allow this initiator name"),
            (
                status(1, 1, "TargetAddress=10.0.0.9:3260,1\0"),
                "it sends initiators to 10.0.0.9:3260,1: ask that portal",
            ),
            (status(1, 1, "TargetAddress=\u{1b}[2J\0"), "it sends initiators to \\u{1b}[2J"),
            (
                vec![b"SSH-2.0-OpenSSH_9.6\r\n                                   ".to_vec()],
                "as no iSCSI target does",
            ),
            (after(long), "message 24 of 262145 bytes"),
            (after(rejected), "it rejects the discovery (reason 05)"),
            (vec![message(0x23, 0, 1, ""); MESSAGES], "a login without an end"),
            (
                [logged_in(), vec![message(0x24, 0, 1, ""); MESSAGES]].concat(),
                "a list of more than 16 messages",
            ),
            (Vec::new(), "it may want CHAP"),
            (logged_in(), "the end of the connection in place of a list"),
        ] {
            let said = ask(answers).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }

    /// Neither a portal that says nothing nor one that sends a byte now and then is waited for.
    #[test]
    fn a_portal_has_its_time() {
        for pause in [Duration::from_millis(20), Duration::from_secs(3)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let portal = format!("127.0.0.1:{}", listener.local_addr().unwrap().port()).parse().unwrap();
            thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                while stream.write_all(&[0x23]).is_ok() {
                    thread::sleep(pause);
                }
            });
            let said = within(&portal, &initiator(), Duration::from_millis(300));
            assert!(matches!(said, Err(AskError::Silent)), "{said:?}");
        }
    }
}

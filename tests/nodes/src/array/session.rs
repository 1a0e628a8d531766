//! A connection: the log-in, and what comes after it (RFC 7143, 11).

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;

use super::disk::{self, Answer};
use super::{Faults, lock};
use crate::target::IQN;

/// The bytes of a header.
const HEADER: usize = 48;
/// The most data that a PDU to the array may have.
const SEGMENT: usize = 256 << 10;
/// How many commands may wait.
const QUEUE: u32 = 32;

/// Where numbers are in a header.
const TAG: usize = 16;
const TRANSFER_TAG: usize = 20;
const STATUS_NUMBER: usize = 24;
const COMMAND_NUMBER: usize = 24;
const EXPECTED: usize = 28;
const LAST: usize = 32;

struct Pdu {
    head: [u8; HEADER],
    data: Vec<u8>,
}

impl Pdu {
    fn read(mut from: &TcpStream) -> io::Result<Self> {
        let mut head = [0; HEADER];
        from.read_exact(&mut head)?;
        // The data comes after further headers, and ends at a multiple of four.
        let further = usize::from(head[4]) * 4;
        let bytes = usize::try_from(word(&head, 4) & 0x00ff_ffff).map_err(io::Error::other)?;
        let mut data = vec![0; further + bytes.next_multiple_of(4)];
        from.read_exact(&mut data)?;
        data.drain(..further);
        data.truncate(bytes);
        Ok(Self { head, data })
    }

    fn opcode(&self) -> u8 {
        self.head[0] & 0x3f
    }

    fn is_immediate(&self) -> bool {
        self.head[0] & 0x40 != 0
    }

    /// The header of an answer, with the tag of this one.
    fn answer(&self, opcode: u8) -> [u8; HEADER] {
        let mut head = [0; HEADER];
        (head[0], head[1]) = (opcode, 0x80);
        head[TAG..TAG + 4].copy_from_slice(&self.head[TAG..TAG + 4]);
        head
    }

    /// The keys of a text.
    fn keys(&self) -> BTreeMap<String, String> {
        let text = String::from_utf8_lossy(&self.data);
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

fn word(head: &[u8; HEADER], at: usize) -> u32 {
    head[at..at + 4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn set(head: &mut [u8; HEADER], at: usize, value: u32) {
    head[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

struct Session<'a> {
    stream: &'a TcpStream,
    faults: &'a Mutex<Faults>,
    /// What came while the data of a write was awaited.
    waiting: VecDeque<Pdu>,
    status_number: u32,
    expected: u32,
    /// The most data that the initiator takes in a PDU.
    segment: usize,
    /// The last unit attention that it got.
    announced: u32,
}

/// Serves a connection until it ends.
pub(super) fn serve(stream: &TcpStream, faults: &Mutex<Faults>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let announced = lock(faults).attention.0;
    let waiting = VecDeque::new();
    let mut session =
        Session { stream, faults, waiting, status_number: 1, expected: 1, segment: 8192, announced };
    session.log_in()?;
    loop {
        let pdu = match session.waiting.pop_front() {
            Some(pdu) => pdu,
            None => session.receive()?,
        };
        match pdu.opcode() {
            // A ping; without a tag it is an answer.
            0x00 if word(&pdu.head, TAG) == u32::MAX => {}
            0x00 => session.send_text(&pdu, 0x20, &pdu.data)?,
            0x01 => session.command(&pdu)?,
            0x02 => session.send(pdu.answer(0x22), &[])?,
            0x04 => {
                let portal = stream.local_addr()?;
                let targets = format!("TargetName={IQN}\0TargetAddress={portal},1\0");
                session.send_text(&pdu, 0x24, targets.as_bytes())?;
            }
            0x06 => return session.send(pdu.answer(0x26), &[]),
            other => return Err(io::Error::other(format!("an iSCSI PDU of the kind {other:#x}"))),
        }
    }
}

impl Session<'_> {
    fn receive(&mut self) -> io::Result<Pdu> {
        let pdu = Pdu::read(self.stream)?;
        // Data has no number of a command.
        if !pdu.is_immediate() && pdu.opcode() != 5 {
            self.expected = word(&pdu.head, COMMAND_NUMBER).wrapping_add(1);
        }
        Ok(pdu)
    }

    fn send_numbered(&mut self, mut head: [u8; HEADER], data: &[u8], has_status: bool) -> io::Result<()> {
        set(&mut head, 4, u32::try_from(data.len()).map_err(io::Error::other)?);
        set(&mut head, STATUS_NUMBER, self.status_number);
        set(&mut head, EXPECTED, self.expected);
        set(&mut head, LAST, self.expected.wrapping_add(QUEUE));
        self.status_number = self.status_number.wrapping_add(u32::from(has_status));
        let padding = data.len().next_multiple_of(4) - data.len();
        self.stream.write_all(&[&head[..], data, &[0; 3][..padding]].concat())
    }

    fn send(&mut self, head: [u8; HEADER], data: &[u8]) -> io::Result<()> {
        self.send_numbered(head, data, true)
    }

    fn send_text(&mut self, to: &Pdu, opcode: u8, data: &[u8]) -> io::Result<()> {
        let mut head = to.answer(opcode);
        set(&mut head, TRANSFER_TAG, u32::MAX);
        self.send(head, data)
    }

    fn log_in(&mut self) -> io::Result<()> {
        let mut keys = BTreeMap::new();
        loop {
            let pdu = Pdu::read(self.stream)?;
            let asked = pdu.keys();
            keys.extend(asked.clone());
            self.expected = word(&pdu.head, COMMAND_NUMBER);
            let mut head = pdu.answer(0x23);
            // Transit, the stage and the next one, and the session's identifier
            head[1] = pdu.head[1] & 0x8f;
            head[8..14].copy_from_slice(&pdu.head[8..14]);
            let (refusal, redirect) = {
                let faults = lock(self.faults);
                (faults.refusal, faults.redirect.clone())
            };
            if keys.get("SessionType").is_none_or(|kind| kind != "Discovery")
                && let Some(status) = redirect.as_ref().map(|_| [1, 1]).or(refusal)
            {
                head[36..38].copy_from_slice(&status);
                let address =
                    redirect.map(|portal| format!("TargetAddress={portal},1\0")).unwrap_or_default();
                self.send(head, address.as_bytes())?;
                return Err(io::Error::other("the log-in was refused"));
            }
            let chosen =
                asked.iter().filter_map(|(key, value)| Some(format!("{key}={}\0", agreed(key, value)?)));
            let mut text: String = chosen.collect();
            if asked.contains_key("TargetName") {
                text += "TargetPortalGroupTag=1\0";
            }
            let is_done = pdu.head[1] & 0x83 == 0x83;
            head[15] = u8::from(is_done);
            self.send(head, text.as_bytes())?;
            if is_done {
                let most = keys.get("MaxRecvDataSegmentLength").and_then(|bytes| bytes.parse().ok());
                self.segment = most.unwrap_or(self.segment).min(SEGMENT);
                return Ok(());
            }
        }
    }

    fn command(&mut self, pdu: &Pdu) -> io::Result<()> {
        let (lun, cdb) = (pdu.head[9], &pdu.head[32..HEADER]);
        let faults = lock(self.faults).clone();
        let (number, [asc, ascq]) = faults.attention;
        if number != self.announced && !disk::is_asking(cdb) {
            self.announced = number;
            return self.status(pdu, Some([6, asc, ascq]), 0);
        }
        let wanted = usize::try_from(word(&pdu.head, 20)).map_err(io::Error::other)?;
        match disk::answer(&faults.luns, lun, cdb)? {
            Answer::Done => self.status(pdu, None, 0),
            Answer::Failed(sense) => self.status(pdu, Some(sense), 0),
            Answer::Data(data) => self.data_in(pdu, &data[..data.len().min(wanted)], wanted),
            Answer::Write { at, bytes } => {
                let data = self.data_out(pdu, bytes)?;
                faults.luns.get(&lun).map_or(Ok(()), |volume| disk::write(volume, at, &data))?;
                self.status(pdu, None, 0)
            }
        }
    }

    /// Sends data in pieces, and then the status.
    fn data_in(&mut self, to: &Pdu, data: &[u8], wanted: usize) -> io::Result<()> {
        let pieces: Vec<_> = data.chunks(self.segment).collect();
        for (nth, piece) in (0u32..).zip(&pieces) {
            let mut head = to.answer(0x25);
            head[1] = if nth as usize + 1 == pieces.len() { 0x80 } else { 0 };
            set(&mut head, TRANSFER_TAG, u32::MAX);
            set(&mut head, 36, nth);
            set(&mut head, 40, nth * u32::try_from(self.segment).map_err(io::Error::other)?);
            self.send_numbered(head, piece, false)?;
        }
        self.status(to, None, wanted - data.len())
    }

    /// Asks for the data of a write, all at once.
    fn data_out(&mut self, to: &Pdu, bytes: usize) -> io::Result<Vec<u8>> {
        let mut head = to.answer(0x31);
        head[8..16].copy_from_slice(&to.head[8..16]);
        set(&mut head, TRANSFER_TAG, 1);
        set(&mut head, 44, u32::try_from(bytes).map_err(io::Error::other)?);
        self.send_numbered(head, &[], false)?;
        let mut data = vec![0; bytes];
        loop {
            let pdu = self.receive()?;
            if pdu.opcode() != 5 {
                self.waiting.push_back(pdu);
                continue;
            }
            let at = usize::try_from(word(&pdu.head, 40)).map_err(io::Error::other)?;
            let piece = data.get_mut(at..at + pdu.data.len());
            piece.ok_or_else(|| io::Error::other("data beyond the write's end"))?.copy_from_slice(&pdu.data);
            if pdu.head[1] & 0x80 != 0 {
                return Ok(data);
            }
        }
    }

    /// Sends the end of a command: GOOD, or CHECK CONDITION with this sense key, ASC and ASCQ; and how many bytes less there were.
    fn status(&mut self, to: &Pdu, sense: Option<[u8; 3]>, less: usize) -> io::Result<()> {
        let mut head = to.answer(0x21);
        if less > 0 {
            head[1] |= 2;
        }
        set(&mut head, 44, u32::try_from(less).map_err(io::Error::other)?);
        let Some([key, asc, ascq]) = sense else { return self.send(head, &[]) };
        head[3] = 2;
        self.send(head, &[0, 18, 0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, asc, ascq, 0, 0, 0, 0])
    }
}

/// The value of a key that both sides agree on; none for what the initiator only says (RFC 7143, 13).
fn agreed(key: &str, value: &str) -> Option<String> {
    let chosen = match key {
        "InitiatorName" | "InitiatorAlias" | "SessionType" | "TargetName" => return None,
        "AuthMethod" | "HeaderDigest" | "DataDigest" => "None",
        "InitialR2T" | "DataPDUInOrder" | "DataSequenceInOrder" => "Yes",
        "ImmediateData" | "IFMarker" | "OFMarker" => "No",
        "MaxBurstLength" | "FirstBurstLength" | "DefaultTime2Wait" => value,
        "DefaultTime2Retain" | "ErrorRecoveryLevel" => "0",
        "MaxOutstandingR2T" | "MaxConnections" => "1",
        "MaxRecvDataSegmentLength" => return Some(SEGMENT.to_string()),
        _ => "NotUnderstood",
    };
    Some(chosen.to_owned())
}

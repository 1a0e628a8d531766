//! A message that came: "Message Format" in the specification.

use super::{Garbled, LENGTH_MAX, Reader, Variant};
use std::{collections::HashMap, fmt};

/// Values by name.
pub type Properties<'m> = HashMap<&'m str, Variant<'m>>;

/// The fields of a header ("Header Fields").
pub(super) mod field {
    pub const PATH: u8 = 1;
    pub const INTERFACE: u8 = 2;
    pub const MEMBER: u8 = 3;
    pub const ERROR_NAME: u8 = 4;
    pub const REPLY_SERIAL: u8 = 5;
    pub const DESTINATION: u8 = 6;
    pub const SENDER: u8 = 7;
    pub const SIGNATURE: u8 = 8;
    pub const UNIX_FDS: u8 = 9;
}

pub(super) const METHOD_CALL: u8 = 1;
/// The major version of the protocol.
pub(super) const PROTOCOL: u8 = 1;
/// What every message begins with: order, type, flags, version, two lengths and the serial.
pub(super) const START: usize = 16;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody calls us.
    Call,
    /// The answer to a call.
    Return,
    /// The answer to a call that failed.
    Error,
    /// A signal.
    Signal,
    /// Of a type that the specification doesn't know yet: to be ignored.
    Unknown,
}

/// A message, whose header has been read.
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// The call that it answers.
    pub reply_serial: Option<u32>,
    /// Who sent it, as the bus says.
    pub sender: Option<String>,
    /// The object that a signal comes from.
    pub path: Option<String>,
    /// The interface of the signal.
    pub interface: Option<String>,
    /// The signal.
    pub member: Option<String>,
    /// What the error is.
    pub error_name: Option<String>,
    signature: String,
    bytes: Vec<u8>,
    body: usize,
    big_endian: bool,
}

/// Without the body, which may be long.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, sender, member, signature, .. } = self;
        write!(f, "{kind:?} {member:?} from {sender:?} with `{signature}`")
    }
}

impl Message {
    /// How long the message is that begins like this.
    pub fn length(start: &[u8; START]) -> Result<usize, Garbled> {
        let mut reader = Reader::new(start, 4, is_big_endian(start)?);
        let body = reader.number()?;
        reader.number()?; // the serial
        let fields = reader.number()?;
        let header = (START as u64 + u64::from(fields)).next_multiple_of(8);
        let length = usize::try_from(header + u64::from(body)).unwrap_or(usize::MAX);
        if length > LENGTH_MAX { Err(Garbled("it is longer than 32 MiB")) } else { Ok(length) }
    }

    /// Reads the header of a whole message. The body is checked where it is read.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Garbled> {
        let start = bytes.first_chunk().ok_or(Garbled("it is shorter than a header"))?;
        if Self::length(start)? != bytes.len() {
            return Err(Garbled("its length is not what its header says"));
        }
        let &[_, kind, _flags, version, ..] = start;
        if version != PROTOCOL {
            return Err(Garbled("it is of another version of the protocol"));
        }
        let kind = match kind {
            0 => return Err(Garbled("it is of the type that is invalid")),
            METHOD_CALL => Kind::Call,
            2 => Kind::Return,
            3 => Kind::Error,
            4 => Kind::Signal,
            _ => Kind::Unknown,
        };
        let big_endian = is_big_endian(start)?;
        let mut message = Self {
            kind,
            reply_serial: None,
            sender: None,
            path: None,
            interface: None,
            member: None,
            error_name: None,
            signature: String::new(),
            bytes: Vec::new(),
            body: 0,
            big_endian,
        };
        let mut reader = Reader::new(&bytes, 8, big_endian);
        if reader.number()? == 0 {
            return Err(Garbled("its serial is zero"));
        }
        let mut fields = reader.array("(yv)")?;
        while !fields.is_at_end() {
            fields.begin_struct()?;
            message.take_field(&mut fields)?;
        }
        reader.align(8)?;
        message.body = reader.place();
        message.check_required()?;
        message.bytes = bytes;
        Ok(message)
    }

    fn take_field(&mut self, fields: &mut Reader<'_>) -> Result<(), Garbled> {
        let code = fields.byte()?;
        let variant = fields.variant()?;
        let mut value = variant.value;
        let expected = match code {
            0 => return Err(Garbled("a header field that is invalid")),
            field::PATH => "o",
            field::INTERFACE | field::MEMBER | field::ERROR_NAME | field::DESTINATION | field::SENDER => "s",
            field::REPLY_SERIAL | field::UNIX_FDS => "u",
            field::SIGNATURE => "g",
            // What a later specification adds is ignored ("Header Fields").
            _ => return Ok(()),
        };
        if variant.signature != expected {
            return Err(Garbled("a header field of another type"));
        }
        match code {
            field::PATH => self.path = Some(value.path()?.to_owned()),
            field::INTERFACE => self.interface = Some(value.text()?.to_owned()),
            field::MEMBER => self.member = Some(value.text()?.to_owned()),
            field::ERROR_NAME => self.error_name = Some(value.text()?.to_owned()),
            field::SENDER => self.sender = Some(value.text()?.to_owned()),
            field::REPLY_SERIAL => self.reply_serial = Some(value.number()?),
            field::SIGNATURE => self.signature = value.signature()?.to_owned(),
            field::UNIX_FDS if value.number()? != 0 => {
                return Err(Garbled("file descriptors came with it, which were not agreed on"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The third column of the table in "Header Fields".
    fn check_required(&self) -> Result<(), Garbled> {
        let has = match self.kind {
            Kind::Call => self.path.is_some() && self.member.is_some(),
            Kind::Return => self.reply_serial.is_some(),
            Kind::Error => self.reply_serial.is_some() && self.error_name.is_some(),
            Kind::Signal => self.path.is_some() && self.interface.is_some() && self.member.is_some(),
            Kind::Unknown => true,
        };
        if has { Ok(()) } else { Err(Garbled("a header field is missing")) }
    }

    /// The body, if its signature is the expected one and it is whole.
    pub fn body(&self, signature: &'static str) -> Result<Reader<'_>, Garbled> {
        if self.signature != signature {
            return Err(Garbled("its body is of another type than was expected"));
        }
        let body = Reader::new(&self.bytes, self.body, self.big_endian);
        let mut end = body;
        end.skip(signature)?;
        if end.is_at_end() { Ok(body) } else { Err(Garbled("its body is longer than its type")) }
    }

    /// The body of an answer that is properties by name, `a{sv}`.
    pub fn properties(&self) -> Result<Properties<'_>, Garbled> {
        let mut entries = self.body("a{sv}")?.array("{sv}")?;
        let mut properties = Properties::new();
        while !entries.is_at_end() {
            entries.begin_struct()?;
            if properties.insert(entries.text()?, entries.variant()?).is_some() {
                return Err(Garbled("a property is told twice"));
            }
        }
        Ok(properties)
    }

    /// The text of an error: its first argument, if that is one ("Errors").
    pub fn text(&self) -> Option<String> {
        let first = self.signature.starts_with('s');
        first.then(|| Reader::new(&self.bytes, self.body, self.big_endian).text().ok())?.map(str::to_owned)
    }

    /// How many bytes it has.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }
}

fn is_big_endian(start: &[u8; START]) -> Result<bool, Garbled> {
    match start {
        [b'l', ..] => Ok(false),
        [b'B', ..] => Ok(true),
        _ => Err(Garbled("its byte order is none")),
    }
}

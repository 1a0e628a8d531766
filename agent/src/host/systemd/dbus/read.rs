//! Values out of bytes: "Marshaling (Wire Format)" in the specification.

use super::{Garbled, LENGTH_MAX, signature};

/// How deep values may lie in each other, variants counted ("Valid Signatures", "Message Format").
const DEPTH_MAX: u8 = 64;
const CUT: Garbled = Garbled("it ends in the middle of a value");

/// A place in a message, from which values are read one after the other.
///
/// It ends where the array, the body or the header does that is read; places are counted from the message's begin, for
/// alignment is.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'m> {
    bytes: &'m [u8],
    at: usize,
    big_endian: bool,
}

/// A value that says of which type it is.
#[derive(Debug, Clone, Copy)]
pub struct Variant<'m> {
    /// A single complete type.
    pub signature: &'m str,
    /// The value, which has been checked.
    pub value: Reader<'m>,
}

impl<'m> Reader<'m> {
    pub(super) fn new(bytes: &'m [u8], at: usize, big_endian: bool) -> Self {
        Self { bytes, at, big_endian }
    }

    /// How many bytes have been read, from the message's begin.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Whether everything has been read.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn take(&mut self, length: usize) -> Result<&'m [u8], Garbled> {
        let end = self.at.checked_add(length).ok_or(CUT)?;
        let taken = self.bytes.get(self.at..end).ok_or(CUT)?;
        self.at = end;
        Ok(taken)
    }

    /// Goes on to a multiple; what lies between is zero.
    pub(super) fn align(&mut self, to: usize) -> Result<(), Garbled> {
        let padding = self.take(self.at.next_multiple_of(to) - self.at)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(Garbled("padding that is not zero"));
        }
        Ok(())
    }

    /// `y`.
    pub fn byte(&mut self) -> Result<u8, Garbled> {
        self.take(1)?.first().copied().ok_or(CUT)
    }

    /// `u`.
    pub fn number(&mut self) -> Result<u32, Garbled> {
        self.align(4)?;
        let bytes = self.take(4)?.try_into().map_err(|_| CUT)?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn length(&mut self) -> Result<usize, Garbled> {
        usize::try_from(self.number()?).map_err(|_| CUT)
    }

    /// `b`.
    pub fn flag(&mut self) -> Result<bool, Garbled> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbled("a truth value that is neither 0 nor 1")),
        }
    }

    /// `s`.
    pub fn text(&mut self) -> Result<&'m str, Garbled> {
        let length = self.length()?;
        self.ended_by_null(length)
    }

    /// `o`.
    pub fn path(&mut self) -> Result<&'m str, Garbled> {
        let path = self.text()?;
        if is_path(path) { Ok(path) } else { Err(Garbled("an object path that is none")) }
    }

    /// `g`.
    pub fn signature(&mut self) -> Result<&'m str, Garbled> {
        let length = self.byte()?;
        let text = self.ended_by_null(length.into())?;
        signature::check(text)?;
        Ok(text)
    }

    fn ended_by_null(&mut self, length: usize) -> Result<&'m str, Garbled> {
        let text = self.take(length)?;
        if self.byte()? != 0 || text.contains(&0) {
            return Err(Garbled("a text that doesn't end at its null byte"));
        }
        std::str::from_utf8(text).map_err(|_| Garbled("a text that is not UTF-8"))
    }

    /// An array: what reads its elements, which are of a type. It has to be read to its end.
    pub fn array(&mut self, element: &str) -> Result<Self, Garbled> {
        let length = self.length()?;
        // No need to look at the limit of 64 MiB ("Container types"): a message that long isn't read.
        const { assert!(LENGTH_MAX <= 64 << 20) };
        self.align(signature::alignment(element))?;
        let at = self.at;
        self.take(length)?;
        Ok(Self { bytes: self.bytes.get(..self.at).ok_or(CUT)?, at, big_endian: self.big_endian })
    }

    /// `as`.
    pub fn texts(&mut self) -> Result<Vec<String>, Garbled> {
        let mut array = self.array("s")?;
        let mut texts = Vec::new();
        while !array.is_at_end() {
            texts.push(array.text()?.to_owned());
        }
        Ok(texts)
    }

    /// Goes to where a struct begins, or an entry of a dictionary.
    pub fn begin_struct(&mut self) -> Result<(), Garbled> {
        self.align(8)
    }

    /// `v`.
    pub fn variant(&mut self) -> Result<Variant<'m>, Garbled> {
        self.variant_within(0)
    }

    fn variant_within(&mut self, depth: u8) -> Result<Variant<'m>, Garbled> {
        let signature = self.signature()?;
        let (single, "") = signature::first(signature)? else {
            return Err(Garbled("a variant of more than one type"));
        };
        let value = *self;
        self.skip_within(single, depth + 1)?;
        Ok(Variant { signature, value })
    }

    /// Checks all values of a signature and goes behind them.
    pub fn skip(&mut self, signature: &str) -> Result<(), Garbled> {
        self.skip_all(signature, 0)
    }

    fn skip_all(&mut self, mut signature: &str, depth: u8) -> Result<(), Garbled> {
        while !signature.is_empty() {
            let (single, rest) = signature::first(signature)?;
            self.skip_within(single, depth)?;
            signature = rest;
        }
        Ok(())
    }

    /// Checks one value of a single complete type.
    fn skip_within(&mut self, single: &str, depth: u8) -> Result<(), Garbled> {
        if depth > DEPTH_MAX {
            return Err(Garbled("more than 64 containers in each other"));
        }
        let inner = |from: usize, end: usize| single.get(from..single.len() - end).unwrap_or_default();
        match single.as_bytes().first() {
            Some(b'y') => self.byte().map(drop),
            Some(b'b') => self.flag().map(drop),
            Some(b's') => self.text().map(drop),
            Some(b'o') => self.path().map(drop),
            Some(b'g') => self.signature().map(drop),
            Some(b'v') => self.variant_within(depth).map(drop),
            // An index into the descriptors that came with the message: we let none come.
            Some(b'h') => Err(Garbled("a file descriptor that can't have been sent")),
            Some(b'n' | b'q' | b'i' | b'u' | b'x' | b't' | b'd') => {
                let size = signature::alignment(single);
                self.align(size)?;
                self.take(size).map(drop)
            }
            Some(b'(' | b'{') => {
                self.align(8)?;
                self.skip_all(inner(1, 1), depth + 1)
            }
            Some(b'a') => {
                let element = inner(1, 0);
                let mut array = self.array(element)?;
                while !array.is_at_end() {
                    if element == "y" {
                        break; // any byte is one
                    }
                    array.skip_within(element, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(Garbled("a value of no type")),
        }
    }
}

/// "Valid Object Paths".
fn is_path(path: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_element = |element: &str| !element.is_empty() && element.bytes().all(is_letter);
    path == "/" || path.strip_prefix('/').is_some_and(|path| path.split('/').all(is_element))
}
